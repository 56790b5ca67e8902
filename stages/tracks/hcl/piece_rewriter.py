"""Generating texts with a trained baseline of word pieces."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from torch import nn
from transformers import AutoTokenizer

from keycontrast.errors import InputError
from models.common.decoding import Rules, contrastive_search
from models.hcl.baselines.auto import load_pieces
from models.hcl.baselines.base import PieceModel
from stages.tracks.hcl.batches import word_pieces
from stages.tracks.hcl.pieces import PieceOrigin


class PieceRewriter:
    """A trained baseline with all that it needs to rewrite texts: it draws nothing, so that a text has one output.

    Args:
        folder: of the model.
        device: ``cpu`` or ``cuda``.

    Raises:
        InputError: there is no model.
    """

    uses_keyword = False
    keywords: Sequence[str] = ()

    def __init__(self, folder: Path, device: str = "cpu") -> None:
        self.on = PieceOrigin.load(folder)
        self.model: Any = load_pieces(folder, self.on.architecture)
        nn.Module.to(self.model, device)
        self.tokenizer = AutoTokenizer.from_pretrained(folder)

    @property
    def dataset(self) -> str:
        """Name of the data set that it was trained on."""
        return self.on.dataset

    def rewrite(self, items: pd.DataFrame, decode: Mapping[str, Any], seed: int,
                track: Callable[[list[Any]], Iterable[Any]] = iter) -> Iterator[pd.DataFrame]:
        """Yield rows of table ``predictions``; see :meth:`stages.tracks.hcl.decoding.Paraphraser.rewrite`.

        Raises:
            InputError: contrastive search is asked for, of a model that goes no single steps.
        """
        if decode["search"] != "beam" and type(self.model).begin is PieceModel.begin:
            raise InputError(f"generate_hcl.search is {decode['search']!r}, and this model ({self.on.architecture}) is "
                             f"decoded by beams alone; set it to beam.")
        size = decode["batch_size"]
        for chunk in track([items.iloc[start:start + size] for start in range(0, len(items), size)]):
            sources = chunk["source"].tolist()
            yield pd.DataFrame({
                "example_id": chunk["example_id"].tolist(), "sample": 0, "source": sources, "keyword": None,
                "keyword_known": False, "prediction": self._outputs(sources, decode),
                "references": chunk["references"].tolist()})

    def _outputs(self, sources: Sequence[str], decode: Mapping[str, Any]) -> list[str]:
        marks = self.on.own_marks()
        pieces = word_pieces(self.tokenizer, marks.read(sources), self.on.max_source, self.on.keep)
        ids, mask = marks.around(pieces.ids)
        batch = {name: part.to(self.model.device) for name, part in (
            {"x_ids": ids, "x_mask": mask, **self.model.inputs(sources, self.tokenizer)}).items()}
        rules = Rules(marks.end, marks.pad, decode["min_length"], decode["max_length"], marks.banned)
        if decode["search"] == "contrastive":
            steps, start = self.model.begin(batch, 1 + rules.max_length * decode["top_k"])
            tokens = contrastive_search(steps, start, rules, top_k=decode["top_k"], alpha=decode["alpha"])
        else:
            tokens = self.model.rewrite(batch, rules, decode["num_beams"], decode["length_penalty"])
        return self.tokenizer.batch_decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=True)
