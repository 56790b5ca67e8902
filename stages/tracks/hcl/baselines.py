"""The baselines of HCL's table: start, batches, training and model folder (HCL section 4.3)."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.feature_extraction.text import TfidfTransformer
from torch import Tensor, nn
from transformers import AutoConfig, AutoTokenizer, GPT2Config, PreTrainedModel, PreTrainedTokenizerBase, T5Config

from keycontrast.errors import InputError
from models.common.encoders import freeze_lower_layers, load_encoder, portable
from models.common.task import Parameters, Step, Task
from models.common.training import fit
from models.hcl.baselines import MODELS, GroupWiseTraining, PieceConfig, load_pieces
from models.hcl.pretrained import Batch, t5_config
from stages.common.encoders import longest_input, resolve_encoder
from stages.common.examples import structure_of
from stages.common.paths import DatasetPaths
from stages.common.retrieval import bm25, word_counts
from stages.common.schemas import NO_KEYWORD
from stages.common.seeds import derived_seed
from stages.common.training import TRAINED_ON_FILE, loop_settings
from stages.tracks.common import training as common
from stages.tracks.common.frame import split_of
from stages.tracks.common.training import SeedTraining
from stages.tracks.hcl import data
from stages.tracks.hcl.data import STAGE, Marks, TripleBatches

# Kinds of models (``model_type``) whose weights an architecture of ``transformers`` can begin with.
_FAMILIES = {"dialogpt": ("gpt2",), "simctg": ("gpt2",), "t5": ("t5", "mt5"), "t5_claps": ("t5", "mt5")}
# T5's prefix, by the structure of the data set.
_TASKS = {"dialogue": "reply: ", "stories": "continue: "}
_ROWS = 256  # items that are compared with all others at once


@dataclass(frozen=True)
class Start:
    """The tokenizer, marks and weights that a baseline begins with."""

    tokenizer: PreTrainedTokenizerBase
    marks: Marks
    described: dict[str, Any]       # the description of each model that it is made with
    location: str | None = None     # folder of its weights; None draws them
    description: str = "from scratch"   # the same for people
    further: Mapping[str, Any] = field(default_factory=dict)    # for the configuration of an own model


def start_of(values: Mapping[str, Any], items: pd.DataFrame, encoder_source: str, structure: str) -> Start:
    """Return the start of a model with plain ``values`` of the block ``train_hcl``; items are of all splits."""
    architecture = values["architecture"]
    source = values[architecture].get("source")
    if source is not None:
        start = _pretrained(architecture, source)
    else:
        encoder = resolve_encoder(encoder_source)
        tokenizer = AutoTokenizer.from_pretrained(encoder.location)
        marks = marks_of(tokenizer) if architecture in _FAMILIES else Marks.of(tokenizer)
        start = Start(tokenizer, marks, {"tokenizer": encoder.description})
    if architecture in ("t5", "t5_claps"):  # a prefix names the task; the model names the decoder's first token
        before = start.tokenizer(_TASKS.get(structure, "paraphrase: "), add_special_tokens=False)["input_ids"]
        first = None if start.location is None else AutoConfig.from_pretrained(start.location).decoder_start_token_id
        return replace(start, marks=replace(start.marks, before=before,
                                            start=start.marks.pad if first is None else first))
    if architecture == "seq2seq_du":  # begins with the encoder, and knows the keyword of every source
        train, named = items[items["split"] == "train"], items[items["keyword"] != NO_KEYWORD]
        further = {"keywords": dict(zip(named["source"], named["keyword"], strict=True)),
                   "lexicon": sorted((set(train["keyword"]) | set(train["target_keyword"])) - {NO_KEYWORD})}
        return replace(start, described={"encoder": encoder.description}, further=further,
                       location=str(encoder.location) if encoder.pretrained else None,
                       description=f"encoder {encoder.description['name']}, the rest from scratch")
    return start


def _pretrained(architecture: str, source: str) -> Start:
    param = f"train_hcl.{architecture}.source"
    encoder = resolve_encoder(source, param)
    if not list(encoder.location.glob("*.safetensors")):
        raise InputError(f"{param}: {source} has no weights as safetensors, and others are not read. Save the "
                         f"model again with save_pretrained of transformers, and give that folder (source: path, "
                         f"init: FOLDER).")
    kind = AutoConfig.from_pretrained(encoder.location).model_type
    if kind not in _FAMILIES[architecture]:
        raise InputError(f"{param}: {source} is a {kind} model; {architecture} takes "
                         f"{' or '.join(_FAMILIES[architecture])}.")
    try:
        tokenizer = AutoTokenizer.from_pretrained(encoder.location)
    except (ImportError, OSError, ValueError) as error:
        raise InputError(f"{param}: {source}: its tokenizer cannot be read here ({error}). A folder with its "
                         f"tokenizer.json can.") from error
    description = f"{source} (version {encoder.description['version']}, sha256 {encoder.description['sha256']})"
    return Start(tokenizer, marks_of(tokenizer), {"start": encoder.description}, str(encoder.location), description)


def marks_of(tokenizer: PreTrainedTokenizerBase) -> Marks:
    """Return marks of texts that end with the end token, or [SEP]; the decoder reads that first."""
    end = tokenizer.eos_token_id if tokenizer.eos_token_id is not None else tokenizer.sep_token_id
    if end is None:
        raise InputError("train_hcl: the pretrained tokenizer has no end token (eos_token or sep_token).")
    pad = end if tokenizer.pad_token_id is None else tokenizer.pad_token_id
    turn = str(tokenizer.convert_ids_to_tokens(end))
    return Marks([], [end], end, end, pad, sorted(set(tokenizer.all_special_ids) - {end}), turn)


def build(values: Mapping[str, Any], start: Start, mean_target_length: float) -> Any:
    """Return a :class:`PieceModel` beside a ``PreTrainedModel``, with weights drawn from torch's generator."""
    architecture, training = values["architecture"], values["training"]
    sizes, marks, kind = values[architecture], start.marks, MODELS[architecture]
    if architecture in _FAMILIES:
        config = _config(values, start)
        config.mean_target_length = mean_target_length
        if start.location is None:
            return kind(config)
        model, report = kind.from_pretrained(start.location, config=config, use_safetensors=True,
                                             output_loading_info=True, dtype=torch.float32)
        if missing := sorted(report["missing_keys"]):
            raise InputError(f"train_hcl.{architecture}.source: {start.description} lacks {len(missing)} weights, such "
                             f"as {missing[0]}.")
        return model
    own = PieceConfig(architecture, len(start.tokenizer), sizes, mean_target_length, pad_token_id=marks.pad,
                      bos_token_id=marks.start, eos_token_id=marks.end, **start.further)
    if architecture != "seq2seq_du":
        return kind(own)
    pretrained = bert_of(start.tokenizer.name_or_path, start.location is not None, training)
    own.encoder = portable(pretrained.config.to_dict())
    model = kind(own)
    model.encoder.load_state_dict(pretrained.state_dict())
    try:
        freeze_lower_layers(model.encoder, training["freeze_layers"])
    except ValueError as error:
        raise InputError(f"train_hcl.training.freeze_layers: {error}.") from error
    return model


