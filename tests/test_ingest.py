"""Stage ``ingest``: reading, de-duplication, triples, splits (METHODS A.1)."""

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from stages import ingest
from stages.artifacts.tables import read_frame
from stages.ingestion.pairs import take_rows
from stages.ingestion.readers import RawRow, read_rows
from stages.ingestion.retrieval import retrieve
from stages.ingestion.splits import TEST, TRAIN, VALIDATION, sample_items, split_groups
from stages.ingestion.textkeys import jaccard, overlap_tokens, text_key
from stages.params.data import Dataset, Ingest
from stages.runtime.errors import InputError

ROOT = Path(__file__).resolve().parents[1]
LABELLED = {"source": "q1", "target": "q2", "label": "dup"}
SHARES = {"validation": 0.2, "test": 0.2}


def dataset(source="unused", layout="pairs", columns=None, **more):
    return Dataset(source=str(source), layout=layout, columns=columns or LABELLED, **more)


def raw(pairs):
    return [RawRow("f.csv", number, dict(zip(("q1", "q2", "dup"), pair, strict=True)))
            for number, pair in enumerate(pairs, start=1)]


def corpus(size=240, seed=0):
    """Random labelled pairs over few words: overlaps, repetitions, both orders, shared texts."""
    rng = np.random.default_rng(seed)
    words = [f"w{n}" for n in range(90)]
    texts = [" ".join(rng.choice(words, size=rng.integers(2, 7))) for _ in range(size)]
    return [(texts[a], texts[b], int(rng.random() < 0.6)) for a, b in rng.integers(0, size, (size // 2, 2)) if a != b]


def by_key(made):
    """Examples with the keys of their texts."""
    keys = made.texts["text"].map(text_key)
    frame = made.examples.copy()
    for role in ("source", "target", "negative"):
        frame[role] = frame[f"{role}_id"].map(keys)
    return frame


# Text keys


@pytest.mark.parametrize(("one", "other"), [
    ("Don't  stop!", "dont stop"), ("What 's 2+2 ?", "what's 2 + 2?"), ("Café", "CAFE\u0301"), ("Ａｂ１", "ab1"),
    ("你好，世界", "你好世界"), ("_a_", "A")])
def test_texts_with_the_same_letters_and_digits_are_one(one, other):
    assert text_key(one) == text_key(other) != ""


def test_keys_keep_vowel_signs_and_accents():
    assert text_key("कि") != text_key("का")
    assert text_key("résumé") != text_key("resume")


@pytest.mark.parametrize("text", ["", "?!", "\N{GRINNING FACE}\ufe0f", "__"])
def test_texts_without_letters_have_no_key(text):
    assert text_key(text) == ""


def test_overlap_counts_distinct_lower_cased_words_and_single_han_characters():
    assert overlap_tokens("The the don't_X 3") == {"the", "don", "t", "x", "3"}
    assert overlap_tokens("你好abc") == {"你", "好", "abc"}
    assert jaccard(frozenset("ab"), frozenset("bcd")) == 1 / 4
    assert jaccard(frozenset(), frozenset()) == 0.0


# Reading


def test_the_three_formats_give_the_same_rows(tmp_path):
    frame = pd.DataFrame({"q1": ["a b", 'say "x", y'], "q2": ["c", "two\nlines"], "dup": ["1", "0"]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_json(tmp_path / "t.jsonl", orient="records", lines=True)
    frame.to_parquet(tmp_path / "t.parquet")
    rows = [[(row.row, dict(row.content)) for row in read_rows(dataset(tmp_path / f"t.{kind}"))]
            for kind in ("csv", "jsonl", "parquet")]
    assert rows[0] == rows[1] == rows[2] == list(enumerate(frame.to_dict("records"), start=1))


def test_files_are_read_in_the_order_given_and_sorted_within_a_pattern(tmp_path):
    for name in ("b2.csv", "b1.csv", "a.csv", "[odd].csv"):
        (tmp_path / name).write_text("q1,q2,dup\nx,y,1\n")
    names = [row.file for row in read_rows(dataset(tmp_path, files=["[odd].csv", "b*.csv", "*.csv"]))]
    assert names == ["[odd].csv", "b1.csv", "b2.csv", "a.csv"]


def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbfq1,q2,dup\nx,y,1\n")
    (tmp_path / "t.jsonl").write_bytes(b'\xef\xbb\xbf{"q1":"x","q2":"y","dup":1}\n')
    assert len(take_rows(read_rows(dataset(tmp_path)), dataset()).rejected) == 1  # the second is a duplicate


@pytest.mark.parametrize(("name", "content", "message"), [
    ("t.csv", b"", r"t\.csv: the file is empty"),
    ("t.csv", b"q1,q2,dup\n", "header but no rows"),
    ("t.csv", b"q1,q3,dup\na,b,1\n", r"no column 'q2' \(columns.target in the params\); valid names: dup, q1, q3"),
    ("t.csv", b"q1,q2,q2,dup\na,b,c,1\n", "column 'q2' occurs 2 times"),
    ("t.csv", b'q1,q2,dup\na,"b,1\nc,d,1\ne,f,0\n', "lines 2 to 4: a quotation mark is not closed"),
    ("t.csv", "q1,q2,dup\na,b,1\n".encode("utf-16"), "UTF-16"),
    ("t.jsonl", b"\n\n", "the file has no rows"),
    ("t.jsonl", b'{"q1":"a","q22":"b","dup":1}\n', "no column 'q2' .* did you mean 'q22'"),
    ("t.parquet", b"PAR1 no", "not a readable Parquet file"),
    ("t.txt", b"x", r"files of type '\.txt' cannot be read"),
])
def test_a_file_that_cannot_be_used_as_a_whole_is_named(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        list(read_rows(dataset(tmp_path / name)))


def test_missing_files_are_named_with_the_nearest(tmp_path):
    (tmp_path / "train.csv").write_text("q1,q2,dup\na,b,1\n")
    for source, files, message in ((tmp_path / "trian.csv", [], "no such file or folder.*did you mean 'train.csv'"),
                                   (tmp_path, ["tran.csv"], "tran.csv: no such file; did you mean 'train.csv'"),
                                   (tmp_path, ["/etc/*.csv"], "must be a name or pattern inside"),
                                   (tmp_path / "train.csv", ["x.csv"], "is a file, so `files` must be empty")):
        with pytest.raises(InputError, match=message):
            list(read_rows(dataset(source, files=files)))


def test_broken_rows_are_set_aside_with_their_number_and_reason(tmp_path):
    (tmp_path / "t.csv").write_bytes(b'q1,q2,dup\nfine,good,1\nshort,row\n"a"b,c,1\ncaf\xe9,x,1\n\nlast,one,0\n')
    taken = take_rows(read_rows(dataset(tmp_path / "t.csv")), dataset())
    assert [(item.row.row, item.category) for item in taken.rejected] == [
        (2, "broken line"), (3, "broken line"), (4, "encoding")]
    assert "2 fields instead of 3" in taken.rejected[0].reason
    assert taken.rejected[2].raw == "caf\\xe9,x,1"
    assert (taken.rows, len(taken.source)) == (5, 2)

    (tmp_path / "t.jsonl").write_bytes(b'{"q1":"a","q2":"b","dup":1}\n{"q1":\n[1]\n\xff\n'
                                       b'{"q1":"\\ud800","q2":"z","dup":1}\n{"q2":"b","dup":1}\n')
    taken = take_rows(read_rows(dataset(tmp_path / "t.jsonl")), dataset())
    assert [(item.row.row, item.category) for item in taken.rejected] == [
        (2, "broken line"), (3, "broken line"), (4, "encoding"), (5, "encoding"), (6, "empty text")]
    assert "not valid JSON" in taken.rejected[0].reason


# Pairs


@pytest.mark.parametrize(("row", "reason"), [
    (("", "b", 1), "empty text: source"), (("a", None, 1), "empty text: target is missing"),
    (("a", float("nan"), 1), "not text: target is of type float"), (("?!", "b", 1), "source has no letter or digit"),
    (("a b", "A-B!", 1), "same text: source and target"), (("a", "b", 2), "label: must be 0 or 1, found 2"),
    (("a", "b", "yes"), "found 'yes'"), (("a", "b", None), "found None"), (("a", "b", float("nan")), "found nan"),
    (("a", "b", []), r"found \[\]")])
def test_rows_that_cannot_be_taken_say_why(row, reason):
    taken = take_rows(raw([row]), dataset())
    assert len(taken.source) == 0
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(taken.rejected[0].reason)


def test_labels_may_be_written_in_several_ways():
    labels = ["1", True, 1.0, " 0 ", 0]
    taken = take_rows(raw([("a", f"b{place}", label) for place, label in enumerate(labels)]), dataset())
    assert taken.paraphrase.tolist() == [True, True, True, False, False]


def test_pairs_are_one_in_either_order_and_the_first_surface_stays():
    pairs = [("How are you?", "What's up", 1), ("whats UP!", "how are you", 1), ("x", "y", 0)]
    taken = take_rows(raw(pairs), dataset())
    assert taken.texts.surfaces == ["How are you?", "What's up", "x", "y"]
    assert taken.source.tolist() == [0, 2]
    assert [(item.row.row, item.reason) for item in taken.rejected] == [(2, "duplicate: of f.csv row 1")]
    assert taken.unusable() == []


def test_a_pair_with_both_labels_is_dropped_with_all_its_rows():
    taken = take_rows(raw([("a", "b", 1), ("c", "d", 1), ("B", "A", 0), ("a", "b", 1)]), dataset())
    assert taken.texts.surfaces[taken.source[0]] == "c"
    assert len(taken.source) == 1
    assert {item.category for item in taken.rejected} == {"both labels"}
    assert sorted(item.row.row for item in taken.rejected) == [1, 3, 4]


def test_too_many_unusable_rows_stop_the_stage_and_name_ten():
    rows = raw([("a", f"b{n}", 7) for n in range(12)] + [("x", f"y{n}", 1) for n in range(40)])
    with pytest.raises(InputError, match="12 of 52 rows cannot be used") as error:
        ingest.run(rows, dataset(), Ingest(max_rejected=0.2), seed=1)
    assert str(error.value).count("found 7") == 10
    assert "f.csv row 10: label" in str(error.value)
    assert "row 11:" not in str(error.value)
    assert "and 2 more" in str(error.value)


def test_repetitions_do_not_count_as_unusable():
    rows = raw([("a", "b", 1)] * 50 + [(f"p{n}", f"q{n}", 1) for n in range(9)])
    made = ingest.run(rows, dataset(), Ingest(neg_source="retrieved", **SHARES, max_rejected=0.0), seed=1)
    assert len(made.rejected) == 49
    assert made.counts["rows"] == {"read": 59, "taken": 10, "rejected": 0, "duplicates": 49,
                                   "not_taken_by_reason": {"duplicate": 49}}


# Triples


def reference_triples(pairs):
    """Steps 1 to 4 of METHODS A.1, in plain dictionaries: x -> (D(x), hardest of N(x))."""
    labels = defaultdict(set)
    surface = {}
    for one, other, label in pairs:
        for text in (one, other):
            surface.setdefault(text_key(text), text)
        if text_key(one) != text_key(other):
            labels[frozenset((text_key(one), text_key(other)))].add(label)
    partners = {0: defaultdict(set), 1: defaultdict(set)}
    for pair, found in labels.items():
        one, other = sorted(pair)
        for label in found if len(found) == 1 else ():
            partners[label][one].add(other)
            partners[label][other].add(one)
    triples = {}
    for x in partners[1].keys() & partners[0].keys():
        overlap = {key: jaccard(overlap_tokens(surface[x]), overlap_tokens(surface[key])) for key in partners[0][x]}
        best = max(overlap.values())
        triples[x] = (partners[1][x], min(key for key, share in overlap.items() if share == best))
    return triples


def test_labelled_triples_follow_the_rule():
    pairs = corpus()
    expected = reference_triples(pairs)
    made = ingest.run(raw(pairs), dataset(), Ingest(neg_source="labelled", **SHARES, max_rejected=1), seed=3)
    frame = by_key(made)
    assert len(frame) == len(expected) == made.counts["triples_by_negative_source"]["labelled"]
    assert set(frame["source"]) == set(expected)
    for row in frame.itertuples():
        assert row.target in expected[row.source][0]
        assert row.negative == expected[row.source][1]
    assert set(frame["negative_origin"]) == {"labelled"}


def test_targets_are_drawn_by_seed_and_texts_whatever_the_order_of_rows():
    pairs = corpus()
    params = Ingest(neg_source="labelled", **SHARES, max_rejected=1)

    def targets(rows, seed):
        return by_key(ingest.run(raw(rows), dataset(), params, seed)).set_index("source")["target"].sort_index()

    assert targets(pairs, 3).equals(targets(pairs[::-1], 3))
    assert not targets(pairs, 3).equals(targets(pairs, 4))


def test_counts_under_every_rule():
    pairs = corpus()
    counts = ingest.run(raw(pairs), dataset(), Ingest(neg_source="labelled", **SHARES, max_rejected=1), 3).counts
    good, bad = defaultdict(set), defaultdict(set)
    taken = take_rows(raw(pairs), dataset())
    for source, target, label in zip(taken.source, taken.target, taken.paraphrase, strict=True):
        (good if label else bad)[int(source)].add(int(target))
    both = good.keys() & bad.keys()
    assert counts["labelled_triples_by_rule"]["question1_one"] == len(both)
    assert counts["labelled_triples_by_rule"]["question1_all"] == sum(len(good[x]) * len(bad[x]) for x in both)
    assert counts["triples_by_negative_source"]["retrieved"] == int(taken.paraphrase.sum())


def test_retrieved_negatives_are_the_most_overlapping_outside_the_component():
    rng = np.random.default_rng(5)
    words = [f"w{n}" for n in range(110)]
    weights = 1 / np.arange(1, 111)
    surfaces = [" ".join(rng.choice(words, size=6, p=weights / weights.sum())) + f" id{n}" for n in range(150)]
    keys = [text_key(text) for text in surfaces]
    group = rng.integers(0, 40, 150)
    pool = np.flatnonzero(group % 3 != 0)
    queries = rng.choice(pool, 60)
    found = retrieve(queries, pool, group, surfaces, keys)
    for query, answer in zip(queries, found, strict=True):
        outside = [n for n in pool if group[n] != group[query]]
        mine = overlap_tokens(surfaces[query])
        assert answer == min(outside, key=lambda n: (-jaccard(mine, overlap_tokens(surfaces[n])), keys[n]))


def test_retrieval_says_where_there_is_nothing_to_find():
    surfaces = ["a", "b"]
    assert retrieve(np.array([0]), np.array([0, 1]), np.array([0, 0]), surfaces, surfaces).tolist() == [-1]
    # No shared token at all: every text ties, the smallest key wins; a text may have a key and odd tokens.
    assert retrieve(np.array([2]), np.arange(3), np.arange(3), ["z", "b", "\u2103"], ["z", "b", "c"]).tolist() == [1]


def test_given_triples_are_taken_as_they_are():
    rows = [RawRow("f", n, {"s": f"s{n}", "t": f"t{n}", "n": f"n{n}"}) for n in range(10)]
    rows += [RawRow("f", 11, {"s": "s1", "t": "t1", "n": "N 1"}), RawRow("f", 12, {"s": "a", "t": "b", "n": "B"}),
             RawRow("f", 13, {"s": "a", "t": "b", "n": ""})]
    columns = {"source": "s", "target": "t", "negative": "n"}
    made = ingest.run(rows, dataset(layout="triples", columns=columns), Ingest(neg_source="given", max_rejected=0.5), 1)
    frame = by_key(made)
    triples = frame[["source", "target", "negative"]].to_numpy().tolist()
    assert triples == [[f"s{n}", f"t{n}", f"n{n}"] for n in range(10)]
    assert made.rejected["reason"].tolist() == ["duplicate: of f row 1",
                                                "same text: target and negative have the same letters and digits",
                                                "empty text: negative"]
    assert made.counts["components"] == {"count": 10, "largest_texts": 3}
    assert made.counts["triples_by_negative_source"] == {"labelled": 10, "retrieved": 10}


@pytest.mark.parametrize(("params", "columns", "pairs", "message"), [
    ({"neg_source": "given"}, LABELLED, [("a", "b", 1)], "neg_source is given, but the data set has layout pairs"),
    ({"neg_source": "labelled"}, {"source": "q1", "target": "q2"}, [("a", "b", 1)], "Name the label column"),
    ({"neg_source": "labelled"}, LABELLED, [("a", "b", 1)], "No text has both a paraphrase and a non-paraphrase"),
    ({"neg_source": "retrieved"}, LABELLED, [("a", "b", 0)], "Give rows that are paraphrases"),
    ({"neg_source": "retrieved"}, LABELLED, [("a", "b", 1), ("c", "d", 1)], "at least 3 groups are needed"),
    ({"neg_source": "retrieved"}, LABELLED, [("a", "b", 1), ("c", "d", 1), ("e", "f", 1)], "no negative can be"),
])
def test_data_that_give_no_examples_say_what_to_do(params, columns, pairs, message):
    with pytest.raises(InputError, match=message):
        ingest.run(raw(pairs), dataset(columns=columns), Ingest(**params), seed=1)


# Invariants of every rule


@pytest.mark.parametrize("negatives", ["labelled", "retrieved"])
def test_invariants_of_examples(negatives):
    pairs = corpus(400, seed=2)
    params = Ingest(neg_source=negatives, **SHARES, max_rejected=1)
    made = ingest.run(raw(pairs), dataset(), params, seed=3)
    frame = by_key(made)
    assert (frame["negative"] != frame["target"]).all()
    assert (frame["negative"] != frame["source"]).all()
    assert (frame["source"] != frame["target"]).all()
    # No text and no component is in two splits, negatives included.
    homes = frame.melt("split", ["source", "target", "negative"]).groupby("value")["split"].nunique()
    assert homes.max() == 1
    assert frame.groupby("group")["split"].nunique().max() == 1
    assert [ids.tolist() for ids in frame["reference_ids"]] == [[target] for target in frame["target_id"]]
    used = set(frame[["source_id", "target_id", "negative_id"]].to_numpy().ravel())
    assert used == set(made.texts["text_id"]) == set(range(len(made.texts)))
    order = [text_key(text) for pair in pairs for text in pair[:2]]
    places = made.texts["text"].map(text_key).map(order.index)
    assert places.is_monotonic_increasing
    assert len(made.rejected) + made.counts["rows"]["taken"] == len(pairs)
    again = ingest.run(raw(pairs), dataset(), params, seed=3)
    pd.testing.assert_frame_equal(made.examples, again.examples)
    other = ingest.run(raw(pairs), dataset(), params, seed=4)
    assert not made.examples["split"].equals(other.examples["split"])


def test_splits_get_their_share():
    groups = np.arange(400)
    split = split_groups(groups, 400, validation=0.05, test=0.1, seed=1)
    assert np.bincount(split).tolist() == [340, 20, 40]


def test_large_components_go_to_train_and_groups_without_items_everywhere():
    items = np.concatenate([np.zeros(300, dtype=int), np.arange(1, 301)])
    split = split_groups(items, 1301, validation=0.05, test=0.05, seed=1)
    assert split[0] == TRAIN
    counts = np.bincount(split[items], minlength=3)
    assert counts[VALIDATION] == counts[TEST] == 30
    empty = np.bincount(split[301:], minlength=3)
    assert 20 < empty[VALIDATION] < 90
    assert 20 < empty[TEST] < 90


@pytest.mark.parametrize("sizes", [[1, 1, 1], [1, 1, 3], [5, 5, 5], [50, 1, 1]])
def test_no_split_stays_empty(sizes):
    split = split_groups(np.repeat(np.arange(3), sizes), 3, validation=0.4, test=0.4, seed=1)
    assert sorted(split.tolist()) == [0, 1, 2]


def test_samples_are_seeded_and_keep_the_order():
    split = np.array([0, 1, 0, 2, 0, 0, 1, 0])
    limits = {"train": 3, "validation": None, "test": 5}
    kept = sample_items(split, limits, seed=1)
    assert np.bincount(split[kept]).tolist() == [3, 2, 1]
    assert kept.tolist() == sorted(kept.tolist())
    assert kept.tolist() == sample_items(split, limits, seed=1).tolist()
    assert any(kept.tolist() != sample_items(split, limits, seed=s).tolist() for s in range(2, 9))


def test_sampling_does_not_shrink_the_pool_of_negatives():
    pairs = corpus(400, seed=2)
    full, small = (by_key(ingest.run(raw(pairs), dataset(), Ingest(neg_source="retrieved", **SHARES, max_rejected=1,
                                                                  max_train=limit), 3)) for limit in (None, 10))
    train = small[small["split"] == "train"]
    assert len(train) == 10
    merged = train.merge(full, on=["source", "target"])
    assert (merged["negative_x"] == merged["negative_y"]).all()
    assert (merged["split_x"] == merged["split_y"]).all()


# The stage as a process


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
    home = tmp_path / "artifacts" / "toy"
    done = subprocess.run([sys.executable, "-m", "stages.ingest", "toy"], cwd=tmp_path, capture_output=True, text=True,
                          check=False, env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "1"})
    assert done.returncode == 0, done.stderr
    files = {path.name: path.read_bytes() for path in home.rglob("*.*")}
    # This process has another hash seed, drawn by chance.
    monkeypatch.chdir(tmp_path)
    assert ingest.main(["toy"]) == 0
    assert {path.name: path.read_bytes() for path in home.rglob("*.*")} == files
    assert set(files) == {"examples.parquet", "texts.parquet", "rejected.parquet", "ingest.json"}
    assert "triples with labelled negatives" in done.stderr
    counts = json.loads(files["ingest.json"])
    assert f"with retrieved negatives {counts['triples_by_negative_source']['retrieved']}" in done.stderr
    assert sum(counts["examples"].values()) == len(read_frame(home / "examples.parquet", "examples"))


def test_nothing_is_written_when_the_stage_fails(tmp_path, monkeypatch, capsys):
    project(tmp_path, max_rejected=0.0)
    with (tmp_path / "raw" / "b.jsonl").open("a") as handle:
        handle.write("{broken\n")
    monkeypatch.chdir(tmp_path)
    assert ingest.main(["toy"]) == 1
    assert "b.jsonl row" in capsys.readouterr().err
    assert not (tmp_path / "artifacts").exists()
    assert ingest.main(["tyo"]) == 1
    assert "no data set is called 'tyo'; did you mean 'toy'?" in capsys.readouterr().err
