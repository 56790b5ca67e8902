"""Word vectors and BERTScore as the block ``evaluation`` names them, for the evaluation of every track."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from keycontrast.encoders import ResolvedEncoder
from keycontrast.errors import InputError
from models.common.encoders import load_encoder
from stages.common.encoders import resolve_encoder
from stages.common.seeds import derived_seed
from stages.common.settings import Params, hash_files
from stages.metrics import EncoderVectors, WordVectors
from stages.metrics.bertscore import BertScorer, package_baseline, package_layer
from stages.metrics.tokens import Text
from stages.metrics.word_tables import vectors_from_file, vectors_from_training
from stages.tracks.common.floors import SEEDED_AS

if TYPE_CHECKING:
    from stages.tracks.common.params import BertScore


@dataclass(frozen=True)
class Similarity:
    """What similarity is measured by.

    Attributes:
        vectors: of words, for the embedding metrics.
        scorer: of BERTScore; None where it is left out.
        description: what both are, under ``emb`` and ``bertscore``.
    """

    vectors: WordVectors
    scorer: BertScorer | None
    description: dict[str, Any]


def similarity_of(params: Params, predictions: pd.DataFrame, items: pd.DataFrame, device: str,
                  cut: Callable[[str], Text] = str) -> Similarity:
    """Return what the block ``evaluation`` of ``params`` names; further arguments as in :func:`word_vectors`.

    Args:
        params: in force.
        predictions: table ``predictions``.
        items: table ``items``.
        device: of the encoder behind BERTScore.
        cut: makes a text what is scored.

    Raises:
        InputError: an encoder or a file of vectors cannot be had.
    """
    settings = params.evaluation
    vectors, emb = word_vectors(settings.emb, params.encoder.source, predictions, items, params.seed, cut)
    scorer, bertscore = bert_scorer(settings.bertscore, device)
    return Similarity(vectors, scorer, {"emb": emb, "bertscore": bertscore})


def similarity_sources(params: Params) -> list[Any]:
    """Return what :func:`similarity_of` reads beside tables, as plain values that change with its content."""
    emb, encoder = params.evaluation.emb, params.evaluation.bertscore.encoder
    file = Path(emb.removeprefix("path:"))
    vectors = resolve_encoder(_table_source(params.encoder.source)).description if emb == "encoder" else (
        hash_files([file]) if emb.startswith("path:") and file.exists() else emb)
    return [vectors, None if encoder is None else resolve_encoder(encoder).description]


def _table_source(encoder: str) -> str:
    return "bundled" if encoder == "scratch" else encoder


def encoder_vectors(source: str) -> tuple[EncoderVectors, ResolvedEncoder]:
    """Return the static word-piece table of the encoder that ``encoder.source`` names.

    Random vectors measure nothing: with ``scratch`` the table is that of the bundled encoder, whose
    tokenizer it shares.
    """
    resolved = resolve_encoder(_table_source(source))
    model, tokenizer = load_encoder(str(resolved.location))
    table = model.get_input_embeddings().state_dict()["weight"].numpy()     # (V, d)
    return EncoderVectors(table, tokenizer), resolved


def word_vectors(emb: str, encoder: str, predictions: pd.DataFrame, items: pd.DataFrame, seed: int,
                 cut: Callable[[str], Text] = str) -> tuple[WordVectors, dict[str, Any]]:
    """Return the word vectors that ``evaluation.emb`` names, and what they are.

    Args:
        emb: ``encoder``, ``train`` (on the training split of ``items``) or ``path:FILE``.
        encoder: ``encoder.source``.
        predictions: table ``predictions``.
        items: table ``items``.
        seed: the project's.
        cut: makes a text what is scored, a text or a tuple of words.
    """
    if emb == "encoder":
        found, resolved = encoder_vectors(encoder)
        return found, {**resolved.description, "origin": "static word-piece table of the encoder, mean per word",
                       "size": found.size}
    if emb == "train":
        texts = map(cut, _texts(items[items["split"] == "train"]))
        table = vectors_from_training(texts, derived_seed(seed, SEEDED_AS, emb))
    else:
        wanted = _texts(items) | set(predictions["prediction"])
        table = vectors_from_file(Path(emb.removeprefix("path:")), map(cut, wanted))
    return table, table.description


def _texts(items: pd.DataFrame) -> set[str]:
    """Every text of ``items``, and the keywords, which a floor outputs."""
    lists = (text for column in ("references", "negatives") for texts in items[column] for text in texts)
    return {*items["source"], *(keyword for keyword in items["keyword"] if isinstance(keyword, str)), *lists}


def bert_scorer(settings: "BertScore", device: str) -> tuple[BertScorer | None, dict[str, Any] | None]:
    """Return the scorer of BERTScore and what it is; None and None where it is left out.

    Args:
        settings: block ``evaluation.bertscore``.
        device: of the encoder.

    Raises:
        InputError: the encoder cannot be had, or has no such layer.
    """
    if settings.encoder is None:
        return None, None
    resolved = resolve_encoder(settings.encoder)
    model, tokenizer = load_encoder(str(resolved.location))
    assert tokenizer is not None     # there is a source
    name = str(resolved.description["name"])
    layer = package_layer(name) if settings.layer is None else settings.layer
    if layer is not None and layer > model.config.num_hidden_layers:
        raise InputError(f"evaluation.bertscore.layer: {layer}, but {name} has {model.config.num_hidden_layers} "
                         f"layers. Give one of them, or null for the last.")
    layer = model.config.num_hidden_layers if layer is None else layer
    baseline = package_baseline(name, layer, settings.idf)
    scorer = BertScorer(model.float().to(device), tokenizer, layer, settings.idf, baseline)
    return scorer, {**resolved.description, "layer": layer, "idf": settings.idf, "baseline": baseline}
