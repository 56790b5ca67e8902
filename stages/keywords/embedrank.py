"""Rank the phrases of every text by what a frozen encoder makes of them, joined with IDF and position.

After EmbedRank (Bennani-Smires et al. 2018), which ranks noun chunks by the cosine of their embedding and the text's.
A frozen sentence encoder takes a general word for as close as a telling one, so here the cosine is multiplied by the
score of ``tfidf`` (:func:`stages.ranking.methods.keyness`): rarer words, more occurrences, earlier places. Nothing is
trained.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from stages.common.encoders import encode_texts, fixed_chunks, resolve_encoder
from stages.common.normal_form import normal_form
from stages.common.seeds import seed_everything
from stages.keywords.ranking_stage import rank_if_named, ranked_tokens
from stages.ranking import ranker
from stages.ranking.blocks import Spans, TokenBlock, encode_as
from stages.ranking.chunks import Chunks, with_chunks
from stages.ranking.methods import Solved, keyness, without_graph
from stages.ranking.phrases import Phrases, rank_spans, span_text
from stages.ranking.ranker import Ranked
from stages.ranking.selection import InverseFrequency
from stages.run.errors import InputError
from stages.run.process import StageProcess, run_stage

if TYPE_CHECKING:
    from stages.keywords.params import EmbedRank

# Rows embedded together, of texts and of phrases, and the step between the widths that they are padded to.
_TEXTS, _PHRASES, _STEP = 4, 64, 4
# Decimals of a cosine: those behind differ by the order of a sum.
_DECIMALS = 4


@dataclass(frozen=True)
class EmbedRanking:
    """How to rank: a :class:`stages.ranking.methods.Ranking`.

    Attributes:
        encoder: as ``encoder.source`` names one.
        longest: word pieces of a text that are read.
        chunks: which noun chunks are phrases.
        language: ISO 639-1.
    """

    encoder: str = "bundled"
    longest: int = 256
    chunks: Chunks = "auto"
    language: str = "en"
    method: str = "embedrank"

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
    """Return what embeds texts as unit vectors (n, d), so many at a time: on the CPU, by one thread.

    Raises:
        InputError: there is no such encoder.
    """
    import torch

    from models.common.encoders import embed, load_encoder

    resolved = resolve_encoder(source, "embedrank.encoder")
    seed_everything(0)
    try:
        encoder, tokenizer = load_encoder(resolved.location, pretrained=resolved.pretrained)
    except ValueError as error:
        raise InputError(f"embedrank.encoder: {error}.") from error
    assert tokenizer is not None  # a location always has one
    widest = min(int(tokenizer.model_max_length), longest)

    def embedded(texts: Sequence[str], size: int) -> np.ndarray:
        found = np.zeros((len(texts), encoder.config.hidden_size), dtype=np.float32)
        lengths = [len(ids) for ids in tokenizer(list(texts))["input_ids"]] if texts else []
        for chunk in fixed_chunks(lengths, size, widest, _STEP):
            encoded = encode_texts(tokenizer, [texts[row] for row in chunk.rows], chunk.width)
            with torch.inference_mode():
                vectors = embed(encoder, encoded["input_ids"], encoded["attention_mask"].bool())
            found[chunk.items] = vectors[:len(chunk.items)].numpy()
        return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), np.float32(1e-12))

    return embedded


def phrase_vectors(phrases: Sequence[str]) -> np.ndarray:
    """Return unit vectors of ``phrases`` by the bundled encoder, (phrases, d)."""
    settings = EmbedRanking()
    return _embedder(settings.encoder, settings.longest)(phrases, _PHRASES)


def run(tokens: pa.Table, params: "EmbedRank", idf: InverseFrequency | None = None, language: str = "en") -> pa.Table:
    """Return table ``embedrank`` of ``tokens``; see :func:`stages.keywords.ranking_stage.ranked_tokens`."""
    return ranked_tokens(ranker_of, tokens, params, idf, language)


def ranker_of(params: "EmbedRank", language: str, idf: InverseFrequency | None = None) -> Callable[[pa.Table], Ranked]:
    """Return what ranks token tables."""
    return ranker(ranking(params, language), params.phrases, idf)


def ranking(params: "EmbedRank", language: str) -> EmbedRanking:
    """Return the ranking that block ``embedrank`` asks for.

    Raises:
        InputError: the encoder reads no such language.
    """
    if language == "zh" and params.encoder == "bundled":
        raise InputError("embedrank.encoder is bundled, which reads no Chinese. Name another encoder (hub:<id>, "
                         "or path and embedrank.path), or choose another method.")
    return EmbedRanking(params.encoder, params.max_length, params.chunks, language)


def _work(process: StageProcess) -> None:
    rank_if_named(process, _models)


def _models(process: StageProcess) -> dict[str, Any]:
    return {"encoder": resolve_encoder(process.params.embedrank.encoder, "embedrank.encoder").description}


def main(argv: list[str] | None = None) -> int:
    """Run the stage for the data set named in ``argv``."""
    return run_stage("embedrank", _work, argv)


if __name__ == "__main__":
    sys.exit(main())
