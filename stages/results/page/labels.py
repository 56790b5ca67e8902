"""Readable names and numbers for the keys of metrics files."""

from collections.abc import Iterator, Mapping
from typing import Any

from stages.common.schemas import SPLITS

_LABELS = {
    "nodes": "keywords (nodes)", "edges_positive": "positive edges", "edges_negative": "negative edges",
    "self_pairs": "self pairs", "positive_self_pairs": "positive self pairs",
    "negative_self_pairs_dropped": "negative self pairs, dropped",
    "conflicts_resolved": "pairs of both signs, kept positive",
    "conflicts_kept_positive": "pairs of both signs, kept positive",
    "edges_capped": "edges beyond the cap per node", "cluster_outputs_capped": "outputs beyond the cap per cluster",
    "clusters_capped": "clusters that lost outputs", "components": "connected components",
    "largest_component": "keywords in the largest component", "largest_community": "keywords in the largest community",
    "modularity": "modularity of the communities", "centrality_residual": "change of centrality at its last iteration",
    "centrality_iterations": "iterations of the centrality",
    "share_with_negative_neighbour": "items with a negative neighbour",
    "share_input_equals_output": "input keyword = output keyword",
    "share_output_equals_negative": "output keyword = negative keyword",
    "share_own_negative_only": "items with only their own negative keyword",
    "share_masked": "items without any negative keyword (left out of the keyword contrasts)",
    "share_without_input_keyword": "inputs without keyword",
    "share_source_is_target": "input keyword = output keyword",
    "share_target_is_negative": "output keyword = negative keyword",
    "share_source_known": "input keyword is in the training graph",
    "triples_by_negative_source": "triples by source of negatives",
    "labelled_triples_by_rule": "labelled triples by rule",
    "fitting_items": "items that have what the probe wants", "filled_with_others": "others, to fill up",
    "expected_keywords": "expected keywords per source", "primary_words": "primary words per source",
    "outside_vocabulary": "share of words outside the vocabulary", "max_length": "words of a text that models read",
    "not_taken_by_reason": "not taken", "non_paraphrases": "non-paraphrases", "largest_texts": "texts in the largest",
}
# Metrics files are sorted by key; people read rows before texts, and the training split first.
_FIRST = ("rows", "read", "taken", "rejected", "pairs", "triples_by_negative_source", "labelled_triples_by_rule",
          "examples", *SPLITS, "nodes", "edges_positive", "edges_negative")
_STAGES = {"ingest": "Rows, triples and splits", "annotate": "Annotation", "textrank": "TextRank",
           "pair_classifier": "Pair classifier", "attribution": "Attribution", "word_vectors": "Word vectors",
           "psi": "PSI", "s_tagger": "S-Tagger", "keywords": "Keywords", "clusters": "Clusters", "graph": "Graph",
           "node_vectors": "Node vectors", "paraphrase_items": "Pairs as words (PGKPR)",
           "linear_floor": "Linear floor (CLLD)"}
_WORDS = {"kl": "KL", "ce": "cross-entropy", "f1": "F1"}


def label(key: str) -> str:
    """Return a readable name of one key: ``label("edges_positive") == "positive edges"``."""
    return _LABELS.get(key) or key.removeprefix("share_").replace("_", " ").strip()


def quantity_label(quantity: str) -> str:
    """Return a short readable name of a column of a training history."""
    return " ".join(_WORDS.get(word, word) for word in quantity.split("_"))


def stage_label(stage: str) -> str:
    """Return the heading for the counts of a stage."""
    return _STAGES.get(stage) or label(stage).capitalize()


def number(value: float, digits: int = 3) -> str:
    """Return a number for people: thousands apart, ``digits`` decimals unless it is whole."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.{digits}f}"


def percentage(share: float) -> str:
    """Return ``percentage(0.125) == "12.5\u00a0%"``, with a space that does not break."""
    return f"{100 * share:.1f}\u00a0%"


def value_text(value: Any, share: bool = False) -> str:
    """Return the text of one value; shares become percentages."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)) and share:
        return percentage(value)
    if isinstance(value, float) and 0 < abs(value) < 0.0005:
        return f"{value:.1e}"
    if isinstance(value, (int, float)):
        return number(value)
    return "none" if value is None else str(value)


def rows_of(counts: Mapping[str, Any], above: tuple[str, ...] = (), share: bool = False) -> Iterator[tuple[str, str]]:
    """Yield (label, text) of every number and word in nested ``counts``; lists are left out.

    Labels ``above`` stand before each; ``share``: everything in ``counts`` is a share.
    """
    for key, value in sorted(counts.items(), key=lambda item: _place(item[0])):
        shares = share or key.startswith(("share", "coverage"))
        if isinstance(value, Mapping):
            yield from rows_of(value, (*above, label(key)), shares)
        elif not isinstance(value, list):
            yield ": ".join((*above, label(key))), value_text(value, shares)


def _place(key: str) -> int:
    return _FIRST.index(key) if key in _FIRST else len(_FIRST)


def settings_text(changes: Mapping[str, Any]) -> str:
    """Return nested settings in one line: ``{"graph": {"iterations": 0}}`` gives ``graph.iterations = 0``."""
    return ", ".join(f"{name} = {value}" for name, value in _dotted(changes))


def _dotted(changes: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in changes.items():
        if isinstance(value, Mapping) and value:
            yield from _dotted(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value
