"""Texts without markup, formulas, emoji and the like for a language pipeline, and the places of what is left."""

import html
import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from re import Match, Pattern

from keycontrast.text.normal_form import BETWEEN_HAN, BETWEEN_LATIN, INVISIBLE

# With icon fonts (private use) and the sign that stands for an object.
_EMOJI = ("\U0001f000-\U0001faff\u2600-\u27bf\u2b00-\u2bff\u231a\u231b\u23e9-\u23fa\u25aa\u25ab\u25b6\u25c0"
          "\u25fb-\u25fe\u3030\u303d\u3297\u3299\U000e0020-\U000e007f\ufe0f\u20e3\ue000-\uf8ff\ufffc")
_BULLETS = "\u2022\u2023\u2043\u204c\u204d\u2219\u25cf\u25cb\u25e6\u25a0\u25a1\u25ba\u25c6\u25c7\u27a2\u2756"
# No rule below applies to such texts, which are most.
_PLAIN = re.compile(r"[^<>&\\$\[\]#{}!?\x00-\x08\x0b-\x1f\x7f-\U0010ffff]*")
# A command with braces, one of the usual ones without, a formula, or an accent within a word; but C:\name is a path.
_LATEX = re.compile(r"\\[A-Za-z]{2,}\*?\{|\\[(\[]|(?<=[A-Za-z])\\[\"`^~]\{?\\?[aeiounAEIOUN]|"
                    r"\\(?:alpha|beta|gamma|delta|epsilon|theta|lambda|mu|sigma|phi|omega|to|in|times|cdot|leq?|geq?|"
                    r"infty|sum|int|ldots|item|ell)(?![a-z])|\\[&%_]")
_ACCENTS = {'"': "\u0308", "'": "\u0301", "`": "\u0300", "^": "\u0302", "~": "\u0303", "c": "\u0327", "v": "\u030c"}
# A run of words without a lower-case letter, such as a headline.
_CAPITALS = re.compile(r"[^.!?;:\n\u2022]+")


@dataclass
class Cleaned:
    """A text, the places of its characters in the text as given, and the text with headlines in small letters."""

    text: str
    start: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)
    read: str = ""

    def replace(self, pattern: Pattern[str], put: Callable[[Match[str]], str], group: int = 0) -> None:
        """Replace each match of ``pattern`` by ``put(match)``; with ``group``, keep that group and drop the rest."""
        parts: list[str] = []
        start: list[int] = []
        end: list[int] = []
        done = 0
        for match in pattern.finditer(self.text):
            place, inner = match.start(), slice(*match.span(group))
            parts.append(self.text[done:place])
            start += self.start[done:place]
            end += self.end[done:place]
            if group:
                parts.append(self.text[inner])
                start += self.start[inner]
                end += self.end[inner]
            else:
                parts.append(put(match))
                # Text that is put between two characters has no place of its own.
                gap = self.end[place - 1] if place else 0
                start += [self.start[place] if match[0] else gap] * len(parts[-1])
                end += [self.end[match.end() - 1] if match[0] else gap] * len(parts[-1])
            done = match.end()
        if parts:
            self.text = "".join([*parts, self.text[done:]])
            self.start, self.end = start + self.start[done:], end + self.end[done:]

    def apply(self, rules: "Iterable[_Rule]") -> None:
        """Apply one of ``rules`` after the other."""
        for pattern, put, group in rules:
            self.replace(pattern, put, group)


def _accented(match: Match[str]) -> str:
    """Return the letter of a command of LaTeX for an accent; the command if there is no such letter."""
    accent, *_, letter = re.findall(r"[^\\{}]", match[0])
    composed = unicodedata.normalize("NFC", letter + _ACCENTS[accent])
    return composed if len(composed) == 1 else match[0]


def _glued(match: Match[str]) -> str:
    return "" if "://" in match.string[max(0, match.start() - 200):match.start()].split(" ")[-1] else " "


# Two line ends part phrases, a space does not.
_SPACE, _BREAK, _NOTHING, _HYPHEN, _APOSTROPHE = (
    (lambda match, text=text: text) for text in (" ", "\n\n", "", "-", "'"))
