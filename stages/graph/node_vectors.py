"""Give every node of the keyword graph its initial vector: a mean of frozen text embeddings (METHODS A.3).

Reads examples, texts, keywords and nodes of a data set; writes node_vectors.parquet and text_vectors.parquet. A node
averages the distinct input texts of the training split that have its keyword; a keyword never seen on an input averages
target texts, and one seen on neither averages negatives. Column `origin` says which. The embeddings themselves are kept
for trainings, which hide from each item what its own connected component contributed.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from models.encoders import load_encoder
from stages.artifacts.paths import DatasetPaths
from stages.artifacts.tables import Provenance, read_frame, write_table
from stages.data.schemas.items import EXAMPLES
from stages.data.schemas.texts import TEXTS
from stages.encoders import Chunk, Elsewhere, embed_texts, embedding_elsewhere, resolve_encoder
from stages.graph.schemas.graph import NODE_VECTORS, NODES, TEXT_VECTORS
from stages.keywords.schemas.keywords import KEYWORDS
from stages.runtime.cluster_map import Cluster
from stages.runtime.errors import InputError
from stages.runtime.precision import computed_in, computing
from stages.runtime.process import StageProcess, run_stage
from stages.runtime.progress import progress
from stages.runtime.seeds import seed_everything

STAGE = "node_vectors"
# In order of preference: which texts of an example stand for a keyword.
ORIGINS = {"input": "source_id", "output": "target_id", "negative": "negative_id"}


@dataclass(frozen=True)
class Vectors:
    """What :func:`run` makes: the columns of table ``node_vectors``, counts for its metadata, and ``text_vectors``."""

    columns: dict[str, list[Any]]
    counts: dict[str, int]
    texts: pa.Table


def run(examples: pd.DataFrame, texts: pd.DataFrame, keywords: pd.DataFrame, nodes: pd.DataFrame,
        encoder: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, values: Mapping[str, Any],
        track: Callable[[list[Chunk]], Iterable[Chunk]] = iter, elsewhere: Elsewhere | None = None) -> Vectors:
    """Return the mean embedding of the training texts that stand for each node, and the embeddings.

    Args:
        examples: table ``examples``; only the training split is looked at.
        texts: table ``texts``.
        keywords: table ``keywords``.
        nodes: table ``nodes``.
        encoder: frozen, in evaluation mode, on its device.
        tokenizer: of the encoder.
        values: plain values of the params block ``node_vectors``.
        track: wraps the list of chunks, to show progress.
        elsewhere: as :func:`stages.encoders.embed_texts` takes it.

    Raises:
        InputError: a node that no training text stands for, or a training text without keyword.
    """
    roles = text_roles(examples, keywords, nodes)
    chosen = node_texts(roles)
    stand_ins = roles.loc[_may_stand_in(roles) & ~roles["text_id"].isin(chosen["text_id"]), "text_id"].drop_duplicates()
    wanted = [_with_text(chosen, texts), _with_text(stand_ins.sort_values().to_frame(), texts)]
    longest = min(int(tokenizer.model_max_length), values["max_length"])
    vectors = np.empty((sum(map(len, wanted)), encoder.config.hidden_size), dtype=np.float32)
    node_ids = nodes["node_id"].sort_values().to_numpy()
    position = np.searchsorted(node_ids, chosen["node_id"].to_numpy())
    sums, start = np.zeros((len(node_ids), encoder.config.hidden_size)), 0
    for number, rows in enumerate(wanted):  # apart, so that stand-ins change no batch of those that are averaged
        for items, found in embed_texts(encoder, tokenizer, rows["text"].tolist(), values["batch_size"], longest,
                                        values["pooling"], track, elsewhere):
            vectors[np.array(items) + start] = found
            if number == 0:
                np.add.at(sums, position[items], found.astype(np.float64))
        start += len(rows)
    means = (sums / np.bincount(position, minlength=len(node_ids))[:, None]).astype(np.float32)
    origin = chosen.drop_duplicates("node_id").set_index("node_id")["origin"].loc[node_ids].tolist()
    counts = {f"origin_{name}": origin.count(name) for name in ORIGINS}
    ends = np.arange(len(vectors) + 1, dtype=np.int32) * vectors.shape[1]
    embedded = pa.table({"text_id": np.concatenate([rows["text_id"].to_numpy(dtype=np.int64) for rows in wanted]),
                         "vector": pa.ListArray.from_arrays(ends, vectors.ravel())})
    return Vectors({"node_id": node_ids.tolist(), "vector": list(means), "origin": origin},
                   {**counts, "texts": len(chosen)}, embedded)


def text_roles(examples: pd.DataFrame, keywords: pd.DataFrame, nodes: pd.DataFrame) -> pd.DataFrame:
    """Return the roles of training texts: columns text_id, rank (0, 1, 2 in order of ORIGINS), origin, group, node_id.

    A row for each connected component in which a text has a role. A text has one keyword, so it stands for one node at
    most.

    Raises:
        InputError: the tables are out of step.
    """
    train = examples[examples["split"] == "train"]
    roles = pd.concat([pd.DataFrame({"text_id": train[column], "rank": rank, "origin": name, "group": train["group"]})
                       for rank, (name, column) in enumerate(ORIGINS.items())]).dropna(subset="text_id")
    roles = roles.astype({"text_id": "int64"}).drop_duplicates()
    named = roles.merge(keywords[["text_id", "keyword"]], on="text_id", how="left")
    _complain(named.loc[named["keyword"].isna(), "text_id"], "keywords.parquet: no keyword for text", "keywords")
    placed = named.merge(nodes[["node_id", "keyword"]], on="keyword")
    _complain(nodes.loc[~nodes["node_id"].isin(placed["node_id"]), "keyword"],
              "nodes.parquet: no training text has the keyword", "graph")
    return placed.drop(columns="keyword")


def node_texts(roles: pd.DataFrame) -> pd.DataFrame:
    """Return which texts stand for each node: columns text_id (sorted, each once), node_id and origin."""
    chosen = roles[roles["rank"] == roles.groupby("node_id")["rank"].transform("min")]
    chosen = chosen[["text_id", "node_id", "origin"]].drop_duplicates()
    return chosen.sort_values("text_id", ignore_index=True)


def _may_stand_in(roles: pd.DataFrame) -> pd.Series:
    """Say which roles of texts may stand for their node where what one connected component contributed is hidden.

    They do if all better roles at the node are of that one component.
    """
    found = pd.Series(False, index=roles.index)
    for rank in range(1, len(ORIGINS)):
        better = roles[roles["rank"] < rank].groupby("node_id")["group"].nunique()
        found |= (roles["rank"] == rank) & ~roles["node_id"].isin(better.index[better > 1])
    return found


def _with_text(rows: pd.DataFrame, texts: pd.DataFrame) -> pd.DataFrame:
    found = rows.merge(texts[["text_id", "text"]], on="text_id", how="left")
    _complain(found.loc[found["text"].isna(), "text_id"], "texts.parquet: no text with id", "ingest")
    return found


def _complain(missing: pd.Series, what: str, stage: str) -> None:
    if len(missing):
        raise InputError(f"{what} {missing.tolist()[0]!r} (and {len(missing) - 1} more). The tables are out of "
                         f"step: run `keycontrast run`, or the stage {stage} and those after it, again.")


def _work(process: StageProcess) -> None:
    params, paths = process.params, DatasetPaths(process.instance)
    examples, texts, keywords, nodes = (read_frame(paths.table(schema.name), schema)
                                        for schema in (EXAMPLES, TEXTS, KEYWORDS, NODES))
    resolved = resolve_encoder(params.encoder.source)
    # Only `scratch` draws anything: one fixed random encoder, whatever the project's seed.
    seed_everything(0, params.runtime.threads, params.runtime.deterministic, params.runtime.tf32)
    try:
        encoder, tokenizer = load_encoder(resolved.location, pretrained=resolved.pretrained)
    except ValueError as error:
        raise InputError(f"encoder.source: {error}.") from error
    assert tokenizer is not None  # a location always has one
    with computing(params.runtime) as device:
        nn.Module.to(encoder, device)
        values, cluster = params.node_vectors.plain(), Cluster.of(params)
        elsewhere = None if cluster is None else embedding_elsewhere(
            params.encoder.source, values["pooling"], params.runtime.plain(), cluster, process.name)
        made = run(examples, texts, keywords, nodes, encoder, tokenizer, values,
                   lambda chunks: progress(chunks, process.name, unit="chunk"), elsewhere)
    models = {"encoder": resolved.description}
    precision = computed_in(params.runtime.precision, params.runtime.tf32)
    write_table(paths.table(STAGE), NODE_VECTORS, made.columns,
                Provenance(process.name, process.params_hash, models, dict(made.counts), precision=precision))
    write_table(paths.table(TEXT_VECTORS.name), TEXT_VECTORS, made.texts,
                Provenance(process.name, process.params_hash, models, precision=precision))


def main(argv: list[str] | None = None) -> int:
    """Run the stage for the data set named in ``argv``."""
    return run_stage(STAGE, _work, argv)


if __name__ == "__main__":
    sys.exit(main())
