"""Attribution of words beside captum, in the same batches."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from transformers import AutoTokenizer, BatchEncoding, PreTrainedModel, PreTrainedTokenizerBase

from benchmarks.harness import Context, Disagreement, Section, compare
from keycontrast.text.batches import fixed_chunks
from models.keywords.attribution import word_saliency
from models.keywords.pair_classifier import build_pair_classifier, encode_pairs
from stages.common.device import choose_device
from stages.common.encoders import resolve_encoder

THREADS = 2
PAIRS = 320
BATCH = 64
WIDTHS = 8  # texts are padded to multiples of this, as in the stage
LONGEST = 51
SAMPLE = Path(__file__).resolve().parent.parent / "data" / "sample" / "paraphrase.jsonl"
_AGREE = 1e-5
_MASKS = ("attention_mask", "token_type_ids")

Pairs = list[tuple[str, str]]
Scores = list[Tensor]  # of each pair, on the CPU


@dataclass(frozen=True)
class Network:
    """The bundled encoder with a two-class head of random weights, on its device."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    device: str


def run(context: Context) -> list[Section]:
    """Compare gradients with captum."""
    rows = [json.loads(line) for line in SAMPLE.read_text(encoding="utf-8").splitlines()]
    pairs = [(row["source"], row["paraphrase"]) for row in rows[:4 if context.quick else PAIRS]]
    torch.set_num_threads(1 if context.quick else THREADS)
    device, location = choose_device("auto"), resolve_encoder("bundled").location
    torch.manual_seed(0)
    classifier = build_pair_classifier(location).eval()
    nn.Module.to(classifier, device)
    network = Network(classifier, AutoTokenizer.from_pretrained(location), device)
    difference = _agree("captum", batched(network, pairs), captum_batched(network, pairs))
    rows = compare({"ours": partial(batched, network, pairs), "captum": partial(captum_batched, network, pairs)},
                   context.repeats, items=len(pairs), unit="pairs")
    where = torch.cuda.get_device_name() if device == "cuda" else f"cpu, {torch.get_num_threads()} threads"
    return [Section("Gradient saliency of the source words of pairs",
                    f"{len(pairs)} pairs, all-MiniLM-L6-v2, batches of {BATCH}; device: {where}",
                    f"scores differ from ours by at most {difference:.1e} (captum) of the largest", [rows],
                    ["Both tokenise, run forward and backward, and pool pieces into words; no parameter receives a "
                     "gradient."])]


def batches(network: Network, pairs: Pairs) -> Iterator[tuple[np.ndarray, BatchEncoding]]:
    """Yield places and encodings of pairs in the batches of the stage: by length, ``BATCH`` at a time."""
    sources, targets = ([pair[side] for pair in pairs] for side in (0, 1))
    lengths = [len(ids) for ids in network.tokenizer(sources, targets)["input_ids"]]
    for chunk in fixed_chunks(lengths, BATCH, LONGEST, WIDTHS):
        firsts, seconds = ([texts[item] for item in chunk.items] for texts in (sources, targets))
        encoded = encode_pairs(network.tokenizer, firsts, seconds, LONGEST, chunk.width)
        yield chunk.items, encoded.to(network.device)


def batched(network: Network, pairs: Pairs) -> Scores:
    """Return the word scores of each pair's source, as the stage computes them."""
    scores: Scores = [torch.zeros(0)] * len(pairs)
    for items, encoded in batches(network, pairs):
        for item, score in zip(items, word_saliency(network.model, encoded), strict=True):
            scores[item] = score
    return scores


def captum_batched(network: Network, pairs: Pairs) -> Scores:
    """Return the same as :func:`batched`, by captum and a loop over the words."""
    from captum.attr import Saliency

    scores: Scores = [torch.zeros(0)] * len(pairs)
    for items, encoded in batches(network, pairs):
        embeddings = network.model.get_input_embeddings()(encoded["input_ids"]).detach().requires_grad_()
        saliency = Saliency(_answer(network.model)).attribute(
            embeddings, target=1, abs=False, additional_forward_args=tuple(encoded[name] for name in _MASKS))
        norms = saliency.norm(dim=-1).cpu()
        for row, item in enumerate(items):
            scores[item] = _pooled(norms[row], encoded, row)
    return scores


def _answer(model: PreTrainedModel) -> Callable[..., Tensor]:
    def logits(embeddings: Tensor, *masks: Tensor) -> Tensor:
        return model(inputs_embeds=embeddings, **dict(zip(_MASKS, masks, strict=True))).logits
    return logits


def _pooled(pieces: Tensor, encoded: BatchEncoding, row: int) -> Tensor:
    """Return the scores of the source's words, word by word."""
    words: dict[int, list[float]] = {}
    for piece, word, segment in zip(pieces.tolist(), encoded.word_ids(row), encoded.sequence_ids(row), strict=True):
        if word is not None and segment == 0:
            words.setdefault(word, []).append(piece)
    means = torch.tensor([sum(values) / len(values) for _, values in sorted(words.items())])
    spread = means.max() - means.min()
    return (means - means.min()) / spread if spread > 1e-6 * means.max() else torch.full_like(means, 0.5)


def _agree(name: str, ours: Sequence[Tensor], other: Sequence[Tensor]) -> float:
    """Return the largest difference of two lists of scores, relative to the largest score."""
    largest = max(float(score.abs().max()) for score in ours)
    difference = max(float((left - right).abs().max()) for left, right in zip(ours, other, strict=True)) / largest
    if not difference <= _AGREE:
        raise Disagreement(f"attribution: {name} differs from ours by {difference:.1e}, more than {_AGREE}")
    return difference
