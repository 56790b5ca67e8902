"""BERTScore (Zhang et al. 2020): greedy cosine over the contextual word pieces of an encoder.

Precision is the mean, over the word pieces of the output, of the largest cosine with a word piece of the reference.
Recall exchanges output and reference; F1 is their harmonic mean. As in the package bert_score, [CLS] and [SEP] have no
weight but may be the best match of a piece. Values are comparable only under the same encoder and layer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from keycontrast.text.batches import Chunk, fixed_chunks
from stages.common.encoders import longest_input
from stages.metrics.bleu import check_items

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

# Layer of the package bert_score 0.3.13 (chosen there on WMT16), and its F1 of random pairs of sentences at that layer.
PACKAGE_LAYERS = {
    "albert-base-v2": 9, "albert-xxlarge-v2": 8, "bert-base-chinese": 8, "bert-base-multilingual-cased": 9,
    "bert-base-uncased": 9, "bert-large-uncased": 18, "roberta-base": 10, "roberta-large": 17}
PACKAGE_BASELINES = {
    "albert-base-v2": 0.56031275, "albert-xxlarge-v2": 0.23519956, "bert-base-chinese": 0.54755783,
    "bert-base-uncased": 0.35219112, "bert-large-uncased": 0.42646673, "roberta-base": 0.814463,
    "roberta-large": 0.83122575}
_BATCH = 64         # rows of a batch; changes the last bits of a value
_ITEMS = 1024       # encoded at once
_WIDTHS = 8
_LONGEST = 512      # word pieces; longer texts are cut


@dataclass(frozen=True)
class BertScores:
    """BERTScore of every item against the reference of greatest F1, raw; each (n_items,)."""

    precision: np.ndarray
    recall: np.ndarray
    f1: np.ndarray


# The word pieces of a text: their directions (L, d), float32 of length 1, and weights (L,).
Pieces = tuple[np.ndarray, np.ndarray]


class BertScorer:
    """BERTScore of several systems: ``BertScorer(model, tokenizer).score({"run": ["a cat"]}, ["the cat"])``.

    ``layer`` is the index of the hidden states: 0 for the embeddings, None for the last. With ``idf``, word pieces have
    the weight log((M + 1) / (df + 1)) over the M references. ``baseline`` is the F1 of random pairs, if known.
    """

    def __init__(self, encoder: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase", layer: int | None = None,
                 idf: bool = False, baseline: float | None = None) -> None:
        layers = int(encoder.config.num_hidden_layers)
        if layer is not None and not 0 <= layer <= layers:
            raise ValueError(f"BERTScore takes hidden states 0 to {layers} of this encoder, not {layer}")
        self.layer = layers if layer is None else layer
        self.baseline = baseline
        self._encoder, self._tokenizer, self._idf = encoder, tokenizer, idf
        self._longest = min(_LONGEST, tokenizer.model_max_length, longest_input(encoder))
        # RoBERTa's words begin with a space, also the first one.
        self._prefix = " " if encoder.config.model_type == "roberta" else ""

    def score(self, systems: Mapping[str, Sequence[str]],
              references: Sequence[str | Sequence[str]]) -> dict[str, BertScores]:
        """Return the scores of each system's outputs."""
        for outputs in systems.values():
            check_items(outputs, references)
        targets = [[item] if isinstance(item, str) else list(item) for item in references]
        weights = self._weights([text for item in targets for text in item])
        spans = [range(start, min(start + _ITEMS, len(targets))) for start in range(0, len(targets), _ITEMS)]
        scores = {name: np.empty((3, len(targets))) for name in systems}
        for span in spans:
            texts = {name: outputs[span.start:span.stop] for name, outputs in systems.items()}
            others = targets[span.start:span.stop]
            pieces = self._pieces(sorted({text for part in (*texts.values(), *others) for text in part}), weights)
            for name, outputs in texts.items():
                for item, output, target in zip(span, outputs, others, strict=True):
                    matches = (_match(pieces[output], pieces[text]) for text in target)
                    scores[name][:, item] = max(matches, key=lambda score: score[2])
        return {name: BertScores(*rows) for name, rows in scores.items()}

    def _encoded(self, texts: Sequence[str]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the ids (L,) of each text, and whether each was added by the tokenizer."""
        encoded = self._tokenizer([self._prefix + text.strip() for text in texts], truncation=True,
                                  max_length=self._longest, return_special_tokens_mask=True)
        return [(np.array(ids), np.array(special, dtype=bool))
                for ids, special in zip(encoded["input_ids"], encoded["special_tokens_mask"], strict=True)]

    def _weights(self, references: Sequence[str]) -> np.ndarray:
        """Return the weight of every word piece of the vocabulary (V,)."""
        counts = np.zeros(max(len(self._tokenizer), self._encoder.config.vocab_size), dtype=np.int64)
        if not self._idf:
            return np.ones(len(counts))
        for ids, _ in self._encoded(references):
            counts[np.unique(ids)] += 1
        return np.log((len(references) + 1) / (counts + 1))

    def _pieces(self, texts: Sequence[str], weights: np.ndarray) -> dict[str, Pieces]:
        encoded = self._encoded(texts)
        pieces: dict[str, Pieces] = {}
        for chunk in fixed_chunks([len(ids) for ids, _ in encoded], _BATCH, self._longest, _WIDTHS):
            states = self._states([encoded[row][0] for row in chunk.rows], chunk)
            for row, item in enumerate(chunk.items):
                ids, special = encoded[item]
                shares = np.where(special, 0.0, weights[ids])
                if not shares.any():    # all its pieces are in every reference: equal weights
                    shares = (~special).astype(np.float64)
                shares = shares / max(shares.sum(), np.finfo(np.float64).tiny)
                vectors = states[row, :len(ids)]
                norms = np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.finfo(np.float32).tiny)
                pieces[texts[item]] = vectors / norms, shares
        return pieces

    def _states(self, rows: Sequence[np.ndarray], chunk: Chunk) -> np.ndarray:
        """Return the hidden states (B, L, d) of a chunk."""
        import torch

        device, padding = self._encoder.device, int(self._tokenizer.pad_token_id or 0)
        ids = torch.tensor([[*row, *[padding] * (chunk.width - len(row))] for row in rows], device=device)
        mask = torch.arange(chunk.width, device=device) < torch.tensor([[len(row)] for row in rows], device=device)
        with torch.inference_mode():
            output = self._encoder(input_ids=ids, attention_mask=mask.long(), output_hidden_states=True)
        return np.asarray(output.hidden_states[self.layer].float().cpu().numpy())


def package_layer(name: str) -> int | None:
    """Return the layer of the package bert_score for the encoder ``name``; None if it has none."""
    return PACKAGE_LAYERS.get(name.rpartition("/")[2])


def package_baseline(name: str, layer: int, idf: bool) -> float | None:
    """Return the package's F1 of random pairs; None for another encoder or layer, or with IDF weights."""
    return PACKAGE_BASELINES.get(name.rpartition("/")[2]) if layer == package_layer(name) and not idf else None


def rescaled(f1: float, baseline: float) -> float:
    """Return (F1 - baseline) / (1 - baseline): 0 for pairs like those behind ``baseline``, 1 for identical texts."""
    return (f1 - baseline) / (1 - baseline)


def _match(output: Pieces, reference: Pieces) -> tuple[float, float, float]:
    """Return precision, recall and F1; all 0 where either side has no word pieces."""
    (directions, weights), (others, of_others) = output, reference
    if not weights.any() or not of_others.any():
        return 0.0, 0.0, 0.0
    cosines = directions @ others.T     # (L_output, L_reference)
    precision, recall = float(cosines.max(axis=1) @ weights), float(cosines.max(axis=0) @ of_others)
    return precision, recall, 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0
