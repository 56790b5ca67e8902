"""Rewrite the evaluated split with a trained model of the HCL table (HCL section 4.2).

Reads the folder and the items of the run's model; writes predictions.parquet.
"""

import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from keycontrast.errors import InputError, nearest
from models.common.decoding import Rules, contrastive_search
from models.hcl.baselines import load_pieces
from models.hcl.config import HclConfig
from models.hcl.model import HclModel
from models.hcl.pretrained import PieceModel
from stages.common.paths import ModelPaths
from stages.common.schemas import NO_KEYWORD
from stages.common.seeds import derived_seed, generator
from stages.common.settings import Params
from stages.common.tables import read_frame
from stages.run.process import StageProcess, run_stage
from stages.tracks.common.frame import Progress, Rewritten, generate, split_of
from stages.tracks.common.schemas import ITEMS
from stages.tracks.hcl.data import (
    PieceOrigin,
    UnseenKeywords,
    conditioned,
    load_lookup,
    node_ids,
    padded,
    word_pieces,
)

STAGE = "generate_hcl"
_GIVEN = "given:"
_SEARCH = ("search", "num_beams", "min_length", "max_length", "length_penalty", "top_k", "alpha")


class Rewriter(ABC):
    """A trained model with all that it needs to rewrite texts.

    ``condition`` is its setting ``keyword.condition``, ``uses_keyword`` whether a keyword has any influence;
    ``keywords`` are those of the training graph, by node id.
    """

    model: Any
    tokenizer: PreTrainedTokenizerBase
    dataset: str
    uses_keyword = False
    condition: bool | str = False
    keywords: Sequence[str] = ()

    def rewrite(self, items: pd.DataFrame, decode: Mapping[str, Any], seed: int,
                track: Callable[[list[Any]], Iterable[Any]] = iter) -> Iterator[pd.DataFrame]:
        """Yield rows of table ``predictions`` for ``items``, a chunk of ``decode["batch_size"]`` at a time.

        ``items`` have columns ``example_id``, ``source``, ``keyword``, ``references``, in the order of ids; and
        ``unseen_text``, whose embedding stands for a keyword outside the graph (without it, ``source``). Draws of z
        depend on seed, example and the number of the sample alone.

        Raises:
            InputError: contrastive search with a baseline that takes no single steps.
        """
        size = decode["batch_size"]
        for chunk in track([items.iloc[start:start + size] for start in range(0, len(items), size)]):
            yield self._rewrite_chunk(chunk, decode, seed)

    @abstractmethod
    def _rewrite_chunk(self, chunk: pd.DataFrame, decode: Mapping[str, Any], seed: int) -> pd.DataFrame:
        """Return rows of table ``predictions`` for ``chunk``."""

    def _predictions(self, chunk: pd.DataFrame, sample: int, known: np.ndarray | bool, tokens: Tensor) -> pd.DataFrame:
        """Return rows of table ``predictions`` for generated ids (B, L)."""
        texts = self.tokenizer.batch_decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=True)
        return pd.DataFrame({
            "example_id": chunk["example_id"].tolist(), "sample": sample, "source": chunk["source"].tolist(),
            "keyword": chunk["keyword"].tolist() if self.uses_keyword else None, "keyword_known": known,
            "prediction": texts, "references": chunk["references"].tolist()})


