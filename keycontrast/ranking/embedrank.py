"""Ranking by embeddings of a frozen encoder, IDF and position.

EmbedRank (Bennani-Smires et al. 2018) ranks noun chunks by the cosine of their embedding and the text's. A frozen
sentence encoder gives general words as high a cosine as specific ones, so here the cosine is multiplied by the score of
``tfidf`` (:func:`keycontrast.ranking.methods.keyness`): rarer words, more occurrences, earlier places.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Any

import numpy as np

from keycontrast.encoders import resolve_encoder
from keycontrast.errors import InputError
from keycontrast.ranking.blocks import Spans, TokenBlock, encode, span_text
from keycontrast.ranking.chunks import Chunks, with_chunks
from keycontrast.ranking.methods import Solved, keyness, without_graph
from keycontrast.ranking.selection import InverseFrequency
from keycontrast.text.batches import encode_texts, fixed_chunks
from keycontrast.text.normal_form import normal_form

# Rows embedded together, of texts and of phrases, and the step between the widths that they are padded to.
_TEXTS, _PHRASES, _STEP = 4, 64, 4
# Decimals of a cosine; further ones depend on the order of a sum.
_DECIMALS = 4
# The number of torch's threads is a setting of the whole process, and a caller's encoder may not be thread-safe.
_READING = Lock()


@dataclass(frozen=True)
class EmbedRanking:
    """A ranking by an encoder's name or an object with ``encode``, which reads ``longest`` word pieces of a text.

    As in KeyBERT, the mean embedding of ``seeds`` is added to three times the text's. Messages name ``param``.
    """

    encoder: Any = "bundled"
    longest: int = 256
    chunks: Chunks = "auto"
    language: str = "en"
    seeds: tuple[str, ...] = ()
    param: str = "embedrank.encoder"
    method: str = "embedrank"

    def __post_init__(self) -> None:
        if self.language == "zh" and self.encoder == "bundled":
            raise InputError(f"{self.param} is bundled, which reads no Chinese. Name another one (hub:<id>, or a "
                             f"folder), or choose another method.")

    @property
    def described(self) -> str:
        """Name and settings, for a person."""
        name = self.encoder if isinstance(self.encoder, str) else type(self.encoder).__name__
        return f"embedrank: cosine of phrase and text by the encoder {name}, times the score of tfidf"

    def vectors(self, texts: Sequence[str], size: int = _PHRASES) -> np.ndarray:
        """Return unit vectors of ``texts`` (n, d), which are read so many at a time."""
        if isinstance(self.encoder, str):
            return _embedder(self.encoder, self.longest, self.param)(texts, size)
        with _READING:
            vectors = np.asarray(self.encoder.encode(list(texts)) if texts else np.zeros((0, 1)), dtype=np.float32)
        if vectors.ndim != 2 or len(vectors) != len(texts) or not np.isfinite(vectors).all():
            raise InputError(f"{self.param}: encode must return a vector of finite numbers for each text, but for "
                             f"{len(texts)} texts returned an array of shape {vectors.shape}.")
        return _unit(vectors)

    def solve(self, block: TokenBlock, idf: InverseFrequency | None) -> Solved:
        """Score the noun chunks of every text of ``block``; a text's numbers depend on that text alone."""
        block = TokenBlock(with_chunks(block.table, self.chunks, self.language))
        chunks = block.chunks
        texts, row = np.unique(chunks.text, return_inverse=True)
        surfaces = span_text(block, Spans(texts, block.offsets[texts], block.offsets[texts + 1])).to_pylist()
        codes, forms = encode(span_text(block, chunks), normal_form)
        text_vectors = self.vectors(surfaces, _TEXTS)
        if self.seeds:
            text_vectors = _unit(3 * text_vectors + self.vectors(self.seeds).mean(axis=0))
        cosine = np.einsum("ij,ij->i", text_vectors[row], self.vectors(forms)[codes])
        close = np.maximum(np.round(cosine.astype(np.float64), _DECIMALS), 0.0)
        return without_graph(block, chunks, close * keyness(block, chunks, idf))


@cache
def _embedder(source: str, longest: int, param: str) -> Callable[[Sequence[str], int], np.ndarray]:
    """Return a function that embeds ``size`` texts at a time as unit vectors (n, d): mean states, on one CPU thread."""
    try:
        import torch
        from transformers import AutoModel, AutoTokenizer
    except ModuleNotFoundError as error:
        raise InputError(f"embeddings need torch and transformers ({error}). Install them: pip install "
                         f"'keycontrast[embeddings]'.") from error
    resolved = resolve_encoder(source, param)
    tokenizer = AutoTokenizer.from_pretrained(resolved.location)
    encoder = AutoModel.from_pretrained(resolved.location, attn_implementation="sdpa", dtype=torch.float32).eval()
    widest = min(int(tokenizer.model_max_length), longest)

    def embedded(texts: Sequence[str], size: int) -> np.ndarray:
        pooled = np.zeros((len(texts), encoder.config.hidden_size), dtype=np.float32)
        with _READING, torch.inference_mode():
            lengths = [len(ids) for ids in tokenizer(list(texts), verbose=False)["input_ids"]] if texts else []
            threads = torch.get_num_threads()
            torch.set_num_threads(1)  # other counts sum in another order
            try:
                for chunk in fixed_chunks(lengths, size, widest, _STEP):
                    encoded = encode_texts(tokenizer, [texts[row] for row in chunk.rows], chunk.width)
                    mask = encoded["attention_mask"].unsqueeze(-1)
                    states = encoder(**encoded).last_hidden_state
                    vectors = (states * mask).sum(1) / mask.sum(1).clamp(min=1)
                    pooled[chunk.items] = vectors[:len(chunk.items)].numpy()
            finally:
                torch.set_num_threads(threads)
        return _unit(pooled)

    return embedded


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-12))
