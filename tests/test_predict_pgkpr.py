"""Rewriting new texts with a run of the PGKPR track: words, tags, keywords of every kind, and outputs for people."""


import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import tiny_bert
import tiny_rewriters
import torch

from keycontrast.errors import InputError
from keycontrast.text.annotate import annotator
from models.keywords.s_tagger import STagger, STaggerConfig
from pipeline.predict import _alone, predict, standing
from pipeline.schemas import SCHEMAS
from stages.common.paths import DatasetPaths, ModelPaths, RunPaths
from stages.common.tables import Provenance, write_json, write_table
from stages.params import load_params
from stages.psi.s_tagger import word_tokenizer
from stages.tracks.pgkpr import generate
from stages.tracks.registry import PGKPR

TEXTS = ["What is the best way to learn a language?", "Don't eat the dog!", "who can play with the zebra ?"]
MODELS = {"pgkpr": "pgkpr", "plain": "transformer"}
RUNS = {"xx": {"model": "pgkpr"}, "xy": {"model": "pgkpr", "decode": {"keywords": "xy"}},
        "psi": {"model": "pgkpr", "decode": {"keywords": "psi_xx"}},
        "tagged": {"model": "pgkpr", "decode": {"keywords": "s_tagger"}}, "plain": {"model": "plain"},
        **{name: {"model": "pgkpr", "decode": {"keywords": name}} for name in ("textrank", "random", "none", "all")}}
WORDS = ["[PAD]", "[UNK]", "what", "is", "the", "dog", "eat", "play"]


TRAINED_ON = ["Is NASA a school?", "Where does NASA eat?", "My cat can play with Paris."]


