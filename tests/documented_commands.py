"""Every command that README.md and docs/*.md show: those of fenced blocks, and those that stand within a sentence."""

import re
import shlex
from pathlib import Path
from typing import NamedTuple

from source_imports import ROOT

PAGES = ("README.md", "CONTRIBUTING.md",
         *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md")))
PROGRAMS = ("keycontrast", "python", "dvc", "make")
# What stands for a name or a path of the reader's own.
PLACEHOLDERS = {"NAME", "DIR", "FILE", "FOLDER", "RUN", "MODEL", "TEXT", "DATASET", "RECIPE", "BLOCK", "STAGE",
                "PLACE=VALUE"}


class Command(NamedTuple):
    """A command as a page shows it: page and line, the program without a path before it, and its arguments."""

    place: str
    words: tuple[str, ...]
    whole: bool     # meant to be typed as it is; within a sentence arguments may be left out

    @property
    def program(self) -> str:
        return self.words[0]


def commands_of(page: str) -> list[Command]:
    """The commands that a page of the project shows, in order."""
    found, fence = [], ""
    for number, line in enumerate((ROOT / page).read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("```"):
            fence = "" if fence else line.removeprefix("```").strip() or "text"
            continue
        if fence == "sh":
            found += [Command(f"{page}:{number}", words, True) for words in _split(line, comments=True)]
        elif not fence and not line.startswith("#"):     # a heading may name a group of commands
            for span in re.findall(r"`([^`]+)`", line):
                if Path(span.split(" ")[0]).name in PROGRAMS and " " in span:
                    found += [Command(f"{page}:{number}", words, False) for words in _split(span, comments=False)]
    return found


def _split(line: str, comments: bool) -> list[tuple[str, ...]]:
    """The commands of a line of shell: without comments, redirections and variables set before a program."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, "#" if comments else ""
    parts: list[list[str]] = [[]]
    for word in lexer:
        if set(word) <= set("&|;"):
            parts.append([])
        else:
            parts[-1].append(word)
    found = []
    for part in parts:
        words = part[:part.index(">")] if ">" in part else part
        while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
            words = words[1:]
        if words and Path(words[0]).name in PROGRAMS:
            found.append((Path(words[0]).name, *words[1:]))
    return found
