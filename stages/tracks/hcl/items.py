"""Examples with their texts and keywords joined: what an HCL model is trained and evaluated on."""

from dataclasses import dataclass

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class NodeIndex:
    """The keywords of the training graph by node id."""

    keywords: tuple[str, ...]

    def ids(self, keywords: pd.Series) -> np.ndarray:
        """Return node ids (n,) int64; -1 for keywords outside the graph and for missing ones."""
        return pd.Index(list(self.keywords)).get_indexer(keywords.astype(object)).astype(np.int64)


def keyword_triples(examples: pd.DataFrame, keywords: pd.DataFrame, split: str | None = "train") -> pd.DataFrame:
    """Return the keywords of each example's texts, sorted by example.

    Args:
        examples: table ``examples``.
        keywords: table ``keywords``; every text of ``examples`` has a row.
        split: only this split; None takes all.

    Returns:
        Columns ``example_id``, ``input_keyword``, ``output_keyword`` and ``negative_keyword`` (null where the
        example has no negative), plain strings.

    Raises:
        ValueError: a text of ``examples`` has no row in ``keywords``.
    """
    chosen = examples if split is None else examples[examples["split"] == split]
    chosen = chosen.sort_values("example_id")
    of_text = keywords.set_index("text_id")["keyword"].astype(object)
    columns = {name: chosen[column].map(of_text) for name, column in (
        ("input_keyword", "source_id"), ("output_keyword", "target_id"), ("negative_keyword", "negative_id"))}
    lost = columns["input_keyword"].isna() | columns["output_keyword"].isna()
    lost |= columns["negative_keyword"].isna() & chosen["negative_id"].notna()
    if lost.any():
        raise ValueError(f"example {chosen.loc[lost, 'example_id'].iloc[0]} refers to a text without keyword row")
    triples = pd.DataFrame({"example_id": chosen["example_id"], **columns})
    triples["negative_keyword"] = triples["negative_keyword"].where(triples["negative_keyword"].notna(), None)
    return triples.reset_index(drop=True)


def joined_items(examples: pd.DataFrame, texts: pd.DataFrame, keywords: pd.DataFrame,
                 nodes: pd.DataFrame) -> pd.DataFrame:
    """Return one row per example, sorted by ``example_id``.

    Args:
        examples: table ``examples``.
        texts: table ``texts``.
        keywords: table ``keywords``.
        nodes: table ``nodes``.

    Returns:
        Columns ``example_id``, ``split``, ``source``, ``target``, ``negative`` (null without one), ``negatives``
        (list of it, empty without one), ``keyword`` (of the source), ``target_keyword``, ``negative_keyword`` (null
        without a negative), ``input_node``, ``output_node``, ``negative_node`` (-1 outside the graph) and
        ``references`` (list, the target first).
    """
    rows = examples.sort_values("example_id").reset_index(drop=True)
    text = texts.set_index("text_id")["text"].astype(object)
    triples = keyword_triples(examples, keywords, split=None)
    index = NodeIndex(tuple(nodes.sort_values("node_id")["keyword"]))
    negative = rows["negative_id"].map(text)
    return pd.DataFrame({
        "example_id": rows["example_id"], "split": rows["split"],
        "source": rows["source_id"].map(text), "target": rows["target_id"].map(text),
        "negative": negative.where(negative.notna(), None),
        "negatives": [[] if pd.isna(one) else [one] for one in negative],
        "keyword": triples["input_keyword"], "target_keyword": triples["output_keyword"],
        "negative_keyword": triples["negative_keyword"],
        "input_node": index.ids(triples["input_keyword"]), "output_node": index.ids(triples["output_keyword"]),
        "negative_node": index.ids(triples["negative_keyword"]),
        "references": [text.loc[list(ids)].tolist() for ids in rows["reference_ids"]]})
