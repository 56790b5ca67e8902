"""Examples seen as keyword triples (k_x, k_y+, k_y-), in pandas alone, for where nothing else can be installed."""

import pandas as pd


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
