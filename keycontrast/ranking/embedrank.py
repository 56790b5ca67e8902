"""Ranking by what a frozen encoder makes of phrases and texts, joined with IDF and position.

After EmbedRank (Bennani-Smires et al. 2018), which ranks noun chunks by the cosine of their embedding and the text's.
A frozen sentence encoder takes a general word for as close as a telling one, so here the cosine is multiplied by the
score of ``tfidf`` (:func:`keycontrast.ranking.methods.keyness`): rarer words, more occurrences, earlier places. Nothing
is trained.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from keycontrast.encoders import resolve_encoder
from keycontrast.errors import InputError
from keycontrast.ranking.blocks import Spans, TokenBlock, encode_as
from keycontrast.ranking.chunks import Chunks, with_chunks
from keycontrast.ranking.methods import Solved, keyness, without_graph
from keycontrast.ranking.phrases import Phrases, rank_spans, span_text
from keycontrast.ranking.selection import InverseFrequency
from keycontrast.text.batches import encode_texts, fixed_chunks
from keycontrast.text.normal_form import normal_form

# Rows embedded together, of texts and of phrases, and the step between the widths that they are padded to.
_TEXTS, _PHRASES, _STEP = 4, 64, 4
# Decimals of a cosine: those behind differ by the order of a sum.
_DECIMALS = 4


@dataclass(frozen=True)
class EmbedRanking:
    """How to rank: a :class:`keycontrast.ranking.methods.Ranking`.

    Attributes:
        encoder: as :func:`keycontrast.encoders.resolve_encoder` takes it.
        longest: word pieces of a text that are read.
        chunks: which noun chunks are phrases.
        language: ISO 639-1.

    Raises:
        InputError: the encoder reads no such language.
    """

    encoder: str = "bundled"
    longest: int = 256
    chunks: Chunks = "auto"
    language: str = "en"
    method: str = "embedrank"

    def __post_init__(self) -> None:
        if self.language == "zh" and self.encoder == "bundled":
            raise InputError("embedrank.encoder is bundled, which reads no Chinese. Name another encoder (hub:<id>, "
                             "or path and embedrank.path), or choose another method.")

    @property
    def described(self) -> str:
        """Name and settings, for a person."""
        return f"embedrank: cosine of phrase and text by the encoder {self.encoder}, times the score of tfidf"

    def solve(self, block: TokenBlock, idf: InverseFrequency | None) -> Solved:
        """Score the noun chunks of every text of ``block``; a text's numbers depend on that text alone."""
        block = TokenBlock(with_chunks(block.table, self.chunks, self.language))
        chunks = block.chunks
        chunks = chunks.take(chunks.end > chunks.start)
        texts, row = np.unique(chunks.text, return_inverse=True)
        whole = span_text(block, Spans(texts, block.offsets[texts], block.offsets[texts + 1])).to_pylist()
        codes, forms = encode_as(span_text(block, chunks), normal_form)
        embed = _embedder(self.encoder, self.longest)
        cosine = np.einsum("ij,ij->i", embed(whole, _TEXTS)[row], embed(forms, _PHRASES)[codes])
        close = np.maximum(np.round(cosine.astype(np.float64), _DECIMALS), 0.0)
        return without_graph(block, chunks, close * keyness(block, chunks, idf))

    def phrases(self, block: TokenBlock, solved: Solved, idf: InverseFrequency | None, limit: int | None) -> Phrases:
        """Rank the phrases that were scored; ``limit`` per text, or all."""
        return rank_spans(block, solved.spans, solved.score, idf, limit, scrub=True)


@cache
def _embedder(source: str, longest: int) -> Callable[[Sequence[str], int], np.ndarray]:
    """Return what embeds texts as unit vectors (n, d): mean states, so many texts at a time, on the CPU by one thread.

    Args:
        source: as :func:`resolve_encoder` takes it.
        longest: word pieces of a text that are read.

    Raises:
        InputError: there is no such encoder, or transformers and torch are not installed.
    """
    try:
        import torch
        from transformers import AutoModel, AutoTokenizer
    except ModuleNotFoundError as error:
        raise InputError(f"embeddings need torch and transformers ({error}). Install them: pip install "
                         f"'keycontrast[embeddings]'.") from error
    resolved = resolve_encoder(source, "embedrank.encoder")
    tokenizer = AutoTokenizer.from_pretrained(resolved.location)
    encoder = AutoModel.from_pretrained(resolved.location, attn_implementation="sdpa").eval()
    widest = min(int(tokenizer.model_max_length), longest)

    def embedded(texts: Sequence[str], size: int) -> np.ndarray:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # other counts sum in another order
        try:
            return unit_vectors(texts, size)
        finally:
            torch.set_num_threads(threads)

    def unit_vectors(texts: Sequence[str], size: int) -> np.ndarray:
        found = np.zeros((len(texts), encoder.config.hidden_size), dtype=np.float32)
        lengths = [len(ids) for ids in tokenizer(list(texts))["input_ids"]] if texts else []
        for chunk in fixed_chunks(lengths, size, widest, _STEP):
            encoded = encode_texts(tokenizer, [texts[row] for row in chunk.rows], chunk.width)
            mask = encoded["attention_mask"].unsqueeze(-1)
            with torch.inference_mode():
                states = encoder(**encoded).last_hidden_state
            vectors = (states * mask).sum(1) / mask.sum(1).clamp(min=1)
            found[chunk.items] = vectors[:len(chunk.items)].numpy()
        return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), np.float32(1e-12))

    return embedded


def phrase_vectors(phrases: Sequence[str]) -> np.ndarray:
    """Return unit vectors of ``phrases`` by the bundled encoder, (phrases, d)."""
    settings = EmbedRanking()
    return _embedder(settings.encoder, settings.longest)(phrases, _PHRASES)