class Paraphraser(Rewriter):
    """A trained HCL model.

    Raises:
        InputError: there is no model, or its frozen encoder is not available.
    """

    def __init__(self, folder: Path, device: str = "cpu") -> None:
        self.keywords, self.on = load_lookup(folder)
        self.dataset = self.on.dataset
        self.model = HclModel.from_pretrained(folder).eval()
        self.uses_keyword, self.condition = self.model.config.uses_keyword, self.model.config.keyword.condition
        nn.Module.to(self.model, device)
        self.tokenizer = AutoTokenizer.from_pretrained(folder)

    @cached_property
    def _unseen(self) -> UnseenKeywords:
        return UnseenKeywords(self.on)

    def _rewrite_chunk(self, chunk: pd.DataFrame, decode: Mapping[str, Any], seed: int) -> pd.DataFrame:
        nodes = node_ids(self.keywords, chunk["keyword"])
        start, end = self.tokenizer.cls_token_id, self.tokenizer.sep_token_id
        pieces = word_pieces(self.tokenizer, chunk["source"].tolist(), self.on.max_source, self.on.keep)
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
            rows.append(self._predictions(chunk, sample, nodes >= 0, tokens))
        return pd.concat(rows, ignore_index=True)

    def _keywords(self, chunk: pd.DataFrame, nodes: np.ndarray) -> dict[str, Tensor | None]:
        if not self.uses_keyword:
            return {"keyword_nodes": None, "unseen_vectors": None}
        vectors, device = None, self.model.device
        if (nodes < 0).any():
            vectors = self._unseen.vectors(chunk.assign(input_node=nodes)).to(device)
        return {"keyword_nodes": torch.from_numpy(nodes).to(device), "unseen_vectors": vectors}

    def _noise(self, example_ids: Sequence[int], seed: int, sample: int) -> Tensor:
        """Return noise (n, dz), drawn on the CPU so that every device gets the same."""
        sources = (torch.Generator().manual_seed(derived_seed(seed, STAGE, "z", sample, number))
                   for number in example_ids)
        return torch.stack([torch.randn(self.model.config.latent.size, generator=source) for source in sources])


class PieceRewriter(Rewriter):
    """A trained baseline; it draws nothing, so that a text has one output.

    Raises:
        InputError: there is no model.
    """

    def __init__(self, folder: Path, device: str = "cpu") -> None:
        self.on = PieceOrigin.load(folder)
        self.dataset, self.marks = self.on.dataset, self.on.own_marks()
        self.model = load_pieces(folder, self.on.architecture)
        nn.Module.to(self.model, device)
        self.tokenizer = AutoTokenizer.from_pretrained(folder)

    def _rewrite_chunk(self, chunk: pd.DataFrame, decode: Mapping[str, Any], seed: int) -> pd.DataFrame:
        if decode["search"] != "beam" and type(self.model).begin is PieceModel.begin:
            raise InputError(f"generate_hcl.search is {decode['search']!r}, and this model ({self.on.architecture}) is "
                             f"decoded by beams alone; set it to beam.")
        sources, marks = chunk["source"].tolist(), self.marks
        pieces = word_pieces(self.tokenizer, marks.read(sources), self.on.max_source, self.on.keep)
        ids, mask = marks.around(pieces)
        batch = {name: part.to(self.model.device) for name, part in (
            {"x_ids": ids, "x_mask": mask, **self.model.inputs(sources, self.tokenizer)}).items()}
        rules = Rules(marks.end, marks.pad, decode["min_length"], decode["max_length"], marks.banned)
        if decode["search"] == "contrastive":
            steps, start = self.model.begin(batch, 1 + rules.max_length * decode["top_k"])
            tokens = contrastive_search(steps, start, rules, top_k=decode["top_k"], alpha=decode["alpha"])
        else:
            tokens = self.model.rewrite(batch, rules, decode["num_beams"], decode["length_penalty"])
        return self._predictions(chunk, 0, False, tokens)


def load_rewriter(folder: Path, device: str = "cpu") -> Rewriter:
    """Return the model in ``folder``; its configuration says of which kind it is.

    Raises:
        InputError: there is no model, or what it needs beside its folder is not available.
    """
    config = folder / "config.json"
    if not config.exists():
        raise InputError(f"{folder}: no trained HCL model (config.json is missing). Train it with `keycontrast run`.")
    own = json.loads(config.read_text(encoding="utf-8"))["model_type"] == HclConfig.model_type
    return Paraphraser(folder, device) if own else PieceRewriter(folder, device)


