"""Keyphrases and keyword graphs of texts, without a recipe, params or artifacts.

    >>> from keycontrast import Keywords, keyword_graph
    >>> [phrase.text for phrase in Keywords().rank("My rice cooker burns the bottom layer.", top=2)[0]]
    ['rice cooker', 'bottom layer']
    >>> graph = keyword_graph(["A dog chases a ball.", "The ball hits a window.", "A dog barks at a window."])
    >>> sorted(graph.networkx()["ball"])
    ['dog', 'window']
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keycontrast.errors import InputError
    from keycontrast.graph import KeywordGraph, keyword_graph
    from keycontrast.keywords import Keywords, Phrase, Phrases, Texts
    from keycontrast.text.pipelines import load_pipeline

# Imported when they are asked for: stages and models need modules of this package, and not all of them.
_PLACES = {"InputError": "errors", "KeywordGraph": "graph", "keyword_graph": "graph", "Keywords": "keywords",
           "Phrase": "keywords", "Phrases": "keywords", "Texts": "keywords", "load_pipeline": "text.pipelines"}
__all__ = ["InputError", "KeywordGraph", "Keywords", "Phrase", "Phrases", "Texts", "keyword_graph", "load_pipeline"]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return version("keycontrast")
    if name not in _PLACES:
        raise AttributeError(f"module 'keycontrast' has no attribute {name!r}")
    return getattr(import_module(f"keycontrast.{_PLACES[name]}"), name)
