"""Stage ``ingest``: de-duplication, and triples by every ``qqp_rule`` and ``neg_pick`` against loops."""

import json
import os
import subprocess
import sys
from collections import defaultdict
from itertools import product
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from ingest_rows import LABELLED, SHARES, by_key, corpus, dataset, ingested, raw

from keycontrast.errors import InputError
from pipeline.schemas import SCHEMAS
from stages.common.tables import read_frame, read_metadata
from stages.ingest import ingest
from stages.ingest.deduplicate import deduplicate
from stages.ingest.items import RULES
from stages.ingest.params import Ingest
from stages.ingest.rows import RawRow
from stages.ingest.text_keys import jaccard, overlap_tokens, symbol_key, text_key

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(("one", "other"), [
    ("Don't  stop!", "dont stop"), ("What 's 2+2 ?", "what's 2 + 2?"), ("Café", "CAFE\u0301"), ("Ａｂ１", "ab1"),
    ("你好，世界", "你好世界"), ("_a_", "A")])
def test_texts_with_the_same_letters_and_digits_are_one(one, other):
    assert text_key(one) == text_key(other) != ""


@pytest.mark.parametrize(("one", "other"), [
    ("Don't  stop!", "dont stop"), ("Is it so ?", "is it so?"), ("Café", "CAFE\u0301"), ("Ａｂ１", "ab1"),
    ("“Well”, he said.", "well he said"), ("co\u00adoperate", "cooperate"), ("wait…", "wait"), ("你好。", "你好"),
    ("¿Qué hora es?", "Qué hora es"), ("هل هذا جيد؟", "هل هذا جيد")])
def test_case_quotation_marks_and_the_end_of_sentences_do_not_count(one, other):
    assert symbol_key(one) == symbol_key(other) != ""


@pytest.mark.parametrize("texts", [
    ("C", "C++", "C#"), ("4", "-4"), ("2 > 3", "2 < 3"), ("1.5", "15"), (".net", "net"), ("5 %", "5"), ("☀", "☂"),
    ("a-b", "a b"), ("2+2", "2 2")])
def test_symbols_and_signs_make_other_texts(texts):
    assert len({symbol_key(text) for text in texts}) == len(texts)


def test_the_identity_decides_what_is_a_duplicate(tmp_path):
    rows = raw([("I know C", "a", 1), ("I know C++", "A.", 1), ("I know C.", "a", 1)])
    by_symbols = deduplicate(rows, dataset(), tmp_path, identity="symbols")
    (tmp_path / "other").mkdir()
    by_letters = deduplicate(rows, dataset(), tmp_path / "other", identity="letters_digits")
    assert by_symbols.place.tolist() == [0, 1] and by_letters.place.tolist() == [0]


def test_keys_keep_vowel_signs_and_accents():
    assert text_key("कि") != text_key("का")
    assert text_key("résumé") != text_key("resume")


def test_overlap_counts_distinct_lower_cased_words_and_single_han_characters():
    assert overlap_tokens("The the don't_X 3") == {"the", "don", "t", "x", "3"}
    assert overlap_tokens("你好abc") == {"你", "好", "abc"}
    assert jaccard(frozenset("ab"), frozenset("bcd")) == 1 / 4
    assert jaccard(frozenset(), frozenset()) == 0.0


def taken(rows, folder, data=None):
    """The rows that are taken, and a frame of those that are not."""
    found = deduplicate(rows, data or dataset(), folder)
    return found, pa.concat_tables(found.tables.rejected()).to_pandas()


@pytest.mark.parametrize(("row", "reason"), [
    (("", "b", 1), "empty text: source"), (("a", None, 1), "empty text: target is missing"),
    (("a", float("nan"), 1), "not text: target is of type float"),
    (("?!", "b", 1), "source has no letter, digit or symbol"),
    (("a b", "A  B!", 1), "same text: source and target"), (("a", "b", 2), "label: must be 0 or 1, found 2"),
    (("a", "b", "yes"), "found 'yes'"), (("a", "b", None), "found None"), (("a", "b", float("nan")), "found nan"),
    (("a", "b", []), "found []"), (("a\ud800", "b", 1), "encoding: source holds half a surrogate pair")])
def test_rows_that_cannot_be_taken_say_why(tmp_path, row, reason):
    found, refused = taken(raw([row]), tmp_path)
    assert len(found.pairs) == 0
    assert reason in refused["reason"][0]


def test_pairs_are_one_in_either_order_and_the_first_surface_stays(tmp_path):
    pairs = [("How are you?", "What's up", 1), ("whats UP!", "how are you", 1), ("x", "y", 0)]
    found, refused = taken(raw(pairs), tmp_path)
    assert [found.texts[number] for number in range(found.n_texts)] == ["How are you?", "What's up", "x", "y"]
    assert found.pairs.tolist() == [[0, 1], [2, 3]]
    assert refused[["row", "reason"]].to_numpy().tolist() == [[2, "duplicate: of f.csv row 1"]]
    assert found.tables.unusable() == 0


