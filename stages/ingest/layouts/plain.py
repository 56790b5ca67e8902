"""Plain texts, of which keywords and a keyword graph are made and nothing is learned: a column, or one text a line."""

from pathlib import Path

from stages.ingest.layouts.layout import Column, Layout


def _line(text: str, path: Path) -> dict[str, str]:
    return {"text": text}


LAYOUTS = (
    Layout("texts", "a text, without any label: keywords are made, and a graph of those that share a text", {
        "text": Column("a text", "text")}),
    Layout("text_lines", "the same, a text a line", {"text": Column("a text", "text")}, True, "none",
           forms=(".txt",), files="text files named .txt, one text a line", parse=_line),
)
