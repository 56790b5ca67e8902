"""Which keyword conditions an output: the input's own, another node's, or one given by the user (HCL Table 4)."""

from collections.abc import Sequence

import pandas as pd

from keycontrast.errors import InputError, nearest
from stages.common.schemas import NO_KEYWORD
from stages.common.seeds import generator

_GIVEN = "given:"


def with_keywords(items: pd.DataFrame, setting: str, nodes: Sequence[str], seed: int) -> pd.DataFrame:
    """Return ``items`` with the column ``keyword`` as ``setting`` has it.

    A keyword need not be a node of the training graph: then it is a new node, whose vector is the frozen embedding of
    a text, column ``unseen_text``. For a text's own keyword that is the text; for a given one, which need not
    fit the text, it is the keyword itself.

    Args:
        items: columns ``example_id``, ``source``, ``keyword``.
        setting: ``own``; ``random``, for each item a node drawn by seed and example id alone, never its own keyword;
            or ``given:KEYWORD``, brought into normal form.
        nodes: keywords of the graph.
        seed: of the project.

    Raises:
        InputError: there is no other keyword to draw, or none is given.
    """
    own = items.assign(unseen_text=items["source"])
    if setting == "own":
        return own
    if setting == "random":
        words = sorted(set(nodes) - {NO_KEYWORD})
        drawn = [_another(word, words, seed, int(example))
                 for word, example in zip(items["keyword"], items["example_id"], strict=True)]
        return own.assign(keyword=pd.Series(drawn, index=items.index, dtype=object))
    word = given_keyword(setting)
    return own.assign(keyword=word, unseen_text=word)


def given_keyword(setting: str) -> str | None:
    """Return the keyword that ``setting`` gives, in normal form; None if it gives none.

    Raises:
        InputError: nothing stands behind ``given:``.
    """
    if not setting.startswith(_GIVEN):
        return None
    # Its package brings scipy along, which a machine that only trains may lack.
    from keycontrast.text.normal_form import normal_form

    word = normal_form(setting.removeprefix(_GIVEN))
    if not word:
        raise InputError("generate_hcl.keyword: no keyword stands behind 'given:'.")
    return word


def unseen_remark(setting: str, nodes: Sequence[str]) -> str | None:
    """Return what to say of a given keyword that is no node; None if there is nothing to say."""
    word = given_keyword(setting)
    if word is None or word in set(nodes):
        return None
    return (f"keyword {word!r} is no node of the training graph: its vector is the frozen embedding of the keyword "
            f"alone, without neighbours ({nearest(word, nodes)})")


def _another(word: str | None, words: Sequence[str], seed: int, example: int) -> str:
    """Return one of ``words``, sorted and distinct, other than ``word``."""
    place = pd.Index(words).get_indexer([word])[0] if words else -1
    others = len(words) - (place >= 0)
    if others < 1:
        raise InputError("generate_hcl.keyword: 'random' needs a second keyword in the graph; there is none.")
    drawn = int(generator(seed, "generate_hcl", "keyword", example).integers(others))
    return words[drawn + (0 <= place <= drawn)]