def write_texts(paths):
    """What the stages know of the texts that the models were trained on."""
    ids, nothing = range(len(TRAINED_ON)), [None] * len(TRAINED_ON)
    texts = pa.table({"text_id": pa.array(ids, pa.int64()), "text": TRAINED_ON})
    write_table(paths.table("tokens"), SCHEMAS["tokens"], annotator("embedded")(texts), Provenance("test", "0"))
    write_table(paths.table("examples"), SCHEMAS["examples"], pd.DataFrame({
        "example_id": ids, "split": "train", "source_id": ids, "target_id": ids,
        "negative_id": pd.array(nothing, dtype="Int64"),
        "reference_ids": [[number] for number in ids], "group": ids, "negative_origin": nothing}),
        Provenance("test", "0"))


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project with two saved models and what finds keywords: a classifier, word vectors and a tagger."""
    folder = tmp_path_factory.mktemp("project")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        tiny_rewriters.write_params(folder, {name: {"dataset": tiny_rewriters.DATASET,
                                                    "overrides": {"architecture": architecture}}
                                             for name, architecture in MODELS.items()}, RUNS)
        for name, architecture in MODELS.items():
            tiny_rewriters.save_model(ModelPaths(name, 13).weights, architecture)
        paths = DatasetPaths(tiny_rewriters.DATASET)
        tiny_bert.classifier().save_pretrained(paths.pair_classifier)
        tiny_bert.tokenizer(folder).save_pretrained(paths.pair_classifier)
        words = sorted(tiny_rewriters.TAGS)
        vectors = np.random.default_rng(1).normal(size=(len(words), 8)).astype("f4")
        write_table(paths.table("word_vectors"), SCHEMAS["word_vectors"],
                    {"word": words, "count": [1] * len(words), "vector": list(vectors)}, Provenance("test", "0"))
        write_texts(paths)
        torch.manual_seed(2)
        tagger = STagger(STaggerConfig(len(WORDS), 8, 8, 1))
        with torch.no_grad():
            for parameter in tagger.parameters():
                parameter.normal_(std=2.0)
        tagger.save_pretrained(paths.s_tagger)
        word_tokenizer(WORDS).save_pretrained(paths.s_tagger)
    return folder


@pytest.fixture(autouse=True)
def inside(project, monkeypatch):
    monkeypatch.chdir(project)


def lines(run, texts=TEXTS, **options):
    return list(predict(load_params(), run, texts, **options))


@pytest.mark.parametrize(("run", "origin"), [("xx", "xx"), ("psi", "psi_xx"), ("tagged", "s_tagger"),
                                             ("textrank", "textrank"), ("random", "random")])
def test_keywords_are_words_of_the_text_by_the_runs_setting(run, origin):
    found = lines(run)
    assert [line["source"] for line in found] == TEXTS
    read = [["what", "is", "the", "best", "way", "to", "learn", "a"], ["do", "n't", "eat", "the", "dog", "!"],
            ["who", "can", "play", "with", "the", "zebra", "?"]]    # eight words of a text are read
    for line, words in zip(found, read, strict=True):
        assert line["prediction"] and line["keyword_from"] == origin and "keyword_missing" not in line
        assert set((line["keyword"] or "").split()) <= set(words)
    assert any(line["keyword"] for line in found)


@pytest.mark.parametrize("run", ["xx", "psi", "tagged", "random"])
def test_a_text_has_the_same_keywords_alone_and_among_others(run):
    together = lines(run, batch_size=3)
    assert lines(run, batch_size=1) == together
    assert lines(run, TEXTS[::-1], batch_size=2) == together[::-1]


def test_attribution_is_that_of_the_stage(monkeypatch):
    from stages.attribution.attribution import Scorer, run
    from stages.common.lookup import Lookup

    texts = pa.table({"text_id": [0, 1, 2], "text": TEXTS})
    tokens = annotator("embedded")(texts)
    scorer = Scorer(tiny_bert.classifier(), tiny_bert.tokenizer(DatasetPaths("tiny").folder),
                    load_params().attribution.model_dump())
    expected = [block["score"].to_pylist() for block in run(
        _alone(texts), Lookup.of_table("texts", texts), Lookup.of_table("tokens", tokens), scorer,
        ["xx"])]
    seen = []
    monkeypatch.setattr(generate, "fixed_masks", lambda rows, *rest: seen.append(rows) or [
        tiny_rewriters.fixed_mask(row, *rest) for row in rows.to_dict("records")])
    lines("xx")
    scores = [list(row) for row in seen[0]["score_xx"]]
    assert [len(row) for row in scores] == [len(row) for row in expected[0]]
    assert np.allclose(np.concatenate(scores), np.concatenate(expected[0]), atol=1e-5)
    assert seen[0]["example_id"].tolist() == TEXTS


def test_given_keywords_are_looked_for_in_the_text():
    found = lines("xx", keyword="Dog eat zebra")
    assert [line["keyword"] for line in found] == [None, "eat dog", "zebra"]
    assert found[1]["keyword_from"] == "given" and found[1]["keyword_missing"] == ["zebra"]
    assert lines("xx", TEXTS[2:], keyword="zebra")[0].keys() == {
        "source", "prediction", "words", "keyword", "keyword_from", "unknown_words"}
    # "language" stands beyond the eight words that are read
    assert lines("xx", TEXTS[:1], keyword="language")[0]["keyword_missing"] == ["language"]


def test_what_a_run_cannot_do_is_said():
    with pytest.raises(InputError, match="'xy': these keywords are found beside a reference.*--keyword"):
        lines("xy")
    assert lines("xy", TEXTS[1:2], keyword="dog")[0]["keyword"] == "dog"
    with pytest.raises(InputError, match="--samples: run xx is of the PGKPR track"):
        lines("xx", samples=2)
    with pytest.raises(InputError, match="--keyword: name at least one word"):
        lines("xx", keyword="  ")
    with pytest.raises(InputError, match="no run is called 'xz'; valid names: all, "
                                         "none, plain, psi, random, tagged, textrank, xx, xy"):
        lines("xz")


def test_the_best_outputs_come_with_the_first_of_them(caplog):
    """A beam that is narrower than what is asked for is made as wide, and that is said."""
    caplog.set_level("WARNING")
    for line, alone in zip(lines("xx", n=3), lines("xx", n=1, batch_size=1), strict=True):
        assert [set(one) for one in line["n_best"]] == [{"prediction", "words"}] * 3 and "n_best" not in alone
        assert line["n_best"][0] == {name: line[name] for name in ("prediction", "words")}
        assert len({one["words"] for one in line["n_best"]}) == 3
    assert "--n 3: run xx searches with num_beams 1, and is searched with 3 here" in caplog.text


def test_a_run_below_its_baseline_is_not_praised(tmp_path, monkeypatch, caplog):
    caplog.set_level("WARNING")
    lines("plain", TEXTS[:1])
    assert "run plain is not evaluated" in caplog.text and "keycontrast run evaluate_pgkpr@plain" in caplog.text
    monkeypatch.chdir(tmp_path)
    paths = RunPaths("plain", 13)
    copy = {"corpus_bleu_4": 0.2, "ibleu": -0.1}

    def said(own, outputs, baselines=copy):
        write_json(paths.metrics, {"run": own, "baselines": {"copy": baselines} if baselines else {}})
        count = len(outputs)
        write_table(paths.predictions, SCHEMAS["predictions"], {
            "example_id": range(count), "sample": [0] * count, "source": ["x"] * count, "keyword": ["x"] * count,
            "keyword_known": [True] * count, "prediction": outputs, "references": [["x"]] * count},
            Provenance("test", "0"))
        return standing(PGKPR, "plain", 13)

    good = {"corpus_bleu_4": 0.2, "ibleu": 0.1}
    assert said(good, ["a", "b", "a"]) is None and said({**good, "ibleu": -1}, ["a"], {}) is None
    assert said({**good, "corpus_bleu_4": 0.15}, ["a", "b"]) == (
        "run plain is poor on its 2 evaluated items: corpus BLEU-4 15.0, copying the source 20.0.")
    assert said({**good, "ibleu": -0.2}, ["a"] * 4) == (
        "run plain is poor on its 4 evaluated items: iBLEU -20.0, copying the source -10.0; 25 % of its outputs are "
        "distinct.")
