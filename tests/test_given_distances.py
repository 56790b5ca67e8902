"""Label distances from a file: read in any order, every fault named with its place, and trained with."""

import pandas as pd
import pytest
import tiny_classes
from tiny_classes import CLASSES

from keycontrast.errors import InputError
from models.clld import ClldModel, given_distance
from stages.common.paths import ModelPaths
from stages.params import parse_params
from stages.tracks.clld.given_distances import given_distances
from stages.tracks.clld.train import main

ROWS = {"place": [7.5, 8, 1], "number": [1, 2, 3], "person": [4, 1, 6]}
WANTED = [[1, 2, 3], [4, 1, 6], [7.5, 8, 1]]
GIVEN = {"contrast": "given", "distances": "far.csv"}


def table():
    return pd.DataFrame(ROWS, index=CLASSES).T.rename_axis("class").reset_index()


def test_both_kinds_of_files_are_read_in_any_order(tmp_path):
    table()[["class", "person", "place", "number"]].to_csv(tmp_path / "far.csv", index=False)
    table().to_parquet(tmp_path / "far.parquet", index=False)
    for name in ("far.csv", "far.parquet"):
        assert given_distances(tmp_path / name, CLASSES, "here") == WANTED


@pytest.mark.parametrize(("text", "message"), [
    ("", "class 'number' has no column; the data set has 3 classes, 3 of them without a column there"),
    ("c,number,person,place\nnumber,1,2,3\nperson,4,1\n", "line 3 has 3 cells and the first line 4. Give each class"),
    ("c,number,person,place\nnumber,1,2,3\nperson,4,1,6\n", "class 'place' has no row; the data set has 3 classes, 1"),
    ("c,number,person,plaice\n", "class 'place' has no column; .*1 columns have other names, such as 'plaice'"),
    ("c,number,person,place,x\n", "column 'x' is no class; .* Give every class one row and one column of its name"),
    ("c,number,person,number\n", "column 'number' is there twice; take one of them out"),
    ("c,number,person,place\nnumber,1,2,3\nperson,0,1,6\nplace,7,8,1\n",
     "row 'person', column 'number': '0' is no distance; a distance is a finite number of 1 or more"),
    ("c,number,person,place\nnumber,1,2,3\nperson,4,1,far\nplace,7,8,1\n", "row 'person', column 'place': 'far' is no"),
    ("c,number,person,place\nnumber,1,2,inf\nperson,4,1,6\nplace,7,8,1\n", "row 'number', column 'place': 'inf' is no"),
    ("\xff", "cannot be read as CSV .*Give a table")])
def test_a_fault_is_named_with_its_place(tmp_path, text, message):
    (tmp_path / "far.csv").write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=rf"here: .*far.csv: .*{message}|here: .*far.csv: {message}"):
        given_distances(tmp_path / "far.csv", CLASSES, "here")


def test_a_file_that_is_none_is_named(tmp_path):
    with pytest.raises(InputError, match="here: .*far.csv: no such file. Put a table of the classes by the classes"):
        given_distances(tmp_path / "far.csv", CLASSES, "here")
    (tmp_path / "far.parquet").write_text("c,number")
    with pytest.raises(InputError, match="here: .*far.parquet: cannot be read as Parquet .*Give a table"):
        given_distances(tmp_path / "far.parquet", CLASSES, "here")
    with pytest.raises(ValueError, match=r"2 rows of \[2\] distances are no matrix of 3 classes"):
        given_distance([[1, 1], [1, 1]], 3)
    with pytest.raises(ValueError, match="a finite number of 1 or more"):
        given_distance([[1, 0.5], [1, 1]], 2)


def test_a_model_is_trained_with_them_and_keeps_them(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    tiny_classes.write_project(tmp_path, {"far": GIVEN})
    assert main(["far"]) == 1
    assert "models.clld.far: distances: far.csv: no such file" in capsys.readouterr().err
    table().to_csv("far.csv", index=False)
    assert main(["far"]) == 0
    model = ClldModel.from_pretrained(ModelPaths("far", 13).weights)
    assert model.ldm.tolist() == WANTED and model.config.distance["kind"] == "given"


def test_a_model_says_its_file_and_no_other_does():
    def params(**model):
        return parse_params({"recipe": "r", "linear_floor": {"datasets": ["q"]}, "datasets": {"q": {
            "source": "x.csv", "layout": "labelled", "columns": {"label": "class"}}},
            "models": {"clld": {"m": {"dataset": "q", **model}}}}, "params")

    assert params(**GIVEN).models.clld["m"].distances == "far.csv"
    with pytest.raises(InputError, match="models.clld.m.distances: contrast uniform reads none; write data/start/none"):
        params(**{**GIVEN, "contrast": "uniform"})
    with pytest.raises(InputError, match="models.clld.m: contrast given needs distances, the file"):
        params(contrast="given")
