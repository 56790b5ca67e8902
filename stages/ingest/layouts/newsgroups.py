"""20 Newsgroups as published, a folder per group and a file per post, and what of a post is not its author's text.

Headers name the group's regulars, signatures and quotations likewise; a classifier that reads them learns people and
software, not topics. The paper does not say whether it took them off.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from keycontrast.errors import InputError
from stages.ingest.deduplication.text_keys import text_key
from stages.ingest.layouts.layout import Column, Layout
from stages.ingest.reading.rows import RawRow, RowMaker

_FALLBACK = "latin-1"

_HEADER = re.compile(r"[A-Za-z][A-Za-z-]*:")
_BLANK = re.compile(r"\r?\n[ \t]*\r?\n")
# A mark of quotation, perhaps behind the initials of who is quoted.
_QUOTED = re.compile(r"\s{0,3}(?:[A-Za-z]{0,4}>|\||:\s)")
_ATTRIBUTION = re.compile(r"\s*In article\s*<|.*\b(?:writes|wrote|says|said)\s*(?:[:,]|\.\.\.)?\s*$", re.IGNORECASE)
# "-- " is the delimiter of RFC 3676; a rule of other signs near the end is used for the same.
_SIGNATURE = re.compile(r"--\s*|([-_=*~#+])\1{4,}\s*")
_SIGNATURE_LINES = 12


def without_headers(post: str) -> str:
    """Return what follows the first blank line, if ``post`` begins with a header."""
    if not _HEADER.match(post):
        return post
    blank = _BLANK.search(post)
    return post[blank.end():] if blank else post


def without_quotations(body: str) -> str:
    """Return ``body`` without quoted lines and those that say who is quoted."""
    kept = [line for line in body.split("\n") if not _QUOTED.match(line) and not _ATTRIBUTION.match(line.rstrip())]
    return "\n".join(kept)


def without_signature(body: str) -> str:
    """Return ``body`` up to the first line of dashes or other signs among its last twelve lines."""
    lines = body.rstrip().split("\n")
    for place in range(max(0, len(lines) - _SIGNATURE_LINES), len(lines)):
        if _SIGNATURE.fullmatch(lines[place]):
            return "\n".join(lines[:place])
    return body


_STEPS: Mapping[str, tuple[Callable[[str], str], ...]] = {
    "none": (), "headers": (without_headers,),
    "headers_footers_quotes": (without_headers, without_quotations, without_signature)}


def strip_post(post: str, how: str) -> str:
    """Return ``post`` without what ``how`` (``ng_strip``) names.

    A step that would leave no letter and no digit is left out, so that no post of a published split is lost.
    """
    for step in _STEPS[how]:
        shorter = step(post)
        if text_key(shorter):
            post = shorter
    return post


def stripped_posts(rows: Iterable[RawRow], how: str) -> Iterator[RawRow]:
    """Yield ``rows`` with their texts stripped; what is shown of a row that is not taken stays as it was read."""
    for row in rows:
        if how != "none" and not isinstance(row.content, str) and isinstance(row.content.get("text"), str):
            shown = (row.names, row.values) if row.names else (tuple(row.content), tuple(row.content.values()))
            content = {**row.content, "text": strip_post(row.content["text"], how)}
            row = row._replace(content=content, names=shown[0], values=shown[1])
        yield row


def _read_posts(folder: Path, encoding: str, maker: RowMaker) -> Iterator[RawRow]:
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


def _group_folders(folder: Path) -> list[Path]:
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


LAYOUTS = (
    Layout("newsgroups", "a post of 20 Newsgroups, a file in the folder of its group", {
        "text": Column("the post", "text"), "label": Column("its group", "group", values="name")}, True, "none",
        files="the folders `20news-bydate-train` and `-test`",
        splits={"train": "20news-bydate-train", "test": "20news-bydate-test"}, folders=_group_folders,
        read=_read_posts),
)