def test_a_pair_with_both_labels_is_dropped_with_all_its_rows(tmp_path):
    found, refused = taken(raw([("a", "b", 1), ("c", "d", 1), ("B", "A", 0), ("a", "b", 1)]), tmp_path)
    assert [[found.texts[number] for number in pair] for pair in found.pairs] == [["c", "d"]]
    assert refused["row"].tolist() == [1, 3, 4]
    assert set(refused["reason"]) == {"both labels: the pair occurs as paraphrase and as non-paraphrase"}


def test_too_many_unusable_rows_stop_the_stage_and_name_ten(tmp_path):
    rows = raw([("a", "b", 1), ("b", "a", 0), *(("a", f"b{n}", 7) for n in range(12)),
                *((f"x{n}", f"y{n}", 1) for n in range(40))])
    with pytest.raises(InputError, match="14 of 54 rows cannot be used") as error:
        ingest.run(rows, dataset(), Ingest(max_rejected=0.2), 1, tmp_path)
    message = str(error.value)
    assert message.count("found 7") == 8 and "row 11:" not in message and "and 4 more" in message
    assert "f.csv row 1: both labels" in message and "f.csv row 10: label" in message


def test_repetitions_do_not_count_as_unusable(tmp_path):
    rows = raw([("a", "b", 1)] * 50 + [(f"p{n}", f"q{n}", 1) for n in range(9)])
    made = ingested(rows, dataset(), Ingest(neg_source="retrieved", **SHARES, max_rejected=0.0), 1, tmp_path)
    assert len(made.rejected) == 49
    assert made.counts["rows"] == {"read": 59, "taken": 10, "rejected": 0, "duplicates": 49,
                                   "not_taken_by_reason": {"duplicate": 49}, "in_items": 10,
                                   "in_no_item_by_reason": {}}


def of_triples(triples, folder, **params):
    """What the stage makes of rows (split, source, target, negative)."""
    columns = {"source": "s", "target": "t", "negative": "n"}
    rows = [RawRow("f", number, dict(zip(columns, texts, strict=True)), split=split)
            for number, (split, *texts) in enumerate(triples, start=1)]
    return ingested(rows, dataset(layout="triples", columns=columns), Ingest(**params), 1, folder)


def numbered(numbers, split=None):
    return [(split, f"s{n}", f"t{n}", f"n{n}") for n in numbers]


def test_given_triples_are_taken_as_they_are(tmp_path):
    made = of_triples([*numbered(range(10)), (None, "s0", "t0", "N0."), (None, "a", "b", "B"), (None, "a", "b", "")],
                      tmp_path, neg_source="given", max_rejected=0.5)
    triples = by_key(made)[["source", "target", "negative"]].to_numpy().tolist()
    assert triples == [[f"s{n}", f"t{n}", f"n{n}"] for n in range(10)]
    assert made.rejected["reason"].tolist() == [
        "duplicate: of f row 1", "same text: target and negative are the same", "empty text: negative"]
    assert made.counts["components"] == {"count": 10, "largest_texts": 3}
    assert made.counts["triples_by_negative_source"] == {"given": 10, "labelled": 10, "retrieved": 10, "none": 10}


def test_given_triples_that_contradict_each_other_are_no_labelled_negatives(tmp_path):
    made = of_triples([*numbered(range(1, 10)), (None, "s1", "n1", "other"), (None, "s2", "n2", "t2")], tmp_path,
                      neg_source="labelled", qqp_rule="question1_all", **SHARES)
    found = sorted(by_key(made)[["source", "target", "negative"]].to_numpy().tolist())
    # s1 has n1 as paraphrase in one triple and as negative in another: it counts as paraphrase. So do t2 and n2.
    assert found == sorted([["s1", "t1", "other"], ["s1", "n1", "other"],
                            *([f"s{n}", f"t{n}", f"n{n}"] for n in range(3, 10))])


def test_a_named_split_without_a_usable_row_is_an_error(tmp_path):
    with pytest.raises(InputError, match=r"splits\.test: no row of its files can be used"):
        ingested(raw(corpus(20)), dataset(splits={"test": ["t.csv"]}), Ingest(), 1, tmp_path)


def test_a_pair_of_triples_of_two_published_splits_is_a_test_item(tmp_path):
    other = [("test", source, target, "other") for _, source, target, _ in numbered(range(8, 14))]
    made = of_triples([*numbered(range(12), "train"), *other], tmp_path, neg_source="none", split_by="pair")
    assert set(by_key(made).query("split == 'test'")["source"]) == {f"s{n}" for n in range(8, 14)}


