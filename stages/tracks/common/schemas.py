"""Tables that tracks have in common, and the strata of their scores."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from stages.common.schemas import NO_KEYWORD, STRINGS, TableSchema


@dataclass(frozen=True)
class Table:
    """A table of a model or a run."""

    name: str   # of the file
    rows: pd.DataFrame
    schema: TableSchema


ITEMS = TableSchema(
    "items", "What a model was trained and is evaluated on, as plain texts with keywords.", ("example_id",), (
        ("example_id", pa.int64(), "example of table examples"),
        ("split", pa.string(), "train, validation or test"),
        ("source", pa.string(), "input text"),
        ("target", pa.string(), "output text"),
        ("negatives", STRINGS, "negative texts, best first; empty where there is none"),
        ("keyword", pa.string(), "keyword of the input"),
        ("target_keyword", pa.string(), "keyword of the target"),
        ("negative_keyword", pa.string(), "keyword of the first negative; null where there is none"),
        ("references", STRINGS, "reference texts, the target first"),
    ))

PREDICTIONS = TableSchema(
    "predictions", "Generated texts of a run.", ("example_id", "sample"), (
        ("example_id", pa.int64(), "evaluated example"),
        ("sample", pa.int32(), "0 for z as the run has it (mean of the prior by default); 1.. for further draws"),
        ("source", pa.string(), "input text"),
        ("keyword", pa.string(), "keyword that conditioned the output; those of PGKPR and IANet joined by spaces; "
                                  "null if the model uses none"),
        ("keyword_known", pa.bool_(), "the keyword is a node of the training graph; true without a graph"),
        ("prediction", pa.string(), "generated text"),
        ("references", STRINGS, "reference texts"),
    ))

LIKELIHOODS = TableSchema(
    "likelihoods", "How likely a run finds the target of each evaluated example.", ("example_id",), (
        ("example_id", pa.int64(), "evaluated example"),
        ("nll", pa.float64(), "-log p of the target given the input (nats), as far as it is read and with its end "
                              "token; z is the mean of the prior, as in decoding"),
        ("tokens", pa.int32(), "word pieces of the target that count, the end token among them"),
    ))

_SCORES: tuple[tuple[str, pa.DataType, str], ...] = (
    ("system", pa.string(), "run, or a baseline: copy, nearest, shuffled, keyword"),
    ("example_id", pa.int64(), "evaluated example"),
    ("output", pa.string(), "text that was scored"),
    ("bleu_1", pa.float64(), "sentence BLEU of order 1 alone, smoothing method 7"),
    ("bleu_2", pa.float64(), "order 2 alone"),
    ("bleu_3", pa.float64(), "order 3 alone"),
    ("bleu_4", pa.float64(), "order 4 alone"),
    ("extrema", pa.float64(), "vector extrema cosine; null if the reference has no known word"),
    ("average", pa.float64(), "mean vector cosine; null likewise"),
    ("greedy", pa.float64(), "greedy matching, mean of both directions"),
    ("rouge_1", pa.float64(), "ROUGE-1 F1 as rouge_score counts it, stemmed, best reference"),
    ("rouge_2", pa.float64(), "ROUGE-2 likewise"),
    ("rouge_l", pa.float64(), "ROUGE-L likewise"),
    ("bertscore", pa.float64(), "BERTScore F1, raw, best reference; null if it was left out"),
    ("source_bleu_4", pa.float64(), "cumulative sentence BLEU-4 of the output against the source, smoothing "
                                    "method 7; lower means more rewriting"),
    ("keyword_kept", pa.bool_(), "the input keyword occurs in the output, by word stems; null without one"),
)

SCORES = TableSchema(
    "scores", "Scores of every evaluated example, of the run and of the baselines.", ("system", "example_id"), (
        *_SCORES,
        ("token_nll", pa.float64(), "nll of table likelihoods over its tokens; null for baselines"),
        ("cluster", pa.int64(), "training examples whose input has this input's keyword; 0 without one"),
        ("known", pa.bool_(), "a training item has this input's keyword, as that of its input, target or negative"),
    ))

PARAPHRASE_SCORES = TableSchema(
    "paraphrase_scores", "Scores of a run of the PGKPR track, in the place of scores.parquet; texts are words of "
                         "the language pipeline, joined by spaces.", ("system", "example_id"), (
        *_SCORES,
        ("py_rouge_1", pa.float64(), "ROUGE-1 F1 as py-rouge counts it: pooled over the references"),
        ("py_rouge_2", pa.float64(), "ROUGE-2 likewise"),
        ("py_rouge_l", pa.float64(), "ROUGE-L likewise"),
        ("released_py_rouge_1", pa.float64(), "ROUGE-1 likewise, of released_output and released_references"),
        ("released_py_rouge_2", pa.float64(), "ROUGE-2 likewise"),
        ("released_py_rouge_l", pa.float64(), "ROUGE-L likewise"),
        ("keywords_kept", pa.float64(), "share of the source's keywords (attribution from the source alone, fixed "
                                        "coins) that the output shows, by word stems; null without any"),
        ("released_output", pa.string(), "the output as PGKPR's code scores it: cut, [unk] for words outside the "
                                         "vocabulary"),
        ("released_references", STRINGS, "references likewise"),
    ))

LATENT = TableSchema(
    "latent", "Points of the latent space of some items, and where t-SNE puts them (HCL Figure 3).",
    ("example_id", "kind"), (
        ("example_id", pa.int64(), "example of table examples"),
        ("kind", pa.string(), "input (mu of the prior), positive and negative (mu of the posterior), "
                              "output_keyword and impostor_keyword (P u)"),
        ("text", pa.string(), "the text, or the keyword"),
        ("x", pa.float64(), "first coordinate of t-SNE"),
        ("y", pa.float64(), "second coordinate"),
        ("vector", pa.list_(pa.float32()), "the point itself; all rows have the latent width"),
    ))

KEYWORD_SWAP = TableSchema(
    "keyword_swap", "The same input rewritten under other keywords (HCL Table 4).", ("example_id", "choice"), (
        ("example_id", pa.int64(), "example of table examples"),
        ("choice", pa.string(), "own (the keyword of the input), random or given"),
        ("keyword", pa.string(), "keyword that conditioned the prior"),
        ("keyword_known", pa.bool_(), "it is a node of the training graph"),
        ("source", pa.string(), "input text"),
        ("prediction", pa.string(), "generated text"),
        ("reference", pa.string(), "target text"),
        ("shows_keyword", pa.bool_(), "the keyword occurs in the output, by word stems"),
        ("same_as_own", pa.bool_(), "the output is the one under the input's own keyword"),
    ))

# The trivial baselines, and their descriptions for readers.
BASELINES: Mapping[str, str] = {
    "copy": "returns the source unchanged; often hard to beat on BLEU although it rewrites nothing",
    "nearest": "returns the target of the most similar training source: retrieval without any model",
    "shuffled": "gives every source another item's reference",
    "keyword": "gives the keyword alone"}


@dataclass(frozen=True)
class Stratum:
    """Evaluated items grouped by how often the keyword of their input occurs in training."""

    name: str       # in tables and ``metrics.json``
    title: str
    meaning: str    # what its items have in common
    holds: Callable[[pd.DataFrame], np.ndarray]     # given rows of table scores, which belong to it (n,) bool


STRATA = {stratum.name: stratum for stratum in (
    Stratum("cluster3", "cluster of 3", "three training inputs or more have the input's keyword",
            lambda rows: rows["cluster"].to_numpy() >= 3),
    Stratum("known", "known", "a training item has the input's keyword, as that of input, target or negative",
            lambda rows: rows["known"].to_numpy(bool)),
    Stratum("unseen", "unseen", "training has not seen the input's keyword",
            lambda rows: ~rows["known"].to_numpy(bool)))}


def keyword_columns(items: pd.DataFrame, example_ids: pd.Series) -> dict[str, Any]:
    """Return columns ``cluster`` and ``known`` of evaluated examples (n,), by the keywords of all training items."""
    training = items[items["split"] == "train"]
    nodes = pd.concat([training[name] for name in ("keyword", "target_keyword", "negative_keyword")])
    sizes = training["keyword"].value_counts().drop(NO_KEYWORD, errors="ignore")
    own = items.set_index("example_id")["keyword"].loc[example_ids]
    return {"cluster": own.map(sizes).fillna(0).astype("int64").to_numpy(),
            "known": own.isin(nodes.dropna()).to_numpy()}
