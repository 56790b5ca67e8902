"""Errors that a person can act on: what is wrong, where it is, and what to do next."""

from collections.abc import Iterable
from difflib import get_close_matches


class InputError(Exception):
    """Something that a person gave us cannot be used.

    The message names the place (file, row, column, parameter) and the remedy. Command lines print the
    message alone, without a traceback, and exit with status 1.
    """


def nearest(name: str, valid: Iterable[str]) -> str:
    """Return a hint such as ``did you mean 'seed'? `` for a misspelt ``name``, with all valid names if few.

    Args:
        name: what was written.
        valid: the names that would have been right.

    Returns:
        One sentence, never empty.
    """
    names = sorted({str(item) for item in valid})
    close = get_close_matches(str(name), names, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    if not names:
        return "nothing is available here."
    shown = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    return f"valid names: {shown}."