_FORUM = "b|i|u|s|url|img|quote|code|color|size|list|center|spoiler"
# Pattern, what is put in its place, and the group of it that stays, or 0.
_Rule = tuple[Pattern[str], Callable[[Match[str]], str], int]
_TAGS: list[_Rule] = [
    (re.compile(r"</?(?:p|br|hr|li|ul|ol|div|h[1-6]|table|t[rdh]|blockquote)\b[^<>]*>", re.IGNORECASE), _BREAK, 0),
    (re.compile(r"</?(?:\w+:)?(?:sub|wbr)\s*/?>", re.IGNORECASE), _NOTHING, 0),
    # Without an attribute, words behind the first are no tag: "if a<b and c>d".
    (re.compile(r"</?[A-Za-z][\w:.-]*+(?:\s[^<>=]*+=[^<>]*+)?\s*+/?>"), _SPACE, 0),
]
_MARKUP: list[_Rule] = [
    (re.compile(r"<(script|style)\b[^<>]*>(?:(?!<\1\b).)*?</\1\s*>", re.DOTALL | re.IGNORECASE), _BREAK, 0),
    (re.compile(r"<!--(?:(?!<!--).)*?-->|<!doctype[^<>]*>|<\?xml[^<>]*>", re.DOTALL | re.IGNORECASE), _SPACE, 0),
    *_TAGS,
    (re.compile(r"</[A-Za-z][A-Za-z0-9]*(?![A-Za-z0-9>])|<(?:br|hr|p|b|i|u|em|a|div|span|li|ul|td|tr)\s*+/?\s*+$"),
     _SPACE, 0),
    (re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});"),
     lambda match: html.unescape(match[0]), 0),
    *_TAGS,  # such as were escaped
    # Wikitext, Markdown and the marks of forums.
    (re.compile(r"\{\{[^{}|]*+\|[^{}]*+\}\}"), _BREAK, 0),
    (re.compile(r"\[\[(?:[^\[\]|]*\|)?([^\[\]|]+)\]\]"), _NOTHING, 1),
    (re.compile(r"!?\[([^\[\]]+)\]\((?=[a-z]+:|[/#.]|[^()\s]*?\.[a-z]{2,5}\b)[^()\s]*+(?:\s\"[^\"]*\")?\)"),
     _NOTHING, 1),
    (re.compile(rf"\[({_FORUM})(?:=[^\[\]]*)?\](?=.{{0,2000}}?\[/\1\])|\[/(?:{_FORUM})\]", re.DOTALL | re.IGNORECASE),
     _SPACE, 0),
    (re.compile(r"\[(?:\d{1,3}(?:[,\u2013-]\s?\d{1,3})*|(?:note|nb|ref) \d{1,3}|[a-z]|[a-z]+ needed|edit)\]",
                re.IGNORECASE), _SPACE, 0),
    # Formulas as Pandoc finds them, without "$5 and $10" and "cost ($), price ($)"; "$k$-means" keeps its letter.
    (re.compile(r"(?<![\w\\$])\$([A-Za-z]\w*)\$-(?=\w)"), lambda match: f"{match[1]}-", 0),
    (re.compile(r"(?<![\w\\$])\$(?![\s$)/,;]|\d[\d.,]*[\s)])(?:[^$\\]|\\.){1,300}?(?<!\s)\$(?![\w$])"), _BREAK, 0),
]
_OF_LATEX: list[_Rule] = [
    (re.compile(r"\\begin\{(equation|align|gather|multline|eqnarray|displaymath|array|tabular|verbatim|tikzpicture)\*?\}"
                r".{0,3000}?\\end\{\1\*?\}|\\\(.{1,300}?\\\)|\\\[.{1,300}?\\\]", re.DOTALL), _BREAK, 0),
    (re.compile(r"(?<!\\)\$\$?[^$]{1,300}?\$\$?"), _BREAK, 0),
    (re.compile(r"(\{)?\\(?:[\"'`^~]|[cv](?=\{))(\{)?\\?[A-Za-z](?(2)\})(?(1)\})"), _accented, 0),
    (re.compile(r"\\(?:cite\w*|(?:eq|auto|c)?ref|label|begin|end|includegraphics|href|url)\*?(?:\[[^\]]*\])*"
                r"\{[^{}]*\}"), _SPACE, 0),
    (re.compile(r"\\(?:item|par|newline|\\)(?![A-Za-z])"), _BREAK, 0),
    (re.compile(r"\\[A-Za-z]+\*?\{([^{}]*)\}"), _NOTHING, 1),
    (re.compile(r"\\([&%_#])"), _NOTHING, 1),
    (re.compile(r"\\[A-Za-z]+\*?|\\.|[{}$~]"), _SPACE, 0),
]
_LETTERS: list[_Rule] = [
    (re.compile(f"[{INVISIBLE}]|{BETWEEN_LATIN.pattern}"), _NOTHING, 0),
    (re.compile("[\u2010\u2011]"), _HYPHEN, 0),
    (re.compile(r"(?<=\w)\u2019(?=\w)"), _APOSTROPHE, 0),
    (re.compile(r"\x1b\[[0-9;?]*[A-Za-z]"), _NOTHING, 0),  # colours of a terminal
    (re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00a0\u2028]"), _SPACE, 0),
    (re.compile(rf"(?:[0-9#*]\ufe0f?\u20e3|[^\w\s]\ufe0f|[{_EMOJI}])[{_EMOJI}\u200d\ufe0e]*|[{_BULLETS}\u2029]"),
     _BREAK, 0),
    (re.compile(r"\w[\u0300-\u036f]+"), lambda match: unicodedata.normalize("NFC", match[0]), 0),
    (re.compile("[\ufb00-\ufb06\uff10-\uff19\uff21-\uff3a\uff41-\uff5a]"),
     lambda match: unicodedata.normalize("NFKC", match[0]), 0),
]
_SIGNS: list[_Rule] = [
    (re.compile(r"(?<![\w&/])#(?=\w*[^\W\d_])"), _SPACE, 0),
    (re.compile(r"(?<=[^\W\d_][!?])(?=[^\W\d_]{2})|(?<=[!?][!?])(?=[^\W\d_]{2})"), _glued, 0),
]


