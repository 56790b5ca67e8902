"""Trainings and decodings to measure: every architecture at its real depth, narrow, on a few texts of word pieces."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import piece_cases
import pyarrow as pa
import recurrent_cases
import tiny_bert
import tiny_classes
import tiny_hcl
import tiny_items
import tiny_rewriters
import tiny_training
import torch
import transformer_cases
from pretend.device import NAME
from pretend.measure import decoded_token, micro_batch
from transformers import BertModel

from models.common.decoding import Rules, contrastive_search
from models.hcl import HclModel
from models.pgkpr.special import EOS, PAD
from stages.attribution import pair_classifier
from stages.common.encoders import resolve_encoder
from stages.common.settings import laid_over
from stages.params.data import PairClassifier, STagger
from stages.params.hcl import TrainHcl
from stages.params.pgkpr import TrainPgkpr
from stages.psi import s_tagger
from stages.psi.importance.texts import Texts, WordTexts
from stages.tracks.clld import architecture as clld
from stages.tracks.clld.architectures import architecture_of
from stages.tracks.hcl import piece_baselines
from stages.tracks.hcl.architectures import ARCHITECTURES
from stages.tracks.hcl.architectures import hcl as train_hcl
from stages.tracks.hcl.items import joined_items
from stages.tracks.hcl.lookup import TrainedOn, UnseenKeywords
from stages.tracks.pgkpr import architecture as pgkpr
from stages.tracks.pgkpr.vocabulary import Vocabulary

DEPTH = 6  # layers of the BERT
HCL = {"hcl": {}, "hcl-no-graph": {"graph": {"iterations": 0}}, "hcl-no-keyword": {"keyword": {"condition": False}},
       "hcl-backbone": {"latent": {"enabled": False}}}
PGKPR = {"pgkpr": {}, "transformer": {}, "ianet": {}, "residual_lstm": {}, "latent_bow": {},
         "latent_bow-gumbel": {"latent_bow": {"gumbel": True}}}
# Of HCL's table; the default of Group-wise learns by likelihood alone first, as a Transformer does.
_NARROW = {"layers": 6, "heads": 2, "width": 16, "feed_forward": 32}
BASELINES = {
    "cvae": {"embedding": 12, "encoder": 8, "context": 16, "width": 16, "latent": 6, "bag": 12},
    "seq2seq": {"embedding": 12, "width": 16}, "seq2seq_du": {}, "transformer": _NARROW,
    "group_wise": {**_NARROW, "pretrain_steps": 0, "top": 2, "tail": 2},
    **{name: {**_NARROW, "positions": 40} for name in ("dialogpt", "simctg")}, "t5": _NARROW, "t5_claps": _NARROW}
CLLD = {"ct": "none", "cl": "uniform", "clald": "adaptive", "supcl": "supcl_seq", "simcse": "simcse"}


class Forgetful:
    """A store that keeps nothing."""

    def save(self, tensors, values):
        pass

    def load(self):
        return None

    def due(self):
        return False


FORGETFUL = Forgetful()


@dataclass(frozen=True)
class Workload:
    """A training to measure: the stage whose ``fit`` it calls, and how it begins, given a device."""

    stage: Any
    train: Any


def encoder(folder):
    """Return a BERT of six layers and width 16, saved in ``folder``."""
    if not (folder / "config.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        torch.manual_seed(0)
        changed = tiny_bert.config()
        changed.num_hidden_layers = DEPTH
        BertModel(changed).save_pretrained(folder)
        tiny_bert.tokenizer(folder).save_pretrained(folder)
    return resolve_encoder(f"path:{folder}")


def hcl(folder: Path, **blocks):
    """A training of HCL: six layers of encoder and decoder, two iterations over the graph, all contrasts."""
    found = encoder(folder / "bert")
    nodes = tiny_items.tables()["nodes"]
    graph = train_hcl.keyword_graph(nodes, tiny_training.edges(), tiny_training.vectors(nodes))
    values = TrainHcl.model_validate(laid_over({
        "latent": {"size": 6}, "training": {"epochs": 1, "max_source": 12, "max_target": 8, "bucket": False}}, blocks))
    on = TrainedOn("tiny", "en", f"path:{found.location}", found.description, "mean", 32, 12, 8, "first")

    def train(device=NAME, store=FORGETFUL):
        return train_hcl.run(joined_items(**_triples()), graph, values.model_dump(), found, UnseenKeywords(on), 13,
                             store, device)

    return Workload(train_hcl, train)


def baseline(name, folder):
    """A training of a baseline of HCL's table, of six layers or of the recurrent ones that it has."""
    values = TrainHcl.model_validate({"architecture": name, name: BASELINES[name], "training": {
        "epochs": 1, "max_source": 12, "max_target": 8, "bucket": False}}).model_dump()
    encoder(folder / "bert")
    items = joined_items(**_triples())
    kind = ARCHITECTURES[name].prepared.args[0]
    start = kind.start(replace(piece_cases.row(folder / "bert"), items=items), values[name])

    def train(device=NAME, store=FORGETFUL):
        return piece_baselines.run(kind, start, items, values, 13, store, device)

    return Workload(piece_baselines, train)


