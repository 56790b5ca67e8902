"""The generate_hcl stage and prediction with a tiny saved model."""

import io

import pandas as pd
import pytest
import tiny_bert
import tiny_items
import torch
from test_train_hcl import graph, settings, trained_on
from transformers import AutoTokenizer

from pipeline.predict import texts_from
from stages.artifacts.tables import as_table
from stages.encoders import resolve_encoder
from stages.generate_hcl import run
from stages.hcl.decoding import Paraphraser
from stages.hcl.lookup import save_lookup
from stages.params.hcl import GenerateHcl
from stages.runtime.errors import InputError
from stages.train_hcl import _model


def save_model(folder, encoder, **groups):
    torch.manual_seed(3)
    values = {**settings(), **groups}
    model = _model(values, encoder, AutoTokenizer.from_pretrained(encoder.location), graph(), 5.0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=0.3)
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(encoder.location).save_pretrained(folder)
    save_lookup(folder, tiny_items.NODES, trained_on(encoder))
    return folder


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return resolve_encoder(f"path:{tiny_bert.save_encoder(tmp_path_factory.mktemp('encoder'))}")


@pytest.fixture(scope="module")
def paraphraser(encoder, tmp_path_factory):
    return Paraphraser(save_model(tmp_path_factory.mktemp("model"), encoder))


@pytest.fixture
def items():
    return pd.DataFrame({"example_id": range(10), "split": tiny_items.SPLITS, "source": tiny_items.SOURCES,
                         "keyword": ["unheard of" if i == 9 else word for i, word in enumerate(tiny_items.KEYWORDS)],
                         "references": [[text] for text in tiny_items.TARGETS]})


def decode(**changes):
    return GenerateHcl.model_validate({"num_beams": 2, "max_length": 6, "min_length": 2, **changes}).model_dump()


def test_only_the_named_split_is_rewritten(paraphraser, items):
    rows = run(items, paraphraser, decode(), seed=1)
    assert rows["example_id"].tolist() == [8, 9]
    assert rows["keyword_known"].tolist() == [True, False]
    assert rows["keyword"].tolist() == ["dog", "unheard of"]
    table = as_table("predictions", rows).to_pylist()
    assert table[0]["references"] == [tiny_items.TARGETS[8]]
    assert all(row["prediction"] for row in table)


def test_an_empty_split_is_named(paraphraser, items):
    with pytest.raises(InputError, match="the test split is empty"):
        run(items[items["split"] == "train"], paraphraser, decode(), seed=1)


def test_texts_do_not_depend_on_their_neighbours(paraphraser, items):
    everything = items.assign(split="test")
    together = run(everything, paraphraser, decode(batch_size=10), seed=1)
    alone = run(everything, paraphraser, decode(batch_size=1), seed=1)
    assert together["prediction"].tolist() == alone["prediction"].tolist()


def test_samples_are_drawn_by_seed(paraphraser, items):
    one, two, other = (run(items, paraphraser, decode(samples=3), seed=seed) for seed in (1, 1, 2))
    assert one.equals(two)
    assert len(one) == 8
    assert sorted(one["sample"].unique()) == [0, 1, 2, 3]
    means = [frame.loc[frame["sample"] == 0, "prediction"].tolist() for frame in (one, other)]
    assert means[0] == means[1]


def test_the_keyword_conditions_the_output(paraphraser):
    nodes = torch.arange(2)
    ids = torch.tensor([[2, 6, 7, 3]] * 2)
    hidden = paraphraser.model.encode(ids, ids > 0)
    with torch.no_grad():
        u_in = paraphraser.model._keyword_condition(nodes, None)
        latent = paraphraser.model._latent(hidden, ids > 0, u_in, "mean", None)
    assert not torch.allclose(latent[0], latent[1])


def test_a_model_without_keyword_writes_none(encoder, items, tmp_path):
    model = Paraphraser(save_model(tmp_path, encoder, keyword={"condition": False, "imp_weight": "attn",
                                                               "kw_anchor": "input"}))
    assert run(items, model, decode(), seed=1)["keyword"].isna().all()


class Terminal(io.StringIO):
    """Standard input that a person sits at."""

    def isatty(self):
        return True


def test_texts_come_from_the_argument_a_file_or_standard_input(tmp_path):
    file = tmp_path / "in.txt"
    file.write_text("one\n\n two \n")
    assert list(texts_from("a text", None, io.StringIO())) == ["a text"]
    assert list(texts_from(None, file, io.StringIO())) == ["one", "two"]
    assert list(texts_from(None, None, io.StringIO("x\n\ny\n"))) == ["x", "y"]


def test_unusable_texts_are_named(tmp_path):
    file = tmp_path / "in.txt"
    file.write_bytes(b"caf\xe9\n")
    for arguments, message in (((None, tmp_path / "no", io.StringIO()), "no such file"),
                               ((None, file, io.StringIO()), "not UTF-8 .*at byte 3"),
                               (("a", file, io.StringIO()), "not both"),
                               ((None, None, Terminal()), "no text. Give one")):
        with pytest.raises(InputError, match=message):
            list(texts_from(*arguments))
