"""Keyphrases and keyword graphs of texts, without a recipe, params or artifacts.

    >>> from keycontrast import Keywords, keyword_graph
    >>> [phrase.text for phrase in Keywords().rank("My rice cooker burns the bottom layer.", top=2)[0]]
    ['rice cooker', 'bottom layer']
    >>> graph = keyword_graph(["A dog chases a ball.", "The ball hits a window.", "A dog barks at a window."])
    >>> sorted(graph.networkx()["ball"])
    ['dog', 'window']

It works beside a caller's own ``models.py`` or ``stages/``: nothing here is imported under such a name.
"""

from importlib.metadata import version
from typing import TYPE_CHECKING

from keycontrast._code import code
from keycontrast.graphs import KeywordGraph, keyword_graph
from keycontrast.ranking import InputError, Keywords, Phrase, Phrases, Texts

if TYPE_CHECKING:
    from spacy.language import Language



def load_pipeline(name: str = "embedded") -> "Language":
    """Return a spaCy pipeline with parts of speech, lemmas and noun chunks.

        >>> nlp = load_pipeline()
        >>> _ = nlp.add_pipe("keycontrast_textrank")
        >>> [phrase.text for phrase in nlp("My rice cooker burns the bottom layer.")._.phrases]
        ['rice cooker', 'layer']

    Args:
        name: ``embedded``, which comes with this package, an installed spaCy package, or a folder with a slash in it.

    Raises:
        InputError: there is none of that name, or it lacks parts of speech or lemmas.
    """
    return code("stages.text.pipelines").load_pipeline(name)


__all__ = ["InputError", "KeywordGraph", "Keywords", "Phrase", "Phrases", "Texts", "keyword_graph", "load_pipeline"]
__version__ = version("keycontrast")