def _triples(train=28):
    """Tables of ``tiny_items`` with more training triples, made of the same texts, each with a negative."""
    tables = tiny_items.tables()
    known = tables["examples"]
    good = known[(known["split"] == "train") & known["negative_id"].notna()]
    rows = pd.concat([good] * (1 + train // len(good)), ignore_index=True)[:train]
    examples = pd.concat([rows, known[known["split"] != "train"]], ignore_index=True)
    return {**tables, "examples": examples.assign(example_id=range(len(examples)))}


def rewriter(architecture, **blocks):
    """A training of the PGKPR track at the depth of its defaults."""
    narrow = {"sizes": {"heads": 2, "width": 16, "feed_forward": 32}, "residual_lstm": {"width": 16},
              "latent_bow": {"width": 16, "memory": 4}, "training": {"epochs": 1, "bucket": False}}
    values = TrainPgkpr.model_validate(laid_over({"architecture": architecture, **narrow}, blocks)).model_dump()
    values["training"]["learning_rate"] = 1e-3
    items = tiny_rewriters.items()
    train = pd.concat([items[items["split"] == "train"]] * 4, ignore_index=True)
    pairs = pd.concat([train.assign(example_id=range(100, 100 + len(train)), group=range(100, 100 + len(train))),
                       items[items["split"] != "train"]], ignore_index=True)
    pairs = pairs.astype({"reference": "int32"})
    vocabulary = Vocabulary.from_frame(tiny_rewriters.vocabulary_frame())

    def run(device=NAME, store=FORGETFUL):
        return tiny_rewriters.run(pairs, vocabulary, values, tiny_rewriters.MAX_LENGTH, 13, store, device)

    return Workload(pgkpr, run)


def classifier(contrast, folder=None):
    """A training of CLLD: TextCNN, or a BERT of six layers in ``folder``."""
    found = encoder(folder / "bert") if folder is not None else None
    kind = "textcnn" if found is None else "bert"
    values = tiny_classes.settings(kind, training={"bucket": False})
    pairs = [(1, 2)] if contrast == "static_tau_pairs" else []

    def run(device=NAME, store=FORGETFUL):
        return architecture_of(kind).run(tiny_classes.items(), values, contrast, pairs, found, 13, store, device)

    return Workload(clld, run)


def pairs(folder):
    """A training of the pair classifier over a BERT of six layers."""
    found, tables = encoder(folder / "bert"), tiny_items.tables()
    texts = dict(zip(tables["texts"]["text_id"], tables["texts"]["text"], strict=True))
    examples = tables["examples"].assign(further_negative_ids=[[]] * 10, group=range(10),
                                                      negative_origin=None)
    examples["split"] = ["train"] * 7 + ["validation"] * 3
    values = PairClassifier(max_length=24, batch_size=8, epochs=1, freeze_layers=0).model_dump()

    def run(device=NAME, store=FORGETFUL):
        return pair_classifier.run(examples, texts, values, found, 13, store, device)

    return Workload(pair_classifier, run)


def tagger():
    """A training of the S-Tagger."""
    items = tiny_rewriters.items()
    random = np.random.default_rng(0)
    words = sorted({word for row in items["source_words"] for word in row})
    texts = [[words.index(word) for word in row] for row in items["source_words"]] * 3
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in texts])])
    lower = WordTexts(words, Texts(np.arange(len(texts)), offsets, np.concatenate(texts)))
    examples = pd.DataFrame({"source_id": range(len(texts)), "target_id": range(len(texts)),
                             "split": ["train"] * (len(texts) - 4) + ["validation"] * 4,
                             "reference_ids": [[number] for number in range(len(texts))]})
    psi = pa.table({"text_id": range(len(texts)), "mode": ["xy"] * len(texts), "pair": range(len(texts)),
                    "primary": [(random.random(len(row)) < 0.5).tolist() for row in texts]})
    values = STagger(min_count=1, embedding=12, hidden=16, batch_size=4, epochs=1).model_dump()

    def run(device=NAME, store=FORGETFUL):
        return s_tagger.run(examples, lower, psi, values, 13, store, device)

    return Workload(s_tagger, run)


