"""Encoders as params name them, and embeddings of many texts on any device.

``encoder.source`` is what :mod:`keycontrast.encoders` knows (``bundled``, ``hub:<id>``, ``path:<folder>``), or

- ``characters:<data set>``: what stage ``character_encoder`` makes of a data set that no other one can read; its word
  embeddings are skip-gram vectors, its layers untrained;
- ``scratch``: configuration and tokenizer of the bundled encoder, random weights.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from keycontrast import encoders
from keycontrast.encoders import ResolvedEncoder
from keycontrast.errors import InputError
from keycontrast.text.batches import Chunk, encode_texts, fixed_chunks
from stages.common.settings import Values
from stages.run.cluster_map import Cluster
from stages.run.pool import map_chunks

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

# Below the folder of a data set, as `DatasetPaths` has it.
CHARACTERS = Path("artifacts/data") / "character_encoder"


def resolve_encoder(source: str, param: str = "encoder.source") -> ResolvedEncoder:
    """Find the encoder that the param ``encoder.source`` names, and check that its files are there.

    Args:
        source: value of the param.
        param: another one that names a pretrained model likewise, for messages.

    Raises:
        InputError: no such kind of source; files missing or altered; the hub cannot be reached.
    """
    kind, _, rest = source.partition(":")
    if kind == "scratch":
        bundled = encoders.resolve_encoder("bundled")
        return ResolvedEncoder(bundled.location, False, {"name": "scratch (architecture and tokenizer of bundled)",
                                                         "version": None, "sha256": None})
    if kind == "characters" and rest:
        return encoders.folder_encoder(CHARACTERS.parent / rest / CHARACTERS.name, source, param,
                                       f"characters of {rest} (from scratch)")
    if kind not in ("bundled", "path", "hub") or (kind != "bundled" and not rest):
        raise InputError(f"{param}: {source!r} is none of bundled, scratch, hub:<id>, path and characters.")
    return encoders.resolve_encoder(source, param)


def folder_of(source: str) -> Path | None:
    """Return the folder of this machine that ``encoder.source`` names; None for one that other machines have too."""
    kind, _, rest = source.partition(":")
    return resolve_encoder(source).location if kind in ("characters", "path") and rest else None


# Texts whose pieces are counted together.
_COUNTED = 8192
# Embeds texts that are padded to a width, chunk by chunk and in order.
Elsewhere = Callable[[Iterator[tuple[list[str], int]]], Iterable[np.ndarray]]


def embed_texts(encoder: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase", texts: Sequence[str],
                batch_size: int, max_length: int, pooling: Literal["mean", "cls"] = "mean",
                track: Callable[[list[Chunk]], Iterable[Chunk]] = iter,
                elsewhere: Elsewhere | None = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield embeddings of ``texts``, chunk by chunk, as (positions (n,), vectors (n, d) float32).

    Args:
        encoder: in evaluation mode, on its device.
        tokenizer: of the encoder.
        texts: in the order of sorted ids, each once; read a few at a time, they need not lie in memory.
        batch_size: rows of a chunk; part of what decides the bytes.
        max_length: word pieces of a text, special tokens included; the rest is cut.
        pooling: ``mean`` over real tokens, or the state of ``cls``.
        track: wraps the list of chunks, to show progress.
        elsewhere: embeds texts that are padded to a width, in order, with the same encoder on other machines.
    """
    chunks = fixed_chunks(_lengths(tokenizer, texts), batch_size, max_length)
    if elsewhere is not None:
        found = elsewhere(([texts[row] for row in chunk.rows], chunk.width) for chunk in chunks)
        for chunk, vectors in zip(chunks, found, strict=True):
            yield chunk.items, vectors[:len(chunk.items)]
        return
    for chunk in track(chunks):
        vectors = embed_rows(encoder, tokenizer, [texts[row] for row in chunk.rows], chunk.width, pooling)
        yield chunk.items, vectors[:len(chunk.items)]


