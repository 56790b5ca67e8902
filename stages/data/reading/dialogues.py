"""Text files of dialogues, one per line, without a header."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from stages.data.layouts.dialogue import line_of_turns, line_with_samples
from stages.data.reading.rows import RawRow, RowMaker
from stages.data.reading.text import character_problem, is_sound, printable, text_lines
from stages.runtime.errors import InputError

_LINES: dict[str, Callable[[str], dict[str, Any]]] = {
    "douban_dialogue": line_of_turns, "groupwise_dialogue": line_with_samples}


def read_turns(path: Path, encoding: str, maker: RowMaker) -> Iterator[RawRow]:
    """Yield the dialogues of a text file, as the layout says; empty lines are passed over.

    Raises:
        InputError: the file has no rows, or is not text of the encoding.
    """
    parse, rows = _LINES[maker.layout.name], 0
    for number, line in enumerate(text_lines(path, encoding), start=1):
        text = line.rstrip("\r\n")
        if not text.strip():
            continue
        rows += 1
        if not is_sound(line):
            yield maker.broken(number, printable(text), character_problem(line, encoding, number))
            continue
        try:
            content = parse(text)
        except ValueError as error:
            yield maker.broken(number, text, f"{error}, in line {number}")
            continue
        yield maker.row(number, content, tuple(content), tuple(content.values()))
    if not rows:
        raise InputError(f"{path}: the file has no rows.")
