"""The published numbers agree with what the paper says of them, and our rows find theirs."""

from dataclasses import asdict

import pytest

from models.hcl.settings import KeywordSettings
from stages.results.published import dataset_kind_of, paper
from stages.results.tracks.clld import CLLD
from stages.results.tracks.hcl import HCL
from stages.results.tracks.pgkpr import PGKPR

CLLD_TABLES = paper("clld").tables


def names_of(track, settings, decode, kind):
    return [row.name for row in track.published_rows(track.row(settings, decode), kind)]


NO_KEYWORD = {"keyword": {"condition": False}}
NO_CONTRAST = {"contrasts": {name: {"weight": 0} for name in ("instance", "keyword", "mahalanobis")}}


@pytest.mark.parametrize(("overrides", "name"), [
    ({}, "Ours"),
    ({"training": {"epochs": 1}, "keyword": {"unit_scale": False}}, "Ours"),
    ({"graph": {"iterations": 0}}, "w/o graph"),
    ({"graph": {"iterations": 0}, "contrasts": {"keyword": {"weight": 0}}}, "w/o graph"),
    (NO_KEYWORD, "w/o keyword"),
    ({**NO_KEYWORD, "graph": {"iterations": 0}, "contrasts": {"keyword": {"weight": 0.0}}}, "w/o keyword"),
    ({"contrasts": {"mahalanobis": {"weight": 0.0}}}, "w/o MA"),
    ({"latent": {"enabled": False}}, "BERT-GEN"),
    ({"latent": {"enabled": False}, **NO_KEYWORD, **NO_CONTRAST}, "BERT-GEN"),
    ({"latent": {"enabled": False}, "decoder": {"kw_memory": True}}, None),
    ({"contrasts": {"instance": {"weight": 0}}}, None),
    ({"contrasts": {"keyword": {"weight": 0}}}, None),
    ({"graph": {"iterations": 0}, "contrasts": {"mahalanobis": {"weight": 0}}}, None),
    ({**NO_KEYWORD, **NO_CONTRAST}, None),
])
def test_rows_of_ours_find_the_published_ones(overrides, name):
    assert names_of(HCL, overrides, {}, "qqp") == [name] * (name is not None)
    assert names_of(HCL, {"architecture": "another", **overrides}, {}, "qqp") == []
    assert names_of(HCL, overrides, {"keyword": "random"}, "qqp") == []


@pytest.mark.parametrize(("settings", "label"), [
    ({"keyword": {"impostor_weight": "linear"}}, "HCL, impostors by linear"),
    ({"keyword": asdict(KeywordSettings())}, "HCL"),
    ({"keyword": {"impostor_weight": "linear"}, "graph": {"iterations": 0}}, "HCL without the graph"),
    ({}, "HCL"), ({"graph": {"iterations": 0}}, "HCL without the graph"),
    ({"contrasts": {"instance": {"weight": 0}, "mahalanobis": {"weight": 0}}},
     "HCL without the instance contrast and the Mahalanobis contrast"),
])
def test_a_row_is_called_by_what_it_does_without_and_what_it_adds(settings, label):
    assert HCL.names.label(HCL.row(settings, {})) == label
    assert HCL.names.label(HCL.row(settings, {"keyword": "random"})) == f"{label}, keyword random"


@pytest.mark.parametrize(("given", "kind"), [
    (("qqp", "pairs"), "qqp"), (("pairs", "pairs", "../data/Quora/x.csv"), "qqp"), (("any", "kaggle_qqp"), "qqp"),
    (("sample", "triples"), None), (("qqp", "triples"), None), (("douban", "dialogue"), "douban"),
    (("chat", "dialogue"), None), (("roc", "stories"), "rocstories"), (("tales", "stories", "tales.csv"), None),
    (("any", "rocstories"), "rocstories"), (("mine", "stories", "data/processed/mine.csv"), None),
    (("mine", "pairs", "/quora/me/mine.csv"), None), (("rocky", "stories", "rocks/rocks.csv"), None),
    (("douban", "groupwise_dialogue"), "douban"), (("fruit", "captions", "coconut.csv"), None),
    (("any", "mscoco_captions"), "mscoco"), (("captions", "captions", "../COCO/val.parquet"), "mscoco"),
    (("captions", "captions", "data/sample/captions.jsonl"), None),
    (("20ng", "labelled"), "20ng"), (("r8", "labelled", "../data/r8"), "r8"), (("r52", "all_terms"), "r52"),
    (("news", "text_gcn", "../data/20ng"), "20ng"), (("any", "newsgroups"), "20ng"), (("any", "trec"), "trec6"),
    (("trec6", "labelled"), "trec6"), (("trec-50", "labelled", "x"), None), (("films", "rt_polarity"), "mr"),
    (("films", "labelled", "/home/mr/films/all.csv"), None), (("mr", "text_gcn"), "mr"),
    (("questions", "labelled", "data/sample/questions.jsonl"), None), (("r8", "pairs"), None)])
