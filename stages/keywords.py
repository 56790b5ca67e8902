"""Choose one keyword per text from its ranking, with ties and fall-backs settled in words, not by chance."""

import sys
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from stages.artifacts.paths import DatasetPaths
from stages.artifacts.schemas import SCHEMAS
from stages.artifacts.tables import Provenance, read_frame, read_metadata, read_table, write_json, write_table
from stages.params.data import Keywords
from stages.ranking.candidates import STALE, candidates
from stages.ranking.selection import InverseFrequency, choose
from stages.runtime.errors import InputError
from stages.runtime.process import StageProcess, run_stage


@dataclass(frozen=True)
class Chosen:
    """What the stage makes: the table ``keywords``, its counts, and a sentence per fall-back taken."""

    keywords: pa.Table
    counts: dict[str, Any]
    fallbacks: list[str]


def run(tokens: pa.Table, ranking: pa.Table, examples: pd.DataFrame, params: Keywords) -> Chosen:
    """Choose the keyword of every text (METHODS A.2).

    Args:
        tokens: table ``tokens``.
        ranking: table ``textrank`` or ``attribution``, as ``params.method`` says. Attribution scores source
            texts only; other texts fall back to IDF, which is recorded.
        examples: table ``examples``; IDF counts the texts of training examples and no others.
        params: the method.

    Raises:
        InputError: the tables do not belong together.
    """
    ids = tokens["text_id"].to_pylist()
    words = dict(zip(ids, tokens["token"].to_pylist(), strict=True))
    stops = dict(zip(ids, tokens["is_stop"].to_pylist(), strict=True))
    train = _text_ids(examples[examples["split"] == "train"])
    _check_ids(_text_ids(examples) - words.keys(), "tokens")
    idf = InverseFrequency.over(words[text] for text in sorted(train))
    found = candidates(params.method, ranking, words, stops)
    chosen = {text: choose(found.get(text, []), params.method, words[text], stops[text], idf)
              for text in sorted(words)}
    table = pa.table({"text_id": list(chosen), "keyword": [c.keyword for c in chosen.values()],
                      "method": [c.method for c in chosen.values()], "score": [c.score for c in chosen.values()]},
                     schema=SCHEMAS["keywords"].arrow())
    counts = _counts({text: c.keyword for text, c in chosen.items()}, examples, train,
                     Counter(c.method for c in chosen.values()))
    return Chosen(table, counts, _fallbacks(counts["texts_by_method"], len(words.keys() - found.keys())))


def _text_ids(examples: pd.DataFrame) -> set[int]:
    negatives = examples["negative_id"].dropna().astype("int64")
    return set(np.concatenate([examples["source_id"], examples["target_id"], negatives]).tolist())


def _check_ids(missing: set[int], kind: str) -> None:
    if missing:
        raise InputError(f"{kind}.parquet: {len(missing)} texts, the first of them {min(missing)}, are not in both "
                         f"tables; {STALE}")


def _counts(keyword: dict[int, str], examples: pd.DataFrame, train: set[int], methods: Counter[str]) -> dict[str, Any]:
    """Return the shares that bound what a contrast can do (METHODS A.3), and how much of the data is covered."""
    roles = {role: examples[f"{role}_id"].map(keyword) for role in ("source", "target", "negative")}
    learned = examples["split"] == "train"
    contrasted = learned & examples["negative_id"].notna()
    known = {keyword[text] for text in train}
    seen = roles["source"].isin(known)
    return {
        "texts_by_method": {name: methods[name] for name in sorted(methods)},
        "keywords": {"distinct": len(set(keyword.values())), "distinct_in_training": len(known)},
        "share_source_is_target": _share((roles["source"] == roles["target"])[learned]),
        "share_target_is_negative": _share((roles["target"] == roles["negative"])[contrasted]),
        "share_source_known": {split: _share(seen[examples["split"] == split]) for split in ("validation", "test")},
    }


def _share(hits: pd.Series) -> float | None:
    """Return the mean of ``hits``; None where there is nothing to count."""
    return round(float(hits.mean()), 6) if len(hits) else None


def _fallbacks(methods: dict[str, int], unscored: int) -> list[str]:
    sentences = []
    if unscored:
        sentences.append(f"{unscored} texts have no attribution (only sources have): their keyword is by IDF")
    if methods.get("idf", 0):
        sentences.append(f"{methods['idf']} texts have no ranked keyword: the word of highest IDF was taken")
    if methods.get("none", 0):
        sentences.append(f"{methods['none']} texts have no keyword at all")
    return sentences


def _work(process: StageProcess) -> None:
    from stages.params import load_params, stage_hash

    params = load_params()
    paths = DatasetPaths(process.instance)
    ranking = paths.table(params.keywords.method)
    made = run(read_table(paths.table("tokens"), "tokens"), read_table(ranking, params.keywords.method),
               read_frame(paths.table("examples"), "examples"), params.keywords)
    for sentence in made.fallbacks:
        process.log.info(sentence)
    write_table(paths.table("keywords"), "keywords", made.keywords, Provenance(
        stage=process.name, params_hash=stage_hash(params, "keywords", process.instance),
        models=read_metadata(ranking).get("models", {}), counts=made.counts, fallbacks=made.fallbacks))
    write_json(paths.metrics("keywords"), made.counts)


def main(argv: list[str] | None = None) -> int:
    """Run the stage; see ``--help``."""
    return run_stage("keywords", _work, argv)


if __name__ == "__main__":
    sys.exit(main())
