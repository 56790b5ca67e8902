"""Give every node of the keyword graph its initial vector: a mean of frozen text embeddings (HCL section 3.2.2).

A node averages the distinct input texts of the training split that have its keyword; without any it averages target
texts, and without these negatives. The embeddings are written too, since training hides from each item what its own
connected component contributed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keycontrast.errors import InputError
from keycontrast.progress import progress
from keycontrast.text.batches import Chunk
from models.common.encoders import load_encoder
from stages.common.device import computed_in, computing
from stages.common.encoders import embed_texts, resolve_encoder
from stages.common.lookup import Lookup
from stages.common.methods import KEYWORDS
from stages.common.paths import DatasetPaths
from stages.common.schemas import EXAMPLES, IN_GRAPH, NODE_VECTORS, NODES, TEXT_VECTORS, TEXTS
from stages.common.seeds import seed_everything
from stages.common.tables import Provenance, read_batches, read_table, table_writer
from stages.run.process import StageProcess, run_stage

STAGE = "node_vectors"
# Which texts of an example stand for a keyword, in order of preference.
ORIGINS = {"input": "source_id", "output": "target_id", "negative": "negative_id"}
# Rows that are written at once, and rows of keywords that are read at once.
_PIECE, _KEYWORDS = 8192, 1 << 17


@dataclass(frozen=True)
class Vectors:
    """Sums of text embeddings by node, and the embeddings."""

    node_ids: np.ndarray  # (N,), ascending
    origins: np.ndarray   # (N,), index into ORIGINS
    sums: np.ndarray      # (N, d) float64, of the embeddings of its texts
    sizes: np.ndarray     # (N,), numbers of its texts
    text_ids: np.ndarray  # (T,), of the embedded texts
    embedded: np.ndarray  # (T, d) float32

    def nodes(self) -> Iterator[pa.Table]:
        """Yield table ``node_vectors``, in pieces."""
        names = pa.array(list(ORIGINS))
        for start in range(0, len(self.node_ids), _PIECE):
            piece = slice(start, start + _PIECE)
            means = (self.sums[piece] / self.sizes[piece, None]).astype(np.float32)
            yield pa.table({"node_id": self.node_ids[piece], "vector": _lists(means),
                            "origin": names.take(pa.array(self.origins[piece]))})

    def texts(self) -> Iterator[pa.Table]:
        """Yield table ``text_vectors``, in pieces."""
        order = np.argsort(self.text_ids)
        for start in range(0, len(order), _PIECE):
            rows = order[start:start + _PIECE]
            yield pa.table({"text_id": self.text_ids[rows], "vector": _lists(self.embedded[rows])})

    @property
    def counts(self) -> dict[str, int]:
        """Counts for the metadata: nodes by origin, and the texts that they average."""
        nodes = np.bincount(self.origins, minlength=len(ORIGINS)).tolist()
        return {**{f"origin_{name}": count for name, count in zip(ORIGINS, nodes, strict=True)},
                "texts": int(self.sizes.sum())}


def _lists(vectors: np.ndarray) -> pa.ListArray:
    ends = np.arange(len(vectors) + 1, dtype=np.int32) * vectors.shape[1]
    return pa.ListArray.from_arrays(ends, vectors.ravel())


def run(roles: pd.DataFrame, node_ids: np.ndarray, texts: Lookup, encoder: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase, values: Mapping[str, Any],
        track: Callable[[list[Chunk]], Iterable[Chunk]] = iter) -> Vectors:
    """Return the mean embedding of the training texts that stand for each node, and the embeddings.

    ``roles`` are those of :func:`text_roles`; ``node_ids`` (N,) are ascending; ``track`` wraps the list of chunks to
    show progress.
    """
    chosen = node_texts(roles)
    stand_ins = roles.loc[_may_stand_in(roles) & ~roles["text_id"].isin(chosen["text_id"]), "text_id"]
    wanted = [chosen["text_id"].to_numpy(), np.unique(stand_ins.to_numpy())]
    longest, width = min(int(tokenizer.model_max_length), values["max_length"]), encoder.config.hidden_size
    position = np.searchsorted(node_ids, chosen["node_id"].to_numpy())
    embedded, sums = np.zeros((sum(map(len, wanted)), width), np.float32), np.zeros((len(node_ids), width))
    start = 0
    for number, ids in enumerate(wanted):  # separately, so that stand-ins do not change the batches of averaged texts
        for items, vectors in embed_texts(encoder, tokenizer, texts.of(ids)["text"].to_pylist(), values["batch_size"],
                                          longest, values["pooling"], track):
            embedded[items + start] = vectors
            if number == 0:
                np.add.at(sums, position[items], vectors.astype(np.float64))
        start += len(ids)
    origins = np.zeros(len(node_ids), dtype=np.int8)
    origins[position] = chosen["rank"].to_numpy()
    return Vectors(node_ids, origins, sums, np.bincount(position, minlength=len(node_ids)), np.concatenate(wanted),
                   embedded)


def text_roles(examples: pa.Table, keywords: Iterable[pa.Table], nodes: pa.Table) -> pd.DataFrame:
    """Return the roles of training texts: columns text_id, rank (place in ORIGINS), group and node_id.

    There is a row for each connected component in which a text has a role. A text has one keyword, so it stands for at
    most one node. ``keywords`` are pieces of its table, by text id.
    """
    columns = []
    for rank, role in enumerate(ORIGINS.values()):
        given = examples.select([role, "group"]).filter(pc.is_valid(examples[role]))
        columns.append(pd.DataFrame({"text_id": given[role].to_numpy(), "rank": np.int8(rank),
                                     "group": given["group"].to_numpy()}).drop_duplicates())
    roles = pd.concat(columns, ignore_index=True)
    ids, node_of = _nodes_of_texts(keywords, nodes)
    wanted = roles["text_id"].to_numpy()
    _complain(wanted[~np.isin(wanted, ids)], "table keywords: no keyword for text", "keywords")
    roles["node_id"] = node_of[np.searchsorted(ids, wanted)]
    roles = roles[roles["node_id"] >= 0]
    missing = ~np.isin(nodes["node_id"].to_numpy(), roles["node_id"])
    _complain(nodes["keyword"].to_numpy(zero_copy_only=False)[missing],
              "table nodes: no training text has the keyword", "graph")
    return roles


def _nodes_of_texts(keywords: Iterable[pa.Table], nodes: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Return the ids of texts, ascending, and the node of each; -1 for a keyword that is no node."""
    ids, places = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    names, node_ids = nodes["keyword"].combine_chunks(), nodes["node_id"].to_numpy()
    for piece in keywords:
        ids.append(piece["text_id"].to_numpy())
        place = pc.fill_null(pc.index_in(piece["keyword"], value_set=names), -1).to_numpy()
        places.append(np.where(place < 0, -1, node_ids[place]))
    return np.concatenate(ids), np.concatenate(places)


