"""Scores of a pipeline on a treebank, on gold tokens and on its own."""

from collections.abc import Iterable

from spacy.language import Language
from spacy.tokens import Doc

from stages.treebank.conllu import AS_WRITTEN, Sentence, Shape, build_doc, documents, without_annotation

Span = tuple[int, int]
LAYERS = ("tag", "pos", "lemma")


def evaluate_part(nlp: Language, sentences: list[Sentence]) -> dict[str, dict[str, float]]:
    """Score ``nlp`` on gold and on its own tokens, by sentence, by document, and on changed documents.

    A document has blank lines between its paragraphs, as in the source; ``run_on`` it is a single line,
    ``spaced`` there is a space after each token.

    Returns:
        For each way: ``token``, ``tag``, ``pos``, ``lemma`` and ``sentence``, each the F score (percent) of
        exact character spans, with their label where there is one; on gold tokens F is plain accuracy. For
        own tokens also ``*_on_shared``, accuracy over those tokens that the treebank has too. White space
        is not counted. Sentence scores of one sentence at a time only say how often it is kept whole.
    """
    whole = documents(sentences)
    views = {
        "sentences": ([[sentence] for sentence in sentences], AS_WRITTEN),
        "documents": (whole, AS_WRITTEN),
        "run_on": (whole, Shape(paragraphs=False)),
        "spaced": (whole, Shape(spaced=True)),
    }
    scores = {}
    for name, (texts, shape) in views.items():
        gold = [build_doc(nlp.vocab, text, shape) for text in texts]
        scores[f"gold_{name}"] = score_docs(gold, nlp.pipe(map(without_annotation, gold)))
        scores[f"own_{name}"] = score_docs(gold, nlp.pipe(doc.text for doc in gold))
    return scores


def score_docs(gold: Iterable[Doc], predicted: Iterable[Doc]) -> dict[str, float]:
    """Compare documents over the same texts, pair by pair; see ``evaluate_part`` for the scores."""
    same = dict.fromkeys(("token", "sentence", *LAYERS), 0)
    sizes = {"token": 0, "sentence": 0}
    for one, other in zip(gold, predicted, strict=True):
        mine, theirs = _tokens(one), _tokens(other)
        shared = mine.keys() & theirs.keys()
        sentences, found = _sentences(one), _sentences(other)
        same["token"] += len(shared)
        same["sentence"] += len(sentences & found)
        sizes["token"] += len(mine) + len(theirs)
        sizes["sentence"] += len(sentences) + len(found)
        for place, layer in enumerate(LAYERS):
            same[layer] += sum(mine[span][place] == theirs[span][place] for span in shared)
    scores = {name: 200 * same[name] / sizes[name] for name in sizes}
    for layer in LAYERS:
        scores[layer] = 200 * same[layer] / sizes["token"]
        scores[f"{layer}_on_shared"] = 100 * same[layer] / max(1, same["token"])
    return {name: round(score, 2) for name, score in sorted(scores.items())}


def _tokens(doc: Doc) -> dict[Span, tuple[str, str, str]]:
    """Return tag, part of speech and lemma of each token that is not white space, by character span."""
    return {
        (token.idx, token.idx + len(token)): (token.tag_, token.pos_, token.lemma_)
        for token in doc
        if not token.is_space
    }


def _sentences(doc: Doc) -> set[Span]:
    """Return the character spans of sentences without the white space at their ends."""
    spans = set()
    for sentence in doc.sents:
        words = [token for token in sentence if not token.is_space]
        if words:
            spans.add((words[0].idx, words[-1].idx + len(words[-1])))
    return spans
