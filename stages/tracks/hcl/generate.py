"""Rewrite the evaluated split with a trained model of the HCL table (HCL section 4.2)."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
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
from models.hcl.hcl import HclConfig
from models.hcl.model import Conditions, HclModel
from models.hcl.pretrained import PieceModel
from stages.common.paths import ModelPaths
from stages.common.schemas import NO_KEYWORD
from stages.common.seeds import generator
from stages.common.settings import Params
from stages.common.tables import read_frame
from stages.run.log import logger
from stages.run.process import run_stage
from stages.tracks.common.frame import Progress, generate, split_of
from stages.tracks.common.readable import readable_text
from stages.tracks.common.schemas import ITEMS, LIKELIHOODS, PREDICTIONS, Table
from stages.tracks.common.track import Asked, Finding
from stages.tracks.hcl import data

STAGE = "generate_hcl"
_GIVEN = "given:"
_SEARCH = ("search", "num_beams", "min_length", "max_length", "length_penalty", "top_k", "alpha")


class Rewriter:
    """A trained model that rewrites texts."""

    model: Any
    tokenizer: PreTrainedTokenizerBase
    marks: data.Marks
    on: Any                         # where the model came from
    uses_keyword = False            # whether a keyword has any influence
    draws = False                   # whether a text can have several outputs
    condition: bool | str = False   # its setting ``keyword.condition``
    keywords: Sequence[str] = ()    # of the training graph, by node id

    def rewrite(self, items: pd.DataFrame, decode: Mapping[str, Any], seed: int,
                track: Callable[[list[Any]], Iterable[Any]] = iter) -> Iterator[pd.DataFrame]:
        """Yield rows of table ``predictions`` for ``items``, a chunk of ``decode["batch_size"]`` at a time.

        The embedding of column ``unseen_text`` (without it, ``source``) represents a keyword outside the graph.
        """
        size = decode["batch_size"]
        for chunk in track([items.iloc[start:start + size] for start in range(0, len(items), size)]):
            yield self._rewrite_chunk(chunk, decode, seed)

    def _rewrite_chunk(self, chunk: pd.DataFrame, decode: Mapping[str, Any], seed: int) -> pd.DataFrame:
        raise NotImplementedError

    @torch.no_grad()
    def likelihoods(self, items: pd.DataFrame, size: int) -> Iterator[pd.DataFrame]:
        """Yield rows of table ``likelihoods`` for ``items``, which have a ``target``, ``size`` at a time."""
        for chunk in (items.iloc[start:start + size] for start in range(0, len(items), size)):
            rows = data.word_pieces(self.tokenizer, chunk["target"].tolist(), self.on.max_target)
            targets = {name: part.to(self.model.device) for name, part in self.marks.targets(rows).items()}
            yield pd.DataFrame({"example_id": chunk["example_id"], "nll": self._likelihood(chunk, targets).cpu(),
                                "tokens": [len(row) + 1 for row in rows]})

    def _likelihood(self, chunk: pd.DataFrame, targets: Mapping[str, Tensor]) -> Tensor:
        raise NotImplementedError

    def _encoded(self, chunk: pd.DataFrame) -> tuple[Tensor, Tensor]:
        texts, device = self.marks.read(chunk["source"].tolist()), self.model.device
        ids, mask = self.marks.around(data.word_pieces(self.tokenizer, texts, self.on.max_source, self.on.keep))
        return ids.to(device), mask.to(device)

    def _predictions(self, chunk: pd.DataFrame, sample: int, known: np.ndarray | bool, tokens: Tensor) -> pd.DataFrame:
        texts = self.tokenizer.batch_decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=True)
        return pd.DataFrame({
            "example_id": chunk["example_id"].tolist(), "sample": sample, "source": chunk["source"].tolist(),
            "keyword": chunk["keyword"].tolist() if self.uses_keyword else None, "keyword_known": known,
            "prediction": texts, "references": chunk["references"].tolist()})


class Paraphraser(Rewriter):
    """A trained HCL model."""

    def __init__(self, folder: Path, device: str = "cpu") -> None:
        self.keywords, self.on = data.load_lookup(folder)
        self.model = HclModel.from_pretrained(folder).eval()
        self.uses_keyword, self.condition = self.model.config.uses_keyword, self.model.config.keyword.condition
        self.draws = self.model.config.latent.enabled
        nn.Module.to(self.model, device)
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.marks, self._unseen = data.Marks.of(self.tokenizer), data.UnseenKeywords(self.on)

    def _conditions(self, chunk: pd.DataFrame, nodes: np.ndarray) -> Conditions:
        keywords: dict[str, Tensor | None] = {}
        if self.uses_keyword:
            unseen, device = (nodes < 0).any(), self.model.device
            vectors = self._unseen.vectors(chunk.assign(input_node=nodes)).to(device) if unseen else None
            keywords = {"keyword_nodes": torch.from_numpy(nodes).to(device), "unseen_vectors": vectors}
        return self.model.conditions(*self._encoded(chunk), **keywords)

    def _likelihood(self, chunk: pd.DataFrame, targets: Mapping[str, Tensor]) -> Tensor:
        return self.model.likelihood(self._conditions(chunk, data.node_ids(self.keywords, chunk["keyword"])), targets)

    def _rewrite_chunk(self, chunk: pd.DataFrame, decode: Mapping[str, Any], seed: int) -> pd.DataFrame:
        nodes, device = data.node_ids(self.keywords, chunk["keyword"]), self.model.device
        if decode["max_length"] > (limit := self.model.config.encoder["max_position_embeddings"]):
            raise InputError(f"generate_hcl.max_length: the model has {limit} positions; set it to {limit} at most.")
        given, rows = self._conditions(chunk, nodes), []  # shared by all samples
        for sample in range(1 + decode["samples"]):
            z = given.mean
            if given.prior is not None and sample:
                noise = data.fixed_noise(chunk["example_id"], self.model.config.latent.size, seed, STAGE, "z", sample)
                z = given.prior.sample(noise.to(device))
            tokens = self.model.generate_from(given, z, **{name: decode[name] for name in _SEARCH})
            rows.append(self._predictions(chunk, sample, nodes >= 0 if self.uses_keyword else True, tokens))
        return pd.concat(rows, ignore_index=True)


class PieceRewriter(Rewriter):
    """A trained baseline; a text has one output."""

    def __init__(self, folder: Path, device: str = "cpu") -> None:
        self.on = data.PieceOrigin.load(folder)
        self.marks = data.Marks(**self.on.marks)
        self.model = load_pieces(folder, self.on.architecture)
        nn.Module.to(self.model, device)
        self.tokenizer = AutoTokenizer.from_pretrained(folder)

    def _batch(self, chunk: pd.DataFrame) -> dict[str, Tensor]:
        ids, mask = self._encoded(chunk)
        further = self.model.inputs(chunk["source"].tolist(), self.tokenizer)
        return {"x_ids": ids, "x_mask": mask, **{name: part.to(self.model.device) for name, part in further.items()}}

    def _likelihood(self, chunk: pd.DataFrame, targets: Mapping[str, Tensor]) -> Tensor:
        likelihood: Tensor = self.model.likelihood({**self._batch(chunk), **targets})
        return likelihood

    def _rewrite_chunk(self, chunk: pd.DataFrame, decode: Mapping[str, Any], seed: int) -> pd.DataFrame:
        if decode["search"] != "beam" and type(self.model).begin is PieceModel.begin:
            raise InputError(f"generate_hcl.search is {decode['search']!r}, and this model ({self.on.architecture}) is "
                             f"decoded by beams alone; set it to beam.")
        marks, batch = self.marks, self._batch(chunk)
        rules = Rules(marks.end, marks.pad, decode["min_length"], decode["max_length"], marks.banned)
        needed = int(batch["x_mask"].sum(1).max()) + rules.max_length + 1
        if self.on.architecture in ("dialogpt", "simctg") and needed > self.model.config.n_positions:
            raise InputError(f"generate_hcl.max_length: a source and {rules.max_length} new tokens need {needed} "
                             f"positions, and the model has {self.model.config.n_positions}; lower it.")
        if decode["search"] == "contrastive":
            steps, start = self.model.begin(batch, 1 + rules.max_length * decode["top_k"])
            tokens = contrastive_search(steps, start, rules, top_k=decode["top_k"], alpha=decode["alpha"])
        else:
            tokens = self.model.rewrite(batch, rules, decode["num_beams"], decode["length_penalty"])
        return self._predictions(chunk, 0, True, tokens)


def load_rewriter(folder: Path, device: str = "cpu") -> Rewriter:
    """Return the model in ``folder``, whose configuration names its kind."""
    config = folder / "config.json"
    if not config.exists():
        raise InputError(f"{folder}: no trained HCL model (config.json is missing). Train it with `keycontrast run`.")
    own = json.loads(config.read_text(encoding="utf-8"))["model_type"] == HclConfig.model_type
    return Paraphraser(folder, device) if own else PieceRewriter(folder, device)


def with_keywords(items: pd.DataFrame, setting: str, nodes: Sequence[str], seed: int) -> pd.DataFrame:
    """Return ``items`` with the column ``keyword`` that ``setting`` selects.

    ``random`` draws one of the other ``nodes`` for each item, by seed and example id alone; ``given:KEYWORD`` is
    brought into normal form.
    """
    if setting == "own":
        return items
    if setting == "random":
        words, drawn = sorted(set(nodes) - {NO_KEYWORD}), []
        for example, place in zip(items["example_id"], pd.Index(words).get_indexer(items["keyword"]), strict=True):
            others = len(words) - (place >= 0)
            if others < 1:
                raise InputError("generate_hcl.keyword: 'random' needs a second keyword in the graph; there is none.")
            number = int(generator(seed, STAGE, "keyword", example).integers(others))
            drawn.append(words[number + (0 <= place <= number)])
        return items.assign(keyword=pd.Series(drawn, index=items.index, dtype=object))
    word = given_keyword(setting)
    return items.assign(keyword=word, unseen_text=word)


def given_keyword(setting: str) -> str | None:
    """Return the keyword that ``setting`` gives, in normal form; None if it gives none."""
    if not setting.startswith(_GIVEN):
        return None
    # Its package brings scipy along, which a machine that only trains may lack.
    from keycontrast.text.normal_form import normal_form

    word = normal_form(setting.removeprefix(_GIVEN))
    if not word:
        raise InputError("generate_hcl.keyword: no keyword follows 'given:'.")
    return word


def unseen_warning(setting: str, nodes: Sequence[str]) -> str | None:
    """Return a warning about a given keyword that is no node; None if there is none."""
    word = given_keyword(setting)
    if word is None or word in set(nodes):
        return None
    return (f"keyword {word!r} is no node of the training graph: its vector is the frozen embedding of the keyword "
            f"alone, without neighbours ({nearest(word, nodes)})")


def run(items: pd.DataFrame, rewriter: Rewriter, decode: Mapping[str, Any], seed: int,
        track: Progress = iter) -> list[Table]:
    """Return tables ``predictions`` and ``likelihoods`` for the split that ``decode`` names."""
    chosen = split_of(items, decode["split"], "items").sort_values("example_id")
    if decode["keyword"] != "own" and not rewriter.uses_keyword:
        raise InputError(f"generate_hcl.keyword is {decode['keyword']!r}, but this model has no keyword "
                         f"(another architecture, or train_hcl.keyword.condition is false); set it to own.")
    if decode["samples"] and not rewriter.draws:
        raise InputError(f"generate_hcl.samples is {decode['samples']}, but this model has no latent variable to draw; "
                         f"set it to 0.")
    read = with_keywords(data.conditioned(chosen, rewriter.condition), decode["keyword"], rewriter.keywords, seed)
    return [Table(schema.name, pd.concat(list(rows), ignore_index=True), schema) for schema, rows in (
        (PREDICTIONS, rewriter.rewrite(read, decode, seed, track)),
        (LIKELIHOODS, rewriter.likelihoods(read, decode["batch_size"])))]


class NewTexts:
    """Rewrites texts under their own keywords, random ones, or a given one."""

    def __init__(self, asked: Asked, folder: Path, finding: Finding, device: str) -> None:
        decode = asked.params.decoding(asked.run).plain()
        self._decode = {**decode, "samples": decode["samples"] if asked.samples is None else asked.samples}
        self._setting = decode["keyword"] if asked.keyword is None else f"given:{asked.keyword}"
        self._rewriter = load_rewriter(folder, device)
        self._seed, self._done, self.batch_size = asked.params.seed, 0, int(decode["batch_size"])
        if asked.keyword is not None and not self._rewriter.uses_keyword:
            raise InputError(f"--keyword: the model of run {asked.run} reads no keyword; leave it out.")
        if self._decode["samples"] and not self._rewriter.draws:
            named = "generate_hcl.samples" if asked.samples is None else "--samples"
            raise InputError(f"{named}: the model of run {asked.run} has no latent variable to draw; set 0.")
        own = self._rewriter.uses_keyword and given_keyword(self._setting) is None
        if own and self._rewriter.condition == "target":
            raise InputError(f"run {asked.run}: its model was trained with the keyword of the target "
                             f"(keyword.condition: target), which a new text does not have. Give one by --keyword.")
        self._keywords = finding.keywords(self._rewriter.on.dataset, device) if own else None
        dataset = asked.params.models.hcl[asked.params.runs.hcl[asked.run].model].dataset
        self._language, self._written = asked.params.datasets[dataset].language, finding.written(dataset)
        warning = unseen_warning(self._setting, self._rewriter.keywords) if self._rewriter.uses_keyword else None
        if warning is not None:
            logger("predict").warning("%s", warning)

    def lines(self, texts: list[str]) -> list[dict[str, Any]]:
        """Return ``source``, ``prediction``, ``words``, and ``samples`` and keywords if there are any."""
        numbers = range(self._done, self._done + len(texts))    # texts are numbered on
        self._done += len(texts)
        chosen = self._keywords(texts) if self._keywords is not None else [(NO_KEYWORD, "given")] * len(texts)
        items = pd.DataFrame({"example_id": numbers, "source": texts, "keyword": [keyword for keyword, _ in chosen],
                              "unseen_text": texts, "references": [[] for _ in texts]})
        methods = [method for _, method in chosen]
        if self._setting != "own" and self._rewriter.uses_keyword:
            items = with_keywords(items, self._setting, self._rewriter.keywords, self._seed)
            methods = [self._setting.partition(":")[0]] * len(texts)
        decode = {**self._decode, "batch_size": len(texts)}
        rows = pd.concat(list(self._rewriter.rewrite(items, decode, self._seed)))
        lines = []
        for (_, same), method in zip(rows.groupby("example_id", sort=True), methods, strict=True):
            first, word = same.iloc[0], same["keyword"].iloc[0]
            texts = [readable_text(text, first["source"], self._written, self._language) for text in same["prediction"]]
            line = {"source": first["source"], "prediction": texts[0], "words": first["prediction"]}
            if self._rewriter.uses_keyword:
                line |= {"keyword": None if word == NO_KEYWORD else word, "keyword_from": method,
                         "keyword_in_graph": bool(first["keyword_known"])}
            lines.append(line | ({"samples": texts[1:]} if len(same) > 1 else {}))
        return lines


def _rewritten(params: Params, name: str, paths: ModelPaths, device: str,
               track: Progress) -> tuple[list[Table], list[str]]:
    decode, rewriter = params.decoding(name).plain(), load_rewriter(paths.weights, device)
    warning = unseen_warning(decode["keyword"], rewriter.keywords) if rewriter.uses_keyword else None
    return (run(read_frame(paths.items, ITEMS), rewriter, decode, params.seed, track),
            [] if warning is None else [warning])


main = partial(run_stage, STAGE, lambda process: generate(process, _rewritten), instance="RUN")
