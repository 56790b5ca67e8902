"""Generating texts with a trained HCL model."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn
from transformers import AutoTokenizer

from models.hcl.model import HclModel
from stages.common.seeds import derived_seed
from stages.tracks.hcl.batches import padded, word_pieces
from stages.tracks.hcl.items import NodeIndex
from stages.tracks.hcl.lookup import UnseenKeywords, load_lookup

_SEARCH = ("search", "num_beams", "min_length", "max_length", "length_penalty", "top_k", "alpha")


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
    def dataset(self) -> str:
        """Name of the data set that it was trained on."""
        return self.on.dataset

    @property
    def keywords(self) -> Sequence[str]:
        """Keywords of the training graph."""
        return self.nodes.keywords

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
            items: columns ``example_id``, ``source``, ``keyword``, ``references``, in the order of ids; and
                ``unseen_text``, whose embedding stands for a keyword outside the graph (without it, ``source``).
            decode: plain values of the block ``generate_hcl``; ``batch_size`` cuts the chunks. Its ``keyword`` is
                not looked at: see :func:`stages.tracks.hcl.keywords.with_keywords`.
            seed: for the draws of z, each of which depends on the example and the number of the sample alone.
            track: wraps the list of chunks, to show progress.
        """
        chunks = [items.iloc[start:start + decode["batch_size"]]
                  for start in range(0, len(items), decode["batch_size"])]
        for chunk in track(chunks):
            yield self._rewrite_chunk(chunk, decode, seed)

    def _rewrite_chunk(self, chunk: pd.DataFrame, decode: Mapping[str, Any], seed: int) -> pd.DataFrame:
        nodes = self.nodes.ids(chunk["keyword"])
        start, end = self.tokenizer.cls_token_id, self.tokenizer.sep_token_id
        pieces = word_pieces(self.tokenizer, chunk["source"].tolist(), self.on.max_source, self.on.keep).ids
        ids, mask = (tensor.to(self.model.device)
                     for tensor in padded([[start, *row, end] for row in pieces], self.tokenizer.pad_token_id))
        given = self.model.conditions(ids, mask, **self._keywords(chunk, nodes))  # shared by all samples
        rows = []
        for sample in range(1 + decode["samples"]):
            z = given.latent("mean")
            if given.prior is not None and (sample or decode["z"] == "sample"):
                noise = self._noise(chunk["example_id"].tolist(), seed, sample)
                z = given.prior.sample(noise.to(self.model.device))
            tokens = self.model.generate_from(given, z, **{name: decode[name] for name in _SEARCH})
            rows.append(pd.DataFrame({
                "example_id": chunk["example_id"].tolist(), "sample": sample, "source": chunk["source"].tolist(),
                "keyword": chunk["keyword"].tolist() if self.uses_keyword else None,
                "keyword_known": nodes >= 0, "prediction": self.texts(tokens),
                "references": chunk["references"].tolist()}))
        return pd.concat(rows, ignore_index=True)

    def _keywords(self, chunk: pd.DataFrame, nodes: Any) -> dict[str, Tensor | None]:
        if not self.uses_keyword:
            return {"keyword_nodes": None, "unseen_vectors": None}
        vectors, device = None, self.model.device
        if (nodes < 0).any():
            texts = chunk.get("unseen_text", chunk["source"])
            vectors = self._unseen.vectors(chunk.assign(source=texts, input_node=nodes)).to(device)
        return {"keyword_nodes": torch.from_numpy(nodes).to(device), "unseen_vectors": vectors}

    def _noise(self, example_ids: Sequence[int], seed: int, sample: int) -> Tensor:
        """Return noise (n, dz), drawn on the CPU so that every device gets the same."""
        size = self.model.config.latent.size
        sources = (torch.Generator().manual_seed(derived_seed(seed, "generate_hcl", "z", sample, number))
                   for number in example_ids)
        return torch.stack([torch.randn(size, generator=source) for source in sources])

    def texts(self, tokens: Tensor) -> list[str]:
        """Return generated ids (B, L) as texts: word pieces joined, special tokens left out."""
        return self.tokenizer.batch_decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=True)
