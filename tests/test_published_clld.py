"""Tables II and III of CLLD, cell by cell, and the rows that ours correspond to."""

import pytest

from stages.results.published import NOTES, dataset_kind_of, paper
from stages.results.tracks.clld import CLLD

TABLES = paper("clld").tables
DATASETS = {table.kind: number.removeprefix("II, ") for number, table in TABLES.items() if number != "III"}
# Written down a second time, column by column.
TABLE_II = {
    "BERT": ["85.3", "97.6", "97.8", "96.4", "85.7"], "BERT+CLLD": ["86.6", "97.8", "98.1", "96.5", "87.0"],
    "ALBERT": ["80.6", "96.4", "97.3", "94.8", "86.6"], "ALBERT+CLLD": ["81.7", "96.6", "97.7", "95.6", "97.0"],
    "TextCNN": ["78.8", "88.2", "94.8", "91.1", "70.9"], "TextCNN+CLLD": ["80.0", "88.8", "95.0", "91.3", "72.1"]}
COLUMN = ["20NG", "TREC_6", "R8", "R52", "MR"]
TABLE_III = {"CT": "85.30", "CT+CL": "86.30", "CT+CLSLED": "86.60", "CT+CLALD": "86.56"}


def cell(number, row):
    return TABLES[number].rows[row].cells["accuracy"]


@pytest.mark.parametrize("place", range(5), ids=COLUMN)
def test_table_ii_cell_by_cell(place):
    table = TABLES[f"II, {COLUMN[place]}"]
    assert list(table.rows) == list(TABLE_II) and table.metrics == ("accuracy",) and table.scale == 100
    for row, column in TABLE_II.items():
        found = cell(table.number, row)
        assert found.text == column[place] and found.value == float(column[place])
    assert DATASETS[table.kind] == COLUMN[place]


def test_table_iii_cell_by_cell():
    table = TABLES["III"]
    assert {name: row.cells["accuracy"].text for name, row in table.rows.items()} == TABLE_III
    assert all(float(row.cells["accuracy"].text) == row.cells["accuracy"].value for row in table.rows.values())
    assert table.kind == "20ng"


def test_the_misprint_is_kept_and_marked():
    found = cell("II, MR", "ALBERT+CLLD")
    assert (found.text, found.value, found.flag, found.presumed) == ("97.0", 97.0, "!8", 87.0)
    assert "almost surely 87.0" in NOTES["!8"]
    gains = {(number, encoder): table.rows[f"{encoder}+CLLD"].cells["accuracy"].value
             - table.rows[encoder].cells["accuracy"].value
             for number, table in TABLES.items() if number != "III" for encoder in ("BERT", "ALBERT", "TextCNN")}
    assert [key for key, gain in gains.items() if not 0 < gain < 1.35] == [("II, MR", "ALBERT")]
    assert gains["II, MR", "ALBERT"] == pytest.approx(10.4)
    assert found.presumed - cell("II, MR", "ALBERT").value == pytest.approx(0.4)


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
def test_runs_of_ours_find_the_published_rows(contrast, source, kind, names):
    found = CLLD.published_rows(CLLD.row({"kind": contrast, "encoder": source}, {"split": "test"}), kind)
    assert [one.name for one in found] == names
    for one in found:
        assert any(table.rows.get(one.name) is one for table in TABLES.values() if table.kind == kind)
    assert CLLD.published_rows(CLLD.row({"kind": contrast, "encoder": source}, {"split": "validation"}), kind) == []


@pytest.mark.parametrize(("given", "kind"), [
    (("20ng", "labelled"), "20ng"), (("r8", "labelled", "../data/r8"), "r8"), (("r52", "all_terms"), "r52"),
    (("news", "text_gcn", "../data/20ng"), "20ng"), (("any", "newsgroups"), "20ng"), (("any", "trec"), "trec6"),
    (("trec6", "labelled"), "trec6"), (("trec-50", "labelled", "x"), None), (("films", "rt_polarity"), "mr"),
    (("films", "labelled", "/home/mr/films/all.csv"), None), (("mr", "text_gcn"), "mr"),
    (("questions", "labelled", "data/sample/questions.jsonl"), None), (("r8", "pairs"), None)])
def test_data_sets_of_the_paper_are_known_by_layout_and_name(given, kind):
    assert dataset_kind_of(*given) == kind