def bert_of(location: str | Path, pretrained: bool, training: Mapping[str, Any]) -> PreTrainedModel:
    """Return a BERT whose positions are enough for the texts; see :func:`models.common.encoders.load_encoder`."""
    encoder, _ = load_encoder(location, pretrained=pretrained)
    if encoder.config.model_type != "bert":
        raise InputError(f"encoder.source: {location} is a {encoder.config.model_type} model; HCL and Seq2Seq-DU are "
                         f"built on BERT encoders.")
    longest = longest_input(encoder) - 2
    if max(training["max_source"], training["max_target"]) > longest:
        raise InputError(f"train_hcl.training: max_source and max_target may be {longest} at most, since the encoder "
                         f"has no more positions.")
    return encoder


def _config(values: Mapping[str, Any], start: Start) -> Any:
    architecture, training, marks = values["architecture"], values["training"], start.marks
    sizes, config = values[architecture], None if start.location is None else AutoConfig.from_pretrained(start.location)
    if architecture in ("t5", "t5_claps"):
        if config is not None:
            return t5_config(config)
        special: dict[str, Any] = {"pad_token_id": marks.pad, "eos_token_id": marks.end,
                                   "decoder_start_token_id": marks.start}
        return T5Config(vocab_size=len(start.tokenizer), d_model=sizes["width"], num_layers=sizes["layers"],
                        d_kv=sizes["width"] // sizes["heads"], num_heads=sizes["heads"], d_ff=sizes["feed_forward"],
                        dropout_rate=sizes["dropout"], **special)
    if config is None:
        dropout = {name: sizes["dropout"] for name in ("resid_pdrop", "embd_pdrop", "attn_pdrop")}
        config = GPT2Config(vocab_size=len(start.tokenizer), n_positions=sizes["positions"], n_embd=sizes["width"],
                            n_layer=sizes["layers"], n_head=sizes["heads"], n_inner=sizes["feed_forward"], **dropout,
                            bos_token_id=marks.end, eos_token_id=marks.end, pad_token_id=marks.pad)
    needed = training["max_source"] + training["max_target"] + 2
    if needed > config.n_positions:
        raise InputError(f"train_hcl.{architecture}: x and y may have {needed} tokens (max_source, max_target "
                         f"and two ends), and the model has {config.n_positions} positions. Cut texts shorter, or set "
                         f"positions higher where it is from scratch.")
    return config


