"""Markdown whose tables also read well in a terminal, and in which text from data stays text."""

import re
from collections.abc import Sequence

from tabulate import tabulate

from keycontrast.cells import printable

_MARKS = re.compile(r"([\\`*_{}\[\]#|~!$])")
_WIDEST = 400


def escaped(text: object) -> str:
    """Return ``text`` on one line such that Markdown shows it as it is: no mark, tag, entity or link in it works.

    >>> escaped("a|b <b>*c*")
    'a\\\\|b &lt;b&gt;\\\\*c\\\\*'
    """
    line = printable(" ".join(str(text).split()))
    line = line if len(line) <= _WIDEST else line[:_WIDEST - 1] + "…"
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    # A bare address would become a link, and one letter before a dot or a bracket a list.
    line = _MARKS.sub(r"\\\1", line).replace("://", "\\://").replace("www.", "www\\.")
    return re.sub(r"^(\d+)([.)])", r"\1\\\2", re.sub(r"^([-+=])", r"\\\1", line))


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Return the lines of a table of Markdown cells, the first ``left`` columns aligned left."""
    sides = ["left"] * left + ["right"] * (len(heads) - left)
    return tabulate(rows, heads, "pipe", disable_numparse=True, colalign=sides).splitlines()