def node_texts(roles: pd.DataFrame) -> pd.DataFrame:
    """Return which texts stand for each node: columns text_id (sorted, each once), node_id and rank."""
    chosen = roles[roles["rank"] == roles.groupby("node_id")["rank"].transform("min")]
    chosen = chosen[["text_id", "node_id", "rank"]].drop_duplicates()
    return chosen.sort_values("text_id", ignore_index=True)


def _may_stand_in(roles: pd.DataFrame) -> pd.Series:
    """Return which roles of texts may represent their node when one connected component is hidden: those, other
    than inputs, whose node has better roles in at most one component."""
    replaceable = pd.Series(False, index=roles.index)
    for rank in range(1, len(ORIGINS)):
        better = roles[roles["rank"] < rank].groupby("node_id")["group"].nunique()
        replaceable |= (roles["rank"] == rank) & ~roles["node_id"].isin(better.index[better > 1])
    return replaceable


def _complain(missing: np.ndarray, what: str, stage: str) -> None:
    if len(missing):
        raise InputError(f"{what} {missing.tolist()[0]!r} (and {len(missing) - 1} more). The tables are out of "
                         f"step: run `keycontrast run`, or the stage {stage} and those after it, again.")


def _work(process: StageProcess) -> None:
    params, paths = process.params, DatasetPaths(process.instance)
    examples = read_table(paths.table("examples"), EXAMPLES, [*ORIGINS.values(), "group", "split"],
                          pc.field("split").isin(IN_GRAPH))
    keywords = read_batches(paths.table("keywords"), KEYWORDS, ["text_id", "keyword"], _KEYWORDS)
    nodes = read_table(paths.table("nodes"), NODES, ["node_id", "keyword"])
    roles = text_roles(examples, keywords, nodes)
    resolved = resolve_encoder(params.encoder.source)
    # Only `scratch` draws anything: one fixed random encoder, whatever the project's seed.
    seed_everything(0, params.runtime.threads, params.runtime.deterministic, params.runtime.tf32)
    try:
        encoder, tokenizer = load_encoder(resolved.location, pretrained=resolved.pretrained)
    except ValueError as error:
        raise InputError(f"encoder.source: {error}.") from error
    assert tokenizer is not None  # a location always has one
    models, precision = {"encoder": resolved.description}, computed_in(params.runtime.precision, params.runtime.tf32)
    texts = Lookup.read(paths.table("texts"), TEXTS, ["text_id", "text"])
    with computing(params.runtime) as device:
        nn.Module.to(encoder, device)
        result = run(roles, nodes["node_id"].to_numpy(), texts, encoder, tokenizer, params.node_vectors.plain(),
                     lambda chunks: progress(chunks, process.name, unit="chunk"))
    for schema, pieces, counts in ((NODE_VECTORS, result.nodes(), result.counts), (TEXT_VECTORS, result.texts(), {})):
        provenance = Provenance(process.name, process.params_hash, models, counts, precision=precision)
        with table_writer(paths.table(schema.name), schema, provenance) as writer:
            for piece in pieces:
                writer.write(piece)


main = partial(run_stage, STAGE, _work)