class CandidateBatches(TripleBatches):
    """Triples with candidates beside them; see :class:`models.hcl.baselines.GroupWise` for their tensors.

    The candidates ``chosen`` (n, C) of an item are the items with the five most and five of the least similar inputs by
    BM25 over word pieces, ties in random order. On side 0 their inputs are paired with its target, on side 1 their
    targets with its input. ``scores`` (n, 2, C) are TF-IDF cosines of these pairs; or, by ``label``, 1 for a pair of
    the training split and 0 for others. The item itself is a candidate only by ``label``.
    """

    def __init__(self, *args: Any, score: str, seed: int) -> None:
        super().__init__(*args)
        self.chosen, self.scores = candidates(self.sources, self.targets, label=score == "label", seed=seed)

    def batch(self, items: Sequence[int]) -> dict[str, Tensor]:
        """Return the tensors of ``items`` and of their candidates."""
        own, others = torch.tensor(list(items)), self.chosen[list(items)]
        repeated = own.unsqueeze(1).expand_as(others)
        inputs, outputs = torch.stack([others, repeated], 1), torch.stack([repeated, others], 1)  # (B, 2, C)
        parts = self.marks.pairs([self.sources[item] for item in inputs.flatten().tolist()],
                                 [self.targets[item] for item in outputs.flatten().tolist()])
        return {**super().batch(items), "cand_score": self.scores[list(items)],
                **{f"cand_{name}": part.unflatten(0, inputs.shape) for name, part in parts.items()}}