def _lengths(tokenizer: "PreTrainedTokenizerBase", texts: Sequence[str]) -> np.ndarray:
    """Return how many word pieces each text has, special tokens included, before any cut."""
    found = [np.zeros(0, dtype=np.int32)]
    for start in range(0, len(texts), _COUNTED):
        encoded = tokenizer(list(texts[start:start + _COUNTED]), return_attention_mask=False,
                            return_token_type_ids=False)["input_ids"]
        found.append(np.fromiter(map(len, encoded), np.int32, len(encoded)))
    return np.concatenate(found)


def embed_rows(encoder: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase", texts: Sequence[str], width: int,
               pooling: Literal["mean", "cls"]) -> np.ndarray:
    """Return the embeddings of ``texts``, all padded to ``width``, (n, d) float32."""
    import torch

    from models.common.encoders import embed

    encoded = encode_texts(tokenizer, texts, width).to(encoder.device)
    with torch.inference_mode():
        vectors = embed(encoder, encoded["input_ids"], encoded["attention_mask"].bool(), pooling)
    return vectors.float().cpu().numpy()


@dataclass(frozen=True)
class WorkerEncoder:
    """An encoder as workers of a cluster load it.

    Attributes:
        source: ``encoder.source``, or another param that names an encoder likewise; a folder by its absolute path.
        sha256: of the weights that it must have.
        runtime: plain values of the block of that name.
    """

    source: str
    sha256: str | None
    runtime: Mapping[str, Any]

    @classmethod
    def of(cls, source: str, runtime: Mapping[str, Any]) -> "WorkerEncoder":
        """Return the encoder that ``source`` names here, to be used as ``runtime`` says."""
        folder = folder_of(source)
        return cls(f"path:{folder.resolve()}" if folder else source, resolve_encoder(source).description["sha256"],
                   dict(runtime))

    def load(self) -> "tuple[PreTrainedModel, PreTrainedTokenizerBase]":
        """Return encoder and tokenizer in a worker, which is seeded as the stages are.

        Raises:
            InputError: the worker's encoder is another one.
        """
        from models.common.encoders import load_encoder
        from stages.common.seeds import seed_everything

        resolved, asked = resolve_encoder(self.source), Values(self.runtime)
        same_weights(self.source, resolved.description["sha256"], self.sha256)
        seed_everything(0, asked.threads, asked.deterministic, asked.tf32)
        encoder, tokenizer = load_encoder(resolved.location, pretrained=resolved.pretrained)
        assert tokenizer is not None  # a location always has one
        return encoder, tokenizer


def same_weights(source: str, found: str | None, wanted: str | None) -> None:
    """Refuse an encoder of a worker that has other weights than that of the process which asks."""
    if found != wanted:
        raise InputError(f"encoder.source: a worker's {source} has other weights (sha256 {found}) than here "
                         f"({wanted}). Bring the same to every machine of the cluster.")


def embedding_elsewhere(source: str, pooling: Literal["mean", "cls"], runtime: Mapping[str, Any], cluster: Cluster,
                        what: str) -> Elsewhere:
    """Return what embeds texts on ``cluster``, as :func:`embed_texts` takes it.

    Args:
        source: ``encoder.source``; a folder must be there for workers too.
        pooling: as there.
        runtime: plain values of that block; with another device than ``cpu``, workers with a GPU do it.
        cluster: whose workers embed.
        what: name shown by the bar.
    """
    return lambda chunks: map_chunks(_embedder, (WorkerEncoder.of(source, runtime), pooling), chunks, 1, what,
                                     cluster=cluster, unit="chunk", gpu=runtime["device"] != "cpu")


def _embedder(encoder_of: WorkerEncoder,
              pooling: Literal["mean", "cls"]) -> Callable[[tuple[list[str], int]], np.ndarray]:
    """Return what embeds a chunk in a worker of a cluster."""
    from torch import nn

    from stages.common.precision import computing

    encoder, tokenizer = encoder_of.load()

    def work(chunk: tuple[list[str], int]) -> np.ndarray:
        with computing(Values(encoder_of.runtime)) as device:
            nn.Module.to(encoder, device)
            return embed_rows(encoder, tokenizer, *chunk, pooling)

    return work