@pytest.mark.parametrize(("params", "columns", "pairs", "message"), [
    ({"neg_source": "given"}, LABELLED, [("a", "b", 1)], "neg_source is given, but the data set has layout pairs"),
    ({"neg_source": "labelled"}, LABELLED, [("a", "b", 1)], "No text has both a paraphrase and a non-paraphrase"),
    ({"neg_source": "retrieved"}, LABELLED, [("a", "b", 1), ("c", "d", 1)], "at least 3 groups are needed"),
    ({"neg_source": "none", "split_by": "pair"}, LABELLED, [("a", "b", 1), ("c", "d", 1)],
     "2 examples cannot be cut into 3 splits"),
    ({"neg_source": "retrieved"}, LABELLED, [("a", "b", 1), ("c", "d", 1), ("e", "f", 1)], "no negative can be"),
])
def test_data_that_give_no_examples_say_what_to_do(tmp_path, params, columns, pairs, message):
    with pytest.raises(InputError, match=message):
        ingest.run(raw(pairs), dataset(columns=columns), Ingest(**params), 1, tmp_path)


@pytest.mark.parametrize("changes", [
    {"neg_source": "labelled"}, {"neg_source": "retrieved"}, {"neg_source": "none"},
    {"neg_source": "labelled", "qqp_rule": "undirected_all", "neg_pick": "random"},
    {"neg_source": "labelled", "qqp_rule": "question1_zip"}])
def test_invariants_of_examples(tmp_path, changes):
    pairs = corpus(400, seed=2)
    params = Ingest(**changes, **SHARES, max_rejected=1)
    made = ingested(raw(pairs), dataset(), params, 3, tmp_path)
    frame = by_key(made)
    assert (frame["negative"] != frame["target"]).all()
    assert (frame["negative"] != frame["source"]).all()
    assert (frame["source"] != frame["target"]).all()
    assert frame["negative"].isna().all() == (changes["neg_source"] == "none")
    # No triple twice; no text and no component in two splits, negatives included.
    assert not frame[["source", "target", "negative"]].duplicated().any()
    homes = frame.melt("split", ["source", "target", "negative"]).groupby("value")["split"].nunique()
    assert homes.max() == 1
    assert frame.groupby("group")["split"].nunique().max() == 1
    assert [ids.tolist() for ids in frame["reference_ids"]] == [[target] for target in frame["target_id"]]
    used = set(frame[["source_id", "target_id", "negative_id"]].stack().dropna())
    assert used == set(made.texts["text_id"]) == set(range(len(made.texts)))
    order = [text_key(text) for pair in pairs for text in pair[:2]]
    places = made.texts["text"].map(text_key).map(order.index)
    assert places.is_monotonic_increasing
    assert len(made.refused) + made.counts["rows"]["taken"] == len(pairs)
    sizes = frame["split"].value_counts()
    assert made.counts["examples"] == {name: sizes[name] for name in ("train", "validation", "test")}
    assert all(abs(sizes[name] - 0.2 * len(frame)) <= 0.05 * len(frame) for name in ("validation", "test"))
    again = ingested(raw(pairs), dataset(), params, 3, tmp_path)
    pd.testing.assert_frame_equal(made.examples, again.examples)
    other = ingested(raw(pairs), dataset(), params, 4, tmp_path)
    assert not made.examples["split"].equals(other.examples["split"])


def project(folder, **params):
    """A project folder with one data set of random pairs."""
    (folder / "raw").mkdir()
    frame = pd.DataFrame(corpus(), columns=["q1", "q2", "dup"])
    frame[:60].to_csv(folder / "raw" / "a.csv", index=False)
    frame[60:].to_json(folder / "raw" / "b.jsonl", orient="records", lines=True)
    (folder / "params.yaml").write_text(json.dumps({  # JSON is YAML
        "recipe": "test", "seed": 3, "ingest": {"neg_source": "retrieved", **SHARES, "max_rejected": 0.1, **params},
        "datasets": {"toy": {"source": "raw", "columns": LABELLED}}}))