def candidates(sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], top: int = 5,
               tail: int = 5, label: bool = False, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return candidates (n, C) of items, by their word pieces, at most top + tail, and scores (n, 2, C)."""
    n = len(sources)
    counts = word_counts([*sources, *targets], list)
    scores_of = bm25(counts[:n])
    order = np.random.default_rng(seed).permutation(n) / n * 1e-6  # decides ties alone
    count, chosen = min(top + tail, n if label else n - 1), []
    for first in range(0, n, _ROWS):
        rows = torch.arange(first, min(first + _ROWS, n)).unsqueeze(1)
        scores = torch.from_numpy(scores_of(rows.flatten().numpy()) - order)  # (b, n)
        best = scores.scatter_(1, rows, torch.inf if label else -torch.inf).topk(min(top, count), dim=-1).indices
        scores.scatter_(1, torch.cat([rows, best], dim=-1), torch.inf)
        chosen.append(torch.cat([best, scores.topk(count - best.shape[1], dim=-1, largest=False).indices], dim=-1))
    others, own = torch.cat(chosen), torch.arange(n).unsqueeze(1)
    if label:
        x, y = (torch.from_numpy(pd.factorize(pd.Series(list(map(tuple, rows))))[0]) for rows in (sources, targets))
        pairs = torch.stack([x[others] * n + y[own], x[own] * n + y[others]], dim=1)
        return others, torch.isin(pairs, x * n + y).float()
    weights = TfidfTransformer().fit(counts[:n])
    inputs, outputs = weights.transform(counts[:n]), weights.transform(counts[n:])
    places, repeated = others.flatten().numpy(), own.expand_as(others).flatten().numpy()
    cosines = [torch.from_numpy(np.asarray(products.sum(axis=1))).view_as(others)
               for products in (inputs[places].multiply(outputs[repeated]), inputs[repeated].multiply(outputs[places]))]
    return others, torch.stack(cosines, dim=1).float().clamp(0, 1)


def batches_of(items: pd.DataFrame, values: Mapping[str, Any], start: Start, training: bool = True,
               seed: int = 0) -> TripleBatches:
    """Return the batches of items of one split; group-wise training items have candidates beside them."""
    cut = values["training"]
    given = items, start.tokenizer, cut["max_source"], cut["max_target"], cut["keep"], start.marks
    if training and values["architecture"] == "group_wise":
        return CandidateBatches(*given, score=values["group_wise"]["score"],
                                seed=derived_seed(seed, STAGE, "candidates"))
    return TripleBatches(*given)


class PieceTask(Task):
    """Trains a baseline; losses are divided by the mean target length, as HCL's are."""

    train: TripleBatches
    validation: TripleBatches

    def __init__(self, model: Any, train: TripleBatches, validation: TripleBatches, training: Mapping[str, Any],
                 seed: int, restarted: bool = False) -> None:
        self.model, self.module = model, model.trainee()
        self.train, self.validation = train, validation
        self.new_rate, self.encoder_rate = training["learning_rate"], training["encoder_rate"]
        self.learning_rate = (training["restart_learning_rate"] or self.new_rate) if restarted else self.new_rate
        self.batch_size = training["micro_batch"]
        self.divisor = train.mean_target_length
        self.noise = data.fixed_noise(validation.example_ids, model.noise_size, seed, STAGE, "eps")

    def parameter_groups(self) -> list[Parameters]:
        """Return the parameters of the encoder, if the model has one, of what is trained beside it, and all others."""
        groups: dict[str, list[nn.Parameter]] = {"encoder": [], "beside": [], "rest": []}
        prefix, inside = self.model.encoder_prefix, set(self.model.parameters())
        for name, parameter in self.module.named_parameters():
            encodes = prefix is not None and name.removeprefix("model.").startswith(prefix)
            groups["encoder" if encodes else "rest" if parameter in inside else "beside"].append(parameter)
        return [Parameters("encoder", groups["encoder"], self.encoder_rate),
                Parameters("rest", groups["rest"], self.learning_rate),
                Parameters("beside", groups["beside"], self.new_rate)]

    def lengths(self) -> list[int]:
        """Return the tokens of each training item's source and target, marks not counted."""
        return [len(x) + len(y) for x, y in zip(self.train.sources, self.train.targets, strict=True)]

    def load(self, items: Sequence[int]) -> Batch:
        """Return the tensors of ``items``, with those that the model reads of their texts besides."""
        return self._loaded(self.train, items)

    def load_validation(self, items: Sequence[int]) -> Batch:
        """Return the same of validation items, with their noise."""
        return {**self._loaded(self.validation, items), "eps": self.noise[list(items)]}

    def _loaded(self, batches: TripleBatches, items: Sequence[int]) -> Batch:
        further = self.model.inputs([batches.texts[item] for item in items], batches.tokenizer)
        return {**batches.batch(items), **further}

    def begin_step(self, step: Step) -> None:
        """Freeze the reference of Group-wise, if it is time."""
        if isinstance(self.module, GroupWiseTraining):
            self.module.begin_step(step)

    def train_batch(self, batch: Batch, step: Step) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the share of a micro-batch in the loss of the step's batch, and its parts."""
        parts = {name: value.sum() / len(step.batch) for name, value in self.module.objective(batch, step).items()}
        return parts.pop("loss") / self.divisor, parts

    def validate(self) -> dict[str, float]:
        """Return means over validation items, ``loss`` of them over the mean target length."""
        sums = self.validation_sums(lambda batch: {name: value.sum() for name, value in
                                                   self.model.validation(batch).items()})
        means = {name: value / len(self.validation) for name, value in sums.items()}
        return means | {"loss": means["loss"] / self.divisor}


