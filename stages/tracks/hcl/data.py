"""The data of HCL models: items, batches of word pieces, and keywords as graph nodes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keycontrast.errors import InputError
from models.common.encoders import load_encoder, special_ids
from models.common.transformer import Pooling
from models.hcl.hcl import HclConfig
from stages.common.encoders import embed_texts, resolve_encoder
from stages.common.examples import TURN
from stages.common.methods import KEYWORDS
from stages.common.schemas import EXAMPLES, GRAPH_ONLY, NODES, TEXTS
from stages.common.seeds import derived_seed
from stages.common.training import TRAINED_ON_FILE, load_origin
from stages.tracks.common.schemas import ITEMS, Table

STAGE = "train_hcl"  # names the seeds of what is drawn in training
# Tables that every architecture is trained on; HCL reads the graph besides.
TABLES = (EXAMPLES, TEXTS, KEYWORDS, NODES)
KEYWORDS_FILE = "keywords.json"
# Which end of a text that is too long survives: dialogues keep their last turn.
Keep = Literal["first", "last"]
_ITEM_COLUMNS = [name for name, _, _ in ITEMS.fields]
_CHUNK = 64


def node_ids(nodes: Sequence[str], keywords: pd.Series) -> np.ndarray:
    """Return the place in ``nodes`` of each keyword (n,) int64; -1 for keywords outside and for missing ones."""
    return pd.Index(list(nodes)).get_indexer(keywords.astype(object)).astype(np.int64)


def joined_items(examples: pd.DataFrame, texts: pd.DataFrame, keywords: pd.DataFrame,
                 nodes: pd.DataFrame) -> pd.DataFrame:
    """Return table ``items`` with columns ``input_node``, ``output_node`` and ``negative_node`` of the keywords."""
    rows = examples[examples["split"] != GRAPH_ONLY].sort_values("example_id").reset_index(drop=True)
    text = texts.set_index("text_id")["text"].astype(object)
    of_text = keywords.set_index("text_id")["keyword"].astype(object)
    keyword, target, negative = (rows[name].map(of_text) for name in ("source_id", "target_id", "negative_id"))
    lost = keyword.isna() | target.isna() | negative.isna() & rows["negative_id"].notna()
    if lost.any():
        raise ValueError(f"example {rows.loc[lost, 'example_id'].iloc[0]} refers to a text without keyword row")
    negative = negative.where(negative.notna(), None)
    names = nodes.sort_values("node_id")["keyword"].tolist()
    return pd.DataFrame({
        "example_id": rows["example_id"], "split": rows["split"],
        "source": rows["source_id"].map(text), "target": rows["target_id"].map(text),
        "negatives": [[] if pd.isna(value) else [value] for value in rows["negative_id"].map(text)],
        "keyword": keyword, "target_keyword": target, "negative_keyword": negative,
        "input_node": node_ids(names, keyword), "output_node": node_ids(names, target),
        "negative_node": node_ids(names, negative),
        "references": [text.loc[list(ids)].tolist() for ids in rows["reference_ids"]]})


def conditioned(items: pd.DataFrame, condition: bool | str) -> pd.DataFrame:
    """Return items with the keyword that the model reads; ``unseen_text`` is embedded where it is no node."""
    if condition != "target":
        return items.assign(unseen_text=items["source"])
    # The oracle embeds the words of the keyword alone: the target's text would tell it more.
    nodes = {"input_node": items["output_node"]} if "output_node" in items else {}
    return items.assign(keyword=items["target_keyword"], unseen_text=items["target_keyword"], **nodes)


def items_table(items: pd.DataFrame) -> Table:
    """Return table ``items`` of a model that was trained on rows of :func:`joined_items`."""
    return Table("items", items[_ITEM_COLUMNS], ITEMS)


def word_pieces(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], limit: int,
                keep: Keep | None = None) -> list[list[int]]:
    """Return the first or last ``limit`` word pieces of each text; in outputs (no ``keep``), [SEP] is plain text."""
    if not len(texts):
        return []
    rows: list[list[int]] = tokenizer(list(texts), add_special_tokens=False, truncation=keep != "last",
                                      max_length=limit, split_special_tokens=not keep, verbose=False)["input_ids"]
    return [row[-limit:] for row in rows] if keep == "last" else rows


def padded(rows: Sequence[Sequence[int]], pad: int) -> tuple[Tensor, Tensor]:
    """Return ids (B, L) int64 and mask (B, L) bool of ``rows``; L is the longest row, at least 1."""
    length = max(1, *map(len, rows)) if rows else 1
    ids = torch.full((len(rows), length), pad, dtype=torch.int64)
    lengths = torch.tensor([len(row) for row in rows], dtype=torch.int64)
    mask = torch.arange(length)[None, :] < lengths[:, None]
    ids[mask] = torch.tensor(list(chain.from_iterable(rows)), dtype=torch.int64)
    return ids, mask


@dataclass(frozen=True)
class Marks:
    """Special tokens around texts; ``banned`` are never generated, ``turn`` replaces `` [SEP] `` between turns."""

    before: Sequence[int]
    after: Sequence[int]
    start: int
    end: int
    pad: int
    banned: Sequence[int]
    turn: str = f" {TURN} "

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase) -> "Marks":
        """Return those of a BERT tokenizer: [CLS] opens and [SEP] closes sources and targets alike."""
        ids = special_ids(tokenizer)
        banned = sorted({ids[role] for role in ("pad", "bos", "unk", "mask")})
        return cls([ids["bos"]], [ids["eos"]], ids["bos"], ids["eos"], ids["pad"], banned)

    def read(self, texts: Sequence[str]) -> list[str]:
        """Return texts with this tokenizer's mark between turns."""
        return [text.replace(f" {TURN} ", self.turn) for text in texts]

    def around(self, rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """Return ids (B, L) and mask (B, L) of texts that are encoded."""
        return padded([[*self.before, *row, *self.after] for row in rows], self.pad)

    def pairs(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> dict[str, Tensor]:
        """Return sources ``x_*`` as they are encoded, and :meth:`targets`."""
        x_ids, x_mask = self.around(sources)
        return {"x_ids": x_ids, "x_mask": x_mask, **self.targets(targets)}

    def targets(self, rows: Sequence[Sequence[int]]) -> dict[str, Tensor]:
        """Return targets as the decoder reads and writes them, ``y_*``."""
        y_in, y_in_mask = padded([[self.start, *row] for row in rows], self.pad)
        y_out, _ = padded([[*row, self.end] for row in rows], self.pad)
        return {"y_in": y_in, "y_in_mask": y_in_mask, "y_out": y_out}


class TripleBatches:
    """Batches of triples for one split; ``has_negative`` marks items with a negative (n,)."""

    def __init__(self, items: pd.DataFrame, tokenizer: PreTrainedTokenizerBase, max_source: int,
                 max_target: int, keep: Keep = "first", marks: Marks | None = None) -> None:
        self.example_ids, self.texts = items["example_id"].tolist(), items["source"].tolist()
        self.tokenizer = tokenizer
        self.marks = marks or Marks.of(tokenizer)
        self.sources = word_pieces(tokenizer, self.marks.read(self.texts), max_source, keep)
        self.targets = word_pieces(tokenizer, items["target"].tolist(), max_target)
        self.has_negative = torch.tensor([len(texts) > 0 for texts in items["negatives"]], dtype=torch.bool)
        negatives = [texts[0] if len(texts) else "" for texts in items["negatives"]]
        self.negatives = word_pieces(tokenizer, negatives, max_target)
        self.nodes = {name: torch.from_numpy(items[column].to_numpy(dtype=np.int64, copy=True)) for name, column in (
            ("kx", "input_node"), ("ky", "output_node"), ("kneg", "negative_node"))}

    def __len__(self) -> int:
        return len(self.example_ids)

    @property
    def mean_target_length(self) -> float:
        """Mean number of predicted tokens of a target, its end token included."""
        return float(np.mean([len(row) + 1 for row in self.targets]))

    def batch(self, items: Sequence[int]) -> dict[str, Tensor]:
        """Return the tensors of ``items``: ``x_*``, ``y_*``, ``neg_*``, ``has_negative``, ``kx``, ``ky``, ``kneg``."""
        chosen = list(items)
        sources, targets, negatives = ([rows[item] for item in chosen]
                                       for rows in (self.sources, self.targets, self.negatives))
        tensors = {**self.marks.pairs(sources, targets), "has_negative": self.has_negative[chosen]}
        for name, rows in (("y", targets), ("neg", negatives)):
            tensors[f"{name}_ids"], tensors[f"{name}_mask"] = self.marks.around(rows)
        return tensors | {name: nodes[chosen] for name, nodes in self.nodes.items()}


def fixed_noise(example_ids: Iterable[int], size: int, seed: int, *names: object) -> Tensor:
    """Return noise (n, ``size``), each row drawn on the CPU from a seed of its example's own."""
    sources = (torch.Generator().manual_seed(derived_seed(seed, *names, example)) for example in example_ids)
    return torch.stack([torch.randn(size, generator=source) for source in sources])


@dataclass(frozen=True)
class TrainedOn:
    """The origin of an HCL model, as far as its use depends on it."""

    dataset: str
    language: str
    encoder_source: str         # param ``encoder.source``; frozen, it gives vectors to keywords outside the graph
    encoder: Mapping[str, Any]  # its description (name, version, sha256)
    pooling: Pooling            # how a text becomes one vector, as in stage ``node_vectors``
    max_length: int
    max_source: int             # word pieces that are read, special tokens not counted
    max_target: int
    keep: Keep                  # which end of a longer input is read
    # The keyword method, as in table ``keywords``; keywords of new texts are found by the same one.
    keywords: Mapping[str, Any] = field(default_factory=dict)


def notes_of(keywords: list[str], on: TrainedOn) -> dict[str, Any]:
    """Return the notes of a model: the keyword of each node, and the model's origin."""
    return {KEYWORDS_FILE: keywords, TRAINED_ON_FILE: asdict(on)}


def load_lookup(folder: Path) -> tuple[list[str], TrainedOn]:
    """Return the keyword of each node, and the origin, of the HCL model in ``folder``."""
    (keywords,), on = load_origin(folder, TrainedOn, (KEYWORDS_FILE,), "HCL", HclConfig)
    return keywords, on


@dataclass(frozen=True)
class PieceOrigin:
    """The origin of a baseline."""

    architecture: str
    dataset: str
    start: str                  # what its weights began from, for people
    marks: Mapping[str, Any]    # fields of :class:`Marks`
    max_source: int
    max_target: int
    keep: Keep

    @classmethod
    def load(cls, folder: Path) -> "PieceOrigin":
        """Return the origin of the model in ``folder``."""
        return load_origin(folder, cls, (), "HCL")[1]


class UnseenKeywords:
    """Initial vectors of keywords that are no node: the frozen embedding of the text, loaded when needed."""

    def __init__(self, on: TrainedOn) -> None:
        self.on = on

    def vectors(self, items: pd.DataFrame) -> Tensor:
        """Return vectors (n, d) of ``unseen_text``, else ``source``, of items; zeros where ``input_node`` is a node."""
        unseen = np.flatnonzero(items["input_node"].to_numpy() < 0)
        vectors = self.embedded(items["unseen_text" if "unseen_text" in items else "source"].iloc[unseen].tolist())
        return vectors.new_zeros(len(items), vectors.shape[1]).index_copy(0, torch.from_numpy(unseen), vectors)

    def embedded(self, texts: list[str]) -> Tensor:
        """Return the frozen embedding of each text (n, d)."""
        encoder, tokenizer = self._encoder
        embeddings = torch.zeros(len(texts), encoder.config.hidden_size)
        longest = min(int(tokenizer.model_max_length), self.on.max_length)
        for places, vectors in embed_texts(encoder, tokenizer, texts, _CHUNK, longest, self.on.pooling):
            embeddings[places] = torch.from_numpy(vectors)
        return embeddings

    @cached_property
    def _encoder(self) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
        resolved = resolve_encoder(self.on.encoder_source)
        if resolved.description["sha256"] != self.on.encoder["sha256"]:
            raise InputError(f"encoder.source: {self.on.encoder_source} is no longer the encoder that the model was "
                             f"trained with (sha256 {self.on.encoder['sha256']}). Put that one back, or train again.")
        # Only `scratch` draws anything; stage node_vectors draws the same.
        state = torch.get_rng_state()
        torch.manual_seed(0)
        encoder, tokenizer = load_encoder(resolved.location, pretrained=resolved.pretrained)
        torch.set_rng_state(state)
        return encoder, tokenizer
