"""Generating texts with a trained HCL model."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn
from transformers import AutoTokenizer

from models.hcl import HclModel
from stages.hcl.batches import padded, word_pieces
from stages.hcl.items import NodeIndex
from stages.hcl.lookup import UnseenKeywords, load_lookup
from stages.runtime.seeds import derived_seed


class Paraphraser:
    """A trained model with all that it needs to rewrite texts.

    Args:
        folder: the model's folder, written by stage ``train_hcl``.
        device: ``cpu`` or ``cuda``.

    Raises:
        InputError: there is no model, or its frozen encoder is not to be had.
    """

    def __init__(self, folder: Path, device: str = "cpu") -> None:
        keywords, self.on = load_lookup(folder)
        self.nodes = NodeIndex(tuple(keywords))
        self.model = HclModel.from_pretrained(folder).eval()
        nn.Module.to(self.model, device)
        self.tokenizer = AutoTokenizer.from_pretrained(folder)

    @property
    def uses_keyword(self) -> bool:
        """Whether the keyword of a text has any influence."""
        return self.model.config.uses_keyword

    @cached_property
    def _unseen(self) -> UnseenKeywords:
        return UnseenKeywords(self.on)

    def rewrite(self, items: pd.DataFrame, decode: Mapping[str, Any], seed: int,
                track: Callable[[list[Any]], Iterable[Any]] = iter) -> Iterator[pd.DataFrame]:
        """Yield rows of table ``predictions`` for ``items``, a chunk at a time.

        Args:
            items: columns ``example_id``, ``source``, ``keyword``, ``references``, in the order of ids.
            decode: plain values of the block ``generate_hcl``; ``batch_size`` cuts the chunks.
            seed: for the draws of z.
            track: wraps the list of chunks, to show progress.
        """
        chunks = [items.iloc[start:start + decode["batch_size"]]
                  for start in range(0, len(items), decode["batch_size"])]
        for chunk in track(chunks):
            yield self._rewrite_chunk(chunk, decode, seed)

    def _rewrite_chunk(self, chunk: pd.DataFrame, decode: Mapping[str, Any], seed: int) -> pd.DataFrame:
        nodes = self.nodes.ids(chunk["keyword"])
        condition = self._condition(chunk, nodes)
        start, end = self.tokenizer.cls_token_id, self.tokenizer.sep_token_id
        pieces = word_pieces(self.tokenizer, chunk["source"].tolist(), self.on.max_source).ids
        ids, mask = (tensor.to(self.model.device)
                     for tensor in padded([[start, *row, end] for row in pieces], self.tokenizer.pad_token_id))
        rows = []
        for sample in range(1 + decode["samples"]):
            tokens = self.model.paraphrase(
                ids, mask, **condition, **{name: decode[name] for name in (
                    "num_beams", "min_length", "max_length", "length_penalty")},
                **_draw(sample, seed, int(chunk["example_id"].iloc[0]), self.model.device))
            rows.append(pd.DataFrame({
                "example_id": chunk["example_id"].tolist(), "sample": sample, "source": chunk["source"].tolist(),
                "keyword": chunk["keyword"].tolist() if self.uses_keyword else None,
                "keyword_known": nodes >= 0, "prediction": self.texts(tokens),
                "references": chunk["references"].tolist()}))
        return pd.concat(rows, ignore_index=True)

    def _condition(self, chunk: pd.DataFrame, nodes: Any) -> dict[str, Tensor | None]:
        if not self.uses_keyword:
            return {"keyword_nodes": None, "unseen_vectors": None}
        vectors = self._unseen.vectors(chunk.assign(input_node=nodes)) if (nodes < 0).any() else None
        device = self.model.device
        return {"keyword_nodes": torch.from_numpy(nodes).to(device),
                "unseen_vectors": vectors.to(device) if vectors is not None else None}

    def texts(self, tokens: Tensor) -> list[str]:
        """Return generated ids (B, L) as texts: word pieces joined, special tokens left out."""
        return self.tokenizer.batch_decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=True)


def _draw(sample: int, seed: int, first_example: int, device: torch.device) -> dict[str, Any]:
    """Return how z is chosen: the prior's mean for sample 0, a draw of its own for each further one."""
    if sample == 0:
        return {"z": "mean"}
    generator = torch.Generator(device).manual_seed(derived_seed(seed, "generate_hcl", "z", sample, first_example))
    return {"z": "sample", "generator": generator}
