"""What of a newsgroup post is not its author's text: headers, quotations, signature (METHODS D.4, ``ng_strip``).

Headers name the group's regulars, signatures and quotations likewise; a classifier that reads them learns people and
software, not topics. The paper does not say whether it took them off.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from stages.data.deduplication.text_keys import text_key
from stages.data.reading.rows import RawRow

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