def train_baseline(job: SeedTraining, values: Mapping[str, Any], items: pd.DataFrame,
                   init: common.Start | None) -> None:
    """Train a baseline on rows of :func:`joined_items` under one seed, and save it."""
    architecture, training, model_row = values["architecture"], values["training"], job.params.models.hcl[job.name]
    paths = DatasetPaths(model_row.dataset)
    start = start_of(values, items, job.params.encoder.source,
                     structure_of(job.params.datasets[model_row.dataset].layout))
    initial, described = None, dict[str, Any]()
    if init is not None:
        data.PieceOrigin.load(init.folder)
        initial, described = load_pieces(init.folder, architecture), init.described()
    if not job.begin(training, [paths.table(schema.name) for schema in data.TABLES], {**start.described, **described}):
        return
    train, validation = (batches_of(split_of(items, split, "examples"), values, start, split == "train", job.seed)
                         for split in ("train", "validation"))
    settings = loop_settings({**training, "bucket": True})
    torch.manual_seed(derived_seed(job.seed, STAGE, "weights"))
    model = build(values, start, train.mean_target_length)
    if initial is not None:
        shapes, others = ({name: value.shape for name, value in part.state_dict().items()} for part in (model, initial))
        unlike = sorted(name for name in shapes.keys() | others if shapes.get(name) != others.get(name))
        if unlike:
            raise InputError(f"models.hcl: the model in init has other sizes ({unlike[0]}); give both rows the same.")
        model.load_state_dict(initial.state_dict())
    nn.Module.to(model, job.device)
    task = PieceTask(model, train, validation, training, job.seed, restarted=initial is not None)
    settings = replace(settings, final_from_step=model.final_from_step(settings.total_steps(len(train))))
    history = fit(task, settings, job.store, partial(derived_seed, job.seed, STAGE), job.open_bar)
    on = data.PieceOrigin(architecture, paths.name, start.description, asdict(start.marks),
                          *(training[name] for name in ("max_source", "max_target", "keep")))
    counts = items["split"].value_counts()
    metrics: dict[str, Any] = {"parameters": sum(p.numel() for p in model.parameters()), "start": start.description}
    card = common.model_card(
        f"{job.name}: {model.title}", "text-generation",
        f"Rewrites a sentence. Trained by Keycontrast on the data set `{on.dataset}`: {counts.get('train', 0)} pairs, "
        f"{counts.get('validation', 0)} for selection.",
        [f"Weights at the start: {start.description if init is None else f'those of {init.name}'}",
         f"Best epoch {history.best_epoch} of {training['epochs']}: {common.best_values(history)}",
         f"{metrics['parameters']} parameters; {len(start.tokenizer)} word pieces; {on.max_source} of a text are read",
         "`config.json` holds the settings, `trained_on.json` where the model came from"],
        '`keycontrast predict RUN "a sentence"`, or `models.hcl.baselines.load_pieces(FOLDER, ARCHITECTURE)`')
    notes = {TRAINED_ON_FILE: asdict(on)}
    job.save(architecture, model, history,
             common.ModelFolder(card, notes, [data.items_table(items)], metrics, start.tokenizer))

