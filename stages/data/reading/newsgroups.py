"""20 Newsgroups as published: a folder per group, a file per post, named by its number."""

from collections.abc import Iterator
from pathlib import Path

from stages.data.reading.rows import RawRow, RowMaker
from stages.runtime.errors import InputError

_FALLBACK = "latin-1"


def read_posts(folder: Path, encoding: str, maker: RowMaker) -> Iterator[RawRow]:
    """Yield the posts of one group by rising number, which is the row; headers and signatures included.

    Posts do not say what they are written in. One that is not of ``encoding`` is read as Latin-1, to which every
    byte belongs.

    Raises:
        InputError: the folder holds something that is no post, or no post at all.
    """
    posts = sorted((_number(path), path) for path in folder.iterdir() if not path.name.startswith("."))
    if not posts:
        raise InputError(f"{folder}: holds no posts. Fetch the folder again, or take it out.")
    for number, path in posts:
        values = {"group": folder.name, "post": path.name, "text": _decoded(path.read_bytes(), encoding)}
        content = {role: values[column] for role, column in maker.layout.columns.items()}
        yield maker.row(number, content, tuple(values), tuple(values.values()))


def group_folders(folder: Path) -> list[Path]:
    """Return the folders of groups that ``folder`` stands for: itself, if it holds posts, else those inside, sorted.

    Raises:
        InputError: it holds neither posts nor folders.
    """
    inside = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    if any(path.is_file() for path in inside):
        return [folder]
    if not inside:
        raise InputError(f"{folder}: the folder is empty. Fetch it again, or name another one.")
    return inside


def _number(path: Path) -> int:
    if not path.is_file() or not (path.name.isascii() and path.name.isdigit()):
        raise InputError(f"{path}: is no post; those of layout newsgroups are files named by their number, one folder "
                         f"per group. Take it out of the folder.")
    return int(path.name)


def _decoded(content: bytes, encoding: str) -> str:
    try:
        return content.decode(encoding)
    except UnicodeDecodeError:
        return content.decode(_FALLBACK)
