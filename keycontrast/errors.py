"""Errors that a person can act on: what is wrong, where it is, and what to do next."""

import errno
import os
import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import Path

# Exit status of a stage that crashed, so that a retry may help. An error that the user must correct has status 1.
CRASHED = 70
# Reasons why a file cannot be read or written, with the remedy.
_UNWRITTEN = {
    errno.ENOSPC: ("the disk is full", "Free some space"),
    errno.EDQUOT: ("the quota of disk space is used up", "Free some space"),
    errno.EROFS: ("that file system is read-only", "Choose another path, or make it writable"),
    errno.EACCES: ("this user has no permission for it", "Choose another path, or change its permissions (ls -l)"),
    errno.EPERM: ("this user has no permission for it", "Choose another path, or change its permissions (ls -l)"),
    errno.EFBIG: ("files may not grow so large here", "Raise the limit (ulimit -f), or choose another path"),
    errno.ENOTDIR: ("a file has the name of a needed folder", "Move the file away, or choose another path"),
    errno.EEXIST: ("a file has the name of a needed folder", "Move the file away, or choose another path"),
    errno.ENAMETOOLONG: ("the name is too long", "Choose a shorter name"),
    errno.EBUSY: ("the system uses that path", "Choose another path"),
    errno.EISDIR: ("a folder has the name of the file", "Move the folder away, or choose another path"),
}
# Control characters, marks of direction, halves of surrogate pairs.
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
# Libraries that are not written in Python raise errors of their own with the system's words in them.
_FOREIGN = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EFBIG)


class InputError(Exception):
    """Bad input of a person: the message names the place (file, row, column, parameter) and the remedy.

    Command lines print the message alone, without a traceback or control characters, and exit with status 1.
    """

    def __init__(self, message: str) -> None:
        super().__init__(plain(message))


class Faults:
    """Faults of a table that is read piece by piece, reported once all of it has been read."""

    def __init__(self) -> None:
        self._count = 0
        self._told: Callable[[int], str] | None = None

    def add(self, count: int, message_of: Callable[[int], str]) -> None:
        """Count faults of a piece; ``message_of`` returns the message of the first, given the count of the others."""
        self._count += count
        if count and self._told is None:
            self._told = message_of

    def check(self) -> None:
        """Raise what was found."""
        if self._told is not None:
            raise InputError(self._told(self._count - 1))


def plain(text: str, keep: str = "\n\t") -> str:
    """Return ``text`` with control characters, turns of direction and lone surrogates as escapes, except ``keep``."""
    return _UNSEEN.sub(lambda match: match[0] if match[0] in keep else
                       match[0].encode("unicode_escape").decode("ascii"), text)


def nearest(name: str, valid: Iterable[str]) -> str:
    """Return a hint such as ``did you mean 'seed'?`` for a misspelt ``name``, or valid names; never empty."""
    names = sorted({str(item) for item in valid})
    close = get_close_matches(str(name), names, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    if not names:
        return "there is none."
    shown = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    return f"valid names: {shown}."


def unwritten(error: BaseException) -> str | None:
    """Return place, reason and remedy if ``error`` says that a file could not be read or written; else None."""
    number = error.errno if isinstance(error, OSError) else None
    if number is None:
        number = next((known for known in _FOREIGN if os.strerror(known) in str(error)), None)
    if number not in _UNWRITTEN:
        return None
    reason, remedy = _UNWRITTEN[number]
    named = next(iter(getattr(error, "__notes__", ())), getattr(error, "filename", None))
    if not isinstance(named, str | os.PathLike):
        named = f"a file of {Path.cwd()}, or the output"
    return f"{plain(os.fspath(named))}: could not be read or written: {reason}. {remedy}, and run the command again."


def causes(error: BaseException | None) -> list[BaseException]:
    """Return ``error`` and what caused it."""
    return [] if error is None else [error, *causes(error.__cause__)]


def messages(error: BaseException) -> str:
    """Return the messages of ``error`` and of its causes, one a line."""
    return "\n  ".join(dict.fromkeys(text for cause in causes(error) if (text := str(cause).strip())))