def test_the_stage_writes_the_same_bytes_under_any_hash_seed(tmp_path, monkeypatch):
    project(tmp_path)
    home = tmp_path / "artifacts" / "data" / "toy"
    done = subprocess.run([sys.executable, "-m", "stages.run.processes", "stages.ingest.ingest", "toy"], cwd=tmp_path,
                          capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "1"})
    assert done.returncode == 0, done.stderr
    files = {path.relative_to(home).as_posix(): path.read_bytes() for path in home.rglob("*.*")}
    # This process has another hash seed, drawn by chance.
    monkeypatch.chdir(tmp_path)
    assert ingest.main(["toy"]) == 0
    assert {path.relative_to(home).as_posix(): path.read_bytes() for path in home.rglob("*.*")} == files
    assert set(files) == {*(f"items/{name}/part-00000.parquet" for name in ("examples", "texts", "rejected")),
                          "metrics/ingest.json"}
    counts = json.loads(files["metrics/ingest.json"])
    for name, number in (counts["triples_by_negative_source"] | counts["labelled_triples_by_rule"]).items():
        assert f" {name} {number}" in done.stderr
    assert f"nearest to the paper's 44949: {counts['rule_nearest_to_paper']}\n" in done.stderr
    assert "leak into test: " in done.stderr and "leak into test: items " not in done.stderr
    assert sum(counts["examples"].values()) == len(read_frame(home / "items" / "examples", SCHEMAS["examples"]))
    assert read_metadata(home / "items" / "texts")["counts"] == counts
    assert not list((tmp_path / ".keycontrast").rglob("spool"))


def test_nothing_is_written_when_the_stage_fails(tmp_path, monkeypatch, capsys):
    project(tmp_path, max_rejected=0.0)
    with (tmp_path / "raw" / "b.jsonl").open("a") as handle:
        handle.write("{broken\n")
    monkeypatch.chdir(tmp_path)
    assert ingest.main(["toy"]) == 1
    assert "b.jsonl row" in capsys.readouterr().err
    assert not (tmp_path / "artifacts").exists()
    assert ingest.main(["tyo"]) == 1
    assert "params.yaml: datasets has no 'tyo'; did you mean 'toy'?" in capsys.readouterr().err


def test_rows_beyond_the_memory_of_the_database_go_to_disk(tmp_path):
    rows = [(f"question {n} " + "and more words " * 80, f"answer {n * 7 % 9000}", 1) for n in range(9000)]
    params, tables = Ingest(neg_source="none", **SHARES), []
    for gib in (4.0, 0.03):
        folder = tmp_path / str(gib)
        folder.mkdir()
        made = ingest.run(raw(rows), dataset(), params, 1, folder, memory_gib=gib)
        tables.append([list(made.pieces[name]()) for name in ("examples", "texts", "rejected")])
    assert tables[0] == tables[1]


def partners(pairs, way):
    """D(x) and N(x) by text key, with the surface of each key."""
    labels, first, surface = defaultdict(set), {}, {}
    for one, other, label in pairs:
        keys = text_key(one), text_key(other)
        for key, text in zip(keys, (one, other), strict=True):
            surface.setdefault(key, text)
        if keys[0] != keys[1]:
            labels[frozenset(keys)].add(label)
            first.setdefault(frozenset(keys), keys)
    found = {1: defaultdict(set), 0: defaultdict(set)}
    for pair, values in labels.items():
        if len(values) == 1:
            one, other = first[pair]
            label = next(iter(values))
            found[label][one].add(other)
            if way == "undirected":
                found[label][other].add(one)
    return found[1], found[0], surface


def triples(pairs, rule, seed, tmp_path, **changes):
    """What the stage makes: x -> list of (y+, y-), and its counts."""
    params = Ingest(neg_source="labelled", qqp_rule=rule, split_by="pair", **SHARES, max_rejected=1, **changes)
    made = ingested(raw(pairs), dataset(), params, seed, tmp_path)
    found = defaultdict(list)
    for row in by_key(made).itertuples():
        found[row.source].append((row.target, row.negative))
    return dict(found), made.counts


@pytest.mark.parametrize("neg_pick", ["hardest", "random"])
@pytest.mark.parametrize("rule", RULES)
def test_every_rule_gives_the_triples_of_a_plain_loop(tmp_path, rule, neg_pick):
    pairs = corpus(160, seed=4) * 2 + corpus(90, seed=5)
    way, _, combination = rule.partition("_")
    good, bad, surface = partners(pairs, way)
    found, counts = triples(pairs, rule, 3, tmp_path, neg_pick=neg_pick)
    assert set(found) == {x for x in good if bad.get(x)}
    for x, made in found.items():
        ranked = sorted(bad[x], key=lambda n: (-jaccard(overlap_tokens(surface[x]), overlap_tokens(surface[n])), n))
        targets, negatives = zip(*made, strict=True)
        assert set(targets) <= good[x]
        assert set(negatives) <= bad[x]
        if combination == "all":
            assert sorted(made) == sorted(product(good[x], bad[x]))
        elif combination == "zip":
            assert len(made) == min(len(good[x]), len(bad[x])) == len(set(targets)) == len(set(negatives))
        else:
            assert len(made) == 1
        if neg_pick == "hardest" and combination != "all":
            assert list(negatives) == ranked[:len(negatives)]
    assert counts["labelled_triples_by_rule"][rule] == sum(map(len, found.values()))
    assert counts["triples_by_negative_source"]["labelled"] == sum(map(len, found.values()))
    assert counts["rule"] == rule
