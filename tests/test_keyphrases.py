"""Keyphrase F1 against figures worked out by hand; the two tables that compare rankings."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import keyword_peers
from benchmarks.keyphrases import WORDS, corpora, first_words, keyphrase_scores, main, stemmed_phrases


def test_phrases_meet_by_stems_case_and_hyphens():
    assert stemmed_phrases(["Neural Networks", "neural-network", "!!", "training", "Trained"]) == ["neural network",
                                                                                                  "train"]


def test_precision_recall_and_f1_at_each_cutoff():
    found = keyphrase_scores([["graph theory", "wrong", "keywords", "other"]], [["Graph Theories", "keyword", "node"]],
                             cutoffs=(1, 3, 15))
    assert (found[1].precision, found[1].recall, found[1].f1) == pytest.approx((1, 1 / 3, 0.5))
    assert (found[3].precision, found[3].recall, found[3].f1) == pytest.approx((2 / 3, 2 / 3, 2 / 3))
    # Four phrases were given: fifteen are not asked of them.
    assert found[15].precision == pytest.approx(0.5)


def test_documents_are_averaged_and_those_without_gold_left_out():
    found = keyphrase_scores([["a1"], ["b"], ["c"]], [["a1"], ["x"], []], cutoffs=(5,))
    assert found[5].f1 == pytest.approx(0.5)
    assert keyphrase_scores([[]], [["x"]])[5].f1 == 0
    assert keyphrase_scores([["keyword", "Keywords", "node"]], [["keyword", "node"]], cutoffs=(2,))[2].f1 == 1


def test_wrong_calls_are_named():
    with pytest.raises(ValueError, match="2 documents were predicted, 1 have gold phrases"):
        keyphrase_scores([[], []], [["a"]])
    with pytest.raises(ValueError, match="no document has gold phrases"):
        keyphrase_scores([["a"]], [["?"]])


def test_all_systems_are_scored_on_a_file_of_ones_own(tmp_path, capsys):
    path = tmp_path / "mine.parquet"
    pq.write_table(pa.table({"text": ["Graph theory helps. Graph theory is old.", "The oven burns fresh bread."],
                             "keys": [["graph theory"], ["fresh bread"]]}), path)
    assert main(["--input", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("| system | mine (2) F1@5") and len(lines) == 13
    assert any(line.startswith("| *YAKE (the package)*") for line in lines)


@pytest.mark.parametrize(("arguments", "message"), [
    ([], "name a folder with --data, or a file with --input"), (["--data", "nowhere"], "holds neither inspec")])
def test_missing_corpora_are_named(arguments, message, capsys):
    assert main(arguments) == 1
    assert message in capsys.readouterr().err


def test_the_sets_that_are_there_are_read_each_text_as_far_as_it_counts(tmp_path):
    for name, text in (("keyphrase_nguyen2007", " a b\n" * WORDS), ("keyphrase_duc2001", "One  story.\n")):
        (tmp_path / name).mkdir()
        pq.write_table(pa.table({"text": [text, ""], "keys": [["a"], ["b"]]}), tmp_path / name / "all.parquet")
    found = corpora(tmp_path)
    assert [(corpus.name, corpus.texts[0]) for corpus in found] == [
        ("DUC-2001", "One  story."), ("Nguyen-2007", (" a b\n" * (WORDS // 2))[:-1])]
    assert found[0].texts[1] == "" and found[0].gold == [["a"], ["b"]]
    assert first_words("a b c", 2) == "a b"


def test_a_file_without_gold_keys_is_refused(tmp_path, capsys):
    pq.write_table(pa.table({"text": ["a"]}), tmp_path / "x.parquet")
    assert main(["--input", str(tmp_path / "x.parquet")]) == 1
    assert "no column 'keys'; it has text" in capsys.readouterr().err


@pytest.mark.whole
def test_the_peers_of_keywords_are_scored_alike(tmp_path, monkeypatch, capsys):
    """Those that load no encoder; each in a process of its own."""
    inspec = tmp_path / "inspec"
    inspec.mkdir()
    pq.write_table(pa.table({"title": ["Graph theory"], "abstract": ["Graph theory helps the oven."],
                             "keys_uncontrolled": [["graph theory"]]}), inspec / "test.parquet")
    kept = {name: system for name, system in keyword_peers.SYSTEMS.items() if name in ("YAKE", "rake-nltk")}
    monkeypatch.setattr(keyword_peers, "SYSTEMS", kept)
    assert keyword_peers.main(["--data", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| YAKE", "| rake-nltk"]
    assert all(0 < float(line.split(" | ")[1]) <= 100 for line in lines[2:])