def test_data_sets_of_the_paper_are_known_by_layout_and_name(given, kind):
    assert dataset_kind_of(*given) == kind


NO_CON, NO_REC = {"contrast": {"weight": 0}}, {"reconstruction": {"weight": 0.0}}
BY_PSI = {"keywords": {"by": "psi"}}
IANET = {"architecture": "ianet"}


@pytest.mark.parametrize(("settings", "keywords", "name"), [
    ({}, None, "PGKPR"), ({}, "xx", "PGKPR"), ({}, "xy", "PGKPR-ref"), ({}, "psi_xx", None), ({}, "s_tagger", None),
    ({"contrast": {"neg": "all", "weight": 0.01}}, None, "PGKPR"),
    (BY_PSI, None, "PGKPR-PSI+X"), (BY_PSI, "s_tagger", "PGKPR-PSI+S"), (BY_PSI, "xx", None), (BY_PSI, "psi_xy", None),
    (NO_CON, None, "w/o L_con"), (NO_REC, None, "w/o L_rec"), ({**NO_CON, **NO_REC}, None, "w/o L_con and L_rec"),
    (NO_CON, "xy", None), ({**NO_CON, **BY_PSI}, None, None),
    (IANET, None, "IANet+X"), (IANET, "s_tagger", "IANet+S"), (IANET, "psi_xy", None), ({**IANET, **NO_CON}, None,
                                                                                       "IANet+X"),
    ({}, "random", None), ({}, "textrank", None), ({"keywords": {"by": "none"}}, None, None),
    ({"architecture": "transformer"}, None, "Transformer"), ({"architecture": "residual_lstm"}, None, "Residual-LSTM"),
    ({"architecture": "latent_bow"}, None, "LBOW-Topk"),
    ({"architecture": "latent_bow", "latent_bow": {"gumbel": True}}, None, "LBOW-gumbel")])
def test_runs_of_pgkpr_find_the_published_rows(settings, keywords, name):
    assert names_of(PGKPR, settings, {"keywords": keywords}, "qqp") == [name] * (name is not None)


@pytest.mark.parametrize(("track", "settings"), [(HCL, {}), (HCL, {"architecture": "transformer"}), (PGKPR, {})])
def test_a_row_of_no_epoch_is_no_row_of_the_paper(track, settings):
    whole, start = (track.row({**settings, "training": {"epochs": epochs}}, {}) for epochs in (3, 0))
    assert track.names.label(start) == f"{track.names.label(whole)}, as it starts"
    assert track.published_rows(whole, "qqp" if track is HCL else "mscoco")
    assert not track.published_rows(start, "qqp" if track is HCL else "mscoco")


@pytest.mark.parametrize(("contrast", "source", "kind", "names"), [
    ("none", "textcnn", "r8", ["TextCNN"]), ("adaptive", "textcnn", "mr", ["TextCNN+CLLD"]),
    ("static_tau_pairs", "textcnn", "r52", ["TextCNN+CLLD"]),
    ("uniform", "textcnn", "r8", []), ("uniform", "textcnn", "20ng", []), ("simcse", "bundled", "20ng", []),
    ("none", "bundled", "20ng", ["BERT", "CT"]), ("uniform", "bundled", "20ng", ["CT+CL"]),
    ("static_tau_pairs", "hub:bert-base-uncased", "20ng", ["BERT+CLLD", "CT+CLSLED"]),
    ("adaptive", "hub:google-bert/bert-base-uncased", "20ng", ["BERT+CLLD", "CT+CLALD"]),
    ("adaptive", "hub:albert/albert-base-v2", "20ng", ["ALBERT+CLLD"]),
    ("none", "hub:FacebookAI/roberta-base", "r8", []), ("none", "scratch", "r8", []), ("none", "textcnn", None, []),
    ("none", "textcnn", "qqp", []), ("supcl_seq", "bundled", "r8", [])])
def test_runs_of_clld_find_the_published_rows(contrast, source, kind, names):
    found = CLLD.published_rows(CLLD.row({"kind": contrast, "encoder": source}, {"split": "test"}), kind)
    assert [one.name for one in found] == names
    for one in found:
        assert any(table.rows.get(one.name) is one for table in CLLD_TABLES.values() if table.kind == kind)
    assert CLLD.published_rows(CLLD.row({"kind": contrast, "encoder": source}, {"split": "validation"}), kind) == []