def trainings(folder: Path):
    """Return every training, by name."""
    found = {name: partial(hcl, folder, **blocks) for name, blocks in HCL.items()}
    found |= {f"baseline-{name}": partial(baseline, name, folder) for name in BASELINES}
    found |= {name: partial(rewriter, name.partition("-")[0], **blocks) for name, blocks in PGKPR.items()}
    found |= {f"{name}-bert": partial(classifier, contrast, folder) for name, contrast in CLLD.items()}
    found |= {f"{name}-textcnn": partial(classifier, contrast) for name, contrast in CLLD.items()}
    return {**found, "pair_classifier": partial(pairs, folder), "s_tagger": tagger}


def decodings():
    """Return every decoding, by name: what decodes exactly so many tokens of each of four inputs."""
    found = {f"hcl-{name}": partial(_hcl_decodes, **options) for name, options in (
        ("greedy", {"num_beams": 1}), ("beam", {"num_beams": 4}), ("contrastive", {"search": "contrastive"}))}
    found |= {f"baseline-{name}-beam": partial(_baseline_decodes, name) for name in ("cvae", "seq2seq", "seq2seq_du")}
    found["baseline-simctg-contrastive"] = partial(_baseline_decodes, "simctg", "contrastive")
    for name in PGKPR:
        found |= {f"{name}-greedy": partial(_rewrites, name, 1), f"{name}-beam": partial(_rewrites, name, 4)}
    return found


def _hcl_decodes(**options):
    model = tiny_hcl.model(encoder=tiny_hcl.encoder_config(num_hidden_layers=DEPTH), decoder={"layers": 6})
    batch = tiny_hcl.batch(4)

    def decode(length):
        torch.nn.Module.to(model, NAME)
        given = [batch[name].to(NAME) for name in ("x_ids", "x_mask", "kx")]
        HclModel.paraphrase(model, *given, min_length=length, max_length=length, **options)

    return decode


def _baseline_decodes(name, search="beam"):
    """Those that take steps of their own; the others are decoded by ``generate`` of transformers or as PGKPR's."""
    with TemporaryDirectory() as folder:
        case = piece_cases.Case(name, Path(folder))
    batch = case.sources(numbers=range(4))

    def decode(length):
        torch.nn.Module.to(case.model, NAME)
        given, rules = {key: part.to(NAME) for key, part in batch.items()}, case.rules(length, length)
        if search == "beam":
            case.model.rewrite(given, rules, 4)
        else:
            contrastive_search(*case.model.begin(given, 1 + length * 4), rules, top_k=4, alpha=0.6)

    return decode


def _rewrites(name, beams):
    architecture, blocks = name.partition("-")[0], dict(PGKPR[name])
    own = {"sizes": {"layers": 6}, "ianet": {"encoder_layers": 3, "decoder_layers": 4}}
    if architecture in recurrent_cases.ARCHITECTURES:
        model = recurrent_cases.model(architecture, **blocks.get(architecture, {}))
        batch, mask = recurrent_cases.batch(4), None
    else:
        model = transformer_cases.model(architecture, **own)
        batch, mask = transformer_cases.tagged_batch(4)

    def decode(length):
        torch.nn.Module.to(model, NAME)
        given = {key: batch[key].to(NAME) for key in ("x_ids", "x_tags", "x_lengths") if key in batch}
        keywords = mask.to(NAME) if model.uses_keywords else None
        model.rewrite(given, keywords, Rules(EOS, PAD, length, length, (0, 1, 2, 4, 5, 6)), beams)

    return decode


def measured(folder: Path):
    """Return the figures of every training and of every decoding, by name."""
    trained = {}
    for name, make in trainings(folder).items():
        work = make()
        trained[name] = micro_batch(work.stage, work.train).figures()
    return {"micro_batch": trained, "token": {name: decoded_token(make()) for name, make in decodings().items()}}
