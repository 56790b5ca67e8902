"""The keyword methods, each registered once, and the tables of keywords.

A method is a line here and, if it ranks phrases, a module ``stages.keywords.<name>`` with the function
``ranking(settings, language)``, which returns the ranking.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

import pyarrow as pa

from stages.common.schemas import NO_KEYWORD, STRINGS, TableSchema

# Content of a method's table: ranked phrases of every text; scores of the words of source texts; scores and the primary
# words, which alone are candidates; nothing, for a method without a table. The scores of a text paired with itself give
# its keyword. Where a method does not name the keywords of a data set, only the sources are scored.
Holds = Literal["phrases", "scores", "primary words", "nothing"]


@dataclass(frozen=True)
class KeywordMethod:
    """A way to find keywords."""

    name: str  # of its module, its params block, its stage and its table
    title: str  # on the page
    holds: Holds  # content of its table
    shown: str  # description of its column in table keyword_comparison
    compared: bool = True  # with the others, in keyword_comparison

    @property
    def names_keywords(self) -> bool:
        """Whether ``keywords.method`` may name it."""
        return self.holds != "nothing"

    @property
    def needs_pairs(self) -> bool:
        """Whether it reads pairs of texts, so that it cannot be used for single texts."""
        return self.holds in ("scores", "primary words")

    @property
    def ranks_phrases(self) -> bool:
        """Whether it ranks the phrases of any text from its tokens alone."""
        return self.holds == "phrases"

    @property
    def module(self) -> Any:
        """Its module, with ``ranking`` if it ranks phrases."""
        return import_module(f"stages.keywords.{self.name}")


_ALL = (
    KeywordMethod("textrank", "TextRank", "phrases", "phrases by the method of table textrank"),
    KeywordMethod("attribution", "attribution", "scores",
                  "words by gradient attribution; null for a text that was not scored"),
    KeywordMethod("psi", "PSI", "primary words",
                  "words by paired semantic importance; null for a text that was not scored"),
    KeywordMethod("yake", "YAKE", "phrases", "phrases by YAKE"),
    KeywordMethod("embedrank", "EmbedRank", "phrases", "phrases by EmbedRank", compared=False),
    KeywordMethod("idf", "IDF", "nothing", "words by inverse document frequency over the training texts"),
)
METHODS = {method.name: method for method in _ALL}
COMPARED = {method.name: method for method in _ALL if method.compared}
COMPARED_NAMING = tuple(method.name for method in _ALL if method.compared and method.names_keywords)
# Methods that may name keywords, and those of them that need single texts only.
NAMING = tuple(method.name for method in _ALL if method.names_keywords)
FOR_ANY_TEXT = tuple(method.name for method in _ALL if method.ranks_phrases)


# The description of `method` does not list embedrank: descriptions are part of the bytes.
KEYWORDS = TableSchema(
    "keywords", "The keyword of every text and how it was found.", ("text_id",), (
        ("text_id", pa.int64(), "text"),
        ("keyword", pa.string(), f"keyword in normal form; {NO_KEYWORD} where the text has none"),
        ("method", pa.string(), f"{', '.join(COMPARED_NAMING)}, idf (fall-back) or none"),
        ("score", pa.float64(), "score under that method; null for none"),
    ))

KEYWORD_COMPARISON = TableSchema(
    "keyword_comparison", "The best keywords of each text by every method, best first.", ("text_id",), (
        ("text_id", pa.int64(), "text"),
        *((method.name, STRINGS, method.shown) for method in COMPARED.values()),
    ))