_GAP = re.compile(r"(?<!\s)\s{2,}")


def _one_break(match: Match[str]) -> str:
    """Return one paragraph break for the breaks of several tags, and nothing at the ends of a text."""
    if (match.start() == 0) != (match.end() == len(match.string)):
        return ""
    return "\n\n" if match[0].count("\n") > 1 else match[0]


def clean(text: str, chinese: bool = False) -> Cleaned:
    """Return ``text`` for a language pipeline; without places (empty lists) where nothing has changed."""
    if _PLAIN.fullmatch(text):
        return Cleaned(text, read=_small(text))
    cleaned = Cleaned(text, list(range(len(text))), list(range(1, len(text) + 1)))
    cleaned.apply(_MARKUP)
    if _LATEX.search(cleaned.text):
        cleaned.apply(_OF_LATEX)
    if not (cleaned.text.isascii() and cleaned.text.isprintable()):
        cleaned.apply(_LETTERS)
    cleaned.apply(_SIGNS)
    if chinese:
        cleaned.replace(BETWEEN_HAN, lambda match: "\n\n" if match[0].count("\n") > 1 else "")
    if cleaned.text != text:
        cleaned.replace(_GAP, _one_break)
    cleaned.read = _small(cleaned.text)
    return cleaned if cleaned.text != text else Cleaned(text, read=cleaned.read)


def _small(text: str) -> str:
    """Return ``text`` with headlines as sentences: runs of three words or more without a small letter."""
    if not any(word.isupper() and len(word) > 3 for word in text.split()):
        return text
    return _CAPITALS.sub(_as_sentence, text)


def _as_sentence(match: Match[str]) -> str:
    run = match[0]
    words = [word for word in run.split() if any(map(str.isalpha, word))]
    if len(words) < 3 or run != run.upper():
        return run
    small = run.lower()
    first = len(small) - len(small.lstrip())
    sentence = small[:first] + small[first:first + 1].upper() + small[first + 1:]
    return sentence if len(sentence) == len(run) else run    # places of letters stay
