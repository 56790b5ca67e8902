"""Folders on their way to workers of a cluster, which have no such folder: a language pipeline, a trained network."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory


@dataclass(frozen=True)
class CarriedFolder:
    """A folder as a value.

    Attributes:
        files: content of each file by its path in the folder.
    """

    files: dict[str, bytes]

    @classmethod
    def of(cls, folder: Path) -> "CarriedFolder":
        """Return ``folder`` with all it holds."""
        return cls({path.relative_to(folder).as_posix(): path.read_bytes()
                    for path in sorted(folder.rglob("*")) if path.is_file()})

    @contextmanager
    def unpacked(self) -> Iterator[Path]:
        """Yield a folder with the same files, which is gone after the block."""
        with TemporaryDirectory(prefix="keycontrast-") as name:
            for inner, content in self.files.items():
                path = Path(name) / inner
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            yield Path(name)