def with_keywords(items: pd.DataFrame, setting: str, nodes: Sequence[str], seed: int) -> pd.DataFrame:
    """Return ``items`` with the column ``keyword`` as ``setting`` has it.

    ``own``; ``random``, for each item one of ``nodes`` drawn by seed and example id alone, never its own keyword; or
    ``given:KEYWORD``, brought into normal form. One that is no node is a new node, whose vector is the frozen embedding
    of ``unseen_text``: the text of an own keyword, and a given one, which need not fit the text, itself.

    Raises:
        InputError: there is no other keyword to draw, or none is given.
    """
    if setting == "own":
        return items
    if setting == "random":
        words = sorted(set(nodes) - {NO_KEYWORD})
        drawn = [_another(word, words, seed, int(example))
                 for word, example in zip(items["keyword"], items["example_id"], strict=True)]
        return items.assign(keyword=pd.Series(drawn, index=items.index, dtype=object))
    word = given_keyword(setting)
    return items.assign(keyword=word, unseen_text=word)


def given_keyword(setting: str) -> str | None:
    """Return the keyword that ``setting`` gives, in normal form; None if it gives none.

    Raises:
        InputError: nothing stands behind ``given:``.
    """
    if not setting.startswith(_GIVEN):
        return None
    # Its package brings scipy along, which a machine that only trains may lack.
    from keycontrast.text.normal_form import normal_form

    word = normal_form(setting.removeprefix(_GIVEN))
    if not word:
        raise InputError("generate_hcl.keyword: no keyword stands behind 'given:'.")
    return word


def unseen_remark(setting: str, nodes: Sequence[str]) -> str | None:
    """Return what to say of a given keyword that is no node; None if there is nothing to say."""
    word = given_keyword(setting)
    if word is None or word in set(nodes):
        return None
    return (f"keyword {word!r} is no node of the training graph: its vector is the frozen embedding of the keyword "
            f"alone, without neighbours ({nearest(word, nodes)})")


def _another(word: str | None, words: Sequence[str], seed: int, example: int) -> str:
    """Return one of ``words``, sorted and distinct, other than ``word``."""
    place = pd.Index(words).get_indexer([word])[0] if words else -1
    others = len(words) - (place >= 0)
    if others < 1:
        raise InputError("generate_hcl.keyword: 'random' needs a second keyword in the graph; there is none.")
    drawn = int(generator(seed, "generate_hcl", "keyword", example).integers(others))
    return words[drawn + (0 <= place <= drawn)]


def run(items: pd.DataFrame, rewriter: Rewriter, decode: Mapping[str, Any], seed: int,
        track: Progress = iter) -> pd.DataFrame:
    """Return table ``predictions`` for the split that ``decode`` names.

    Raises:
        InputError: the split is empty, or keywords are to be changed that the model does not use.
    """
    chosen = split_of(items, decode["split"], "items").sort_values("example_id")
    if decode["keyword"] != "own" and not rewriter.uses_keyword:
        raise InputError(f"generate_hcl.keyword is {decode['keyword']!r}, but this model has no keyword "
                         f"(another architecture, or train_hcl.keyword.condition is false); set it to own.")
    read = with_keywords(conditioned(chosen, rewriter.condition), decode["keyword"], rewriter.keywords, seed)
    return pd.concat(list(rewriter.rewrite(read, decode, seed, track)), ignore_index=True)


def _rewritten(params: Params, name: str, paths: ModelPaths, device: str, track: Progress) -> Rewritten:
    decode, rewriter = params.decoding(name).plain(), load_rewriter(paths.weights, device)
    predictions = run(read_frame(paths.items, ITEMS), rewriter, decode, params.seed, track)
    remark = unseen_remark(decode["keyword"], rewriter.keywords)
    return Rewritten(predictions, [] if remark is None else [remark])


def _work(process: StageProcess) -> None:
    generate(process, _rewritten)


main = partial(run_stage, STAGE, _work, instance="RUN")


if __name__ == "__main__":
    sys.exit(main())
