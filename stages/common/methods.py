"""The ways to find keywords, each registered once, and the tables that name keywords.

A method is a module ``stages.keywords.<name>`` and its line here: from these lines params are checked, tables read
(the stages ``keywords`` and ``side_by_side``), stages wanted, and methods named on the page and in commands. The module
of a method that ranks phrases has two functions: ``ranker_of(settings, language, idf)``, which returns what makes its
table of tokens, and ``ranking(settings, language)``, which says how, for an explanation.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from stages.common.schemas import NO_KEYWORD, STRINGS, TableSchema

if TYPE_CHECKING:
    import pyarrow as pa

    from keycontrast.ranking.methods import Ranking
    from keycontrast.ranking.ranker import Ranked
    from keycontrast.ranking.selection import InverseFrequency

# What a table holds: ranked phrases of every text; scores of the words of source texts; the same, and which words are
# primary, the others being no candidates; none, for a method that needs none. Scores of a text paired with itself name
# its keyword; where a method names no keywords of a data set, only its sources are scored.
Holds = Literal["phrases", "scores", "primary words", "nothing"]


@dataclass(frozen=True)
class KeywordMethod:
    """A way to find keywords.

    Attributes:
        name: of the method, its module, its params block, its stage and its table.
        title: name on the page.
        holds: what its table holds.
        shown: what its column of table ``side_by_side`` holds.
        on_demand: whether its table is made for data sets only where something reads it.
        compared: whether ``side_by_side`` puts it beside the others.
    """

    name: str
    title: str
    holds: Holds
    shown: str
    on_demand: bool = True
    compared: bool = True

    @property
    def names_keywords(self) -> bool:
        """Whether ``keywords.method`` may name it."""
        return self.holds != "nothing"

    @property
    def needs_pairs(self) -> bool:
        """Whether it learns from pairs of texts, or reads them, so that labelled texts have none of it."""
        return self.holds in ("scores", "primary words")

    @property
    def ranks_phrases(self) -> bool:
        """Whether it ranks the phrases of any text from its tokens alone."""
        return self.holds == "phrases"

    def ranker(self, settings: Any, language: str,
               idf: "InverseFrequency | None" = None) -> "Callable[[pa.Table], Ranked]":
        """Return what ranks the phrases of token tables, for a method that ranks phrases.

        Args:
            settings: the method's params block.
            language: of the texts.
            idf: IDF over training texts, which breaks ties.
        """
        return self._module().ranker_of(settings, language, idf)

    def ranking(self, settings: Any, language: str) -> "Ranking":
        """Return how it ranks, likewise."""
        return self._module().ranking(settings, language)

    def _module(self) -> Any:
        """Return its module, by a relative name: the package ``keycontrast`` has a copy of ``stages`` of its own."""
        return import_module(f"..keywords.{self.name}", __package__)


_ALL = (
    KeywordMethod("textrank", "TextRank", "phrases", "phrases by the method of table textrank", on_demand=False),
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
# Those that may name keywords, those of them that any text has, and those whose tables something has to want.
NAMING = tuple(method.name for method in _ALL if method.names_keywords)
FOR_ANY_TEXT = tuple(method.name for method in _ALL if method.ranks_phrases)
ON_DEMAND = tuple(method.name for method in _ALL if method.names_keywords and method.on_demand)


# Descriptions are part of the table's bytes, by which trainings know whether they are up to date: a method that is not
# compared (embedrank) is not listed, though it may stand in the column.
KEYWORDS = TableSchema(
    "keywords", "The keyword of every text and how it was found.", ("text_id",), (
        ("text_id", pa.int64(), "text"),
        ("keyword", pa.string(), f"keyword in normal form; {NO_KEYWORD} where the text has none"),
        ("method", pa.string(), f"{', '.join(COMPARED_NAMING)}, idf (fall-back) or none"),
        ("score", pa.float64(), "score under that method; null for none"),
    ))

SIDE_BY_SIDE = TableSchema(
    "side_by_side", "The best keywords of each text by every method, best first.", ("text_id",), (
        ("text_id", pa.int64(), "text"),
        *((method.name, STRINGS, method.shown) for method in COMPARED.values()),
    ))
