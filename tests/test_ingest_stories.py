"""Stories of five sentences (HCL section 4.1): reading, cutting, items, negatives by BM25 or at random."""

import numpy as np
import pandas as pd
import pytest
from ingest_rows import by_key, ingested

from keycontrast.errors import InputError
from stages.ingest.files import read_rows
from stages.ingest.params import Dataset, Ingest
from stages.ingest.parsing import sentences
from stages.ingest.rows import RawRow
from stages.ingest.text_keys import text_key

SETTINGS = {"neg_source": "retrieved", "validation": 0.2, "test": 0.2, "max_rejected": 1}
NAMES = ["Tom", "Ann", "Lee", "Sue", "Max", "Ida"]
THINGS = ["dog", "boat", "cake", "lamp", "tree", "song", "coat", "shoe", "drum", "kite", "wolf", "bell"]
ENDINGS = ["was happy", "cried", "went home", "slept", "laughed", "ran away"]


def stories(count=60, seed=0):
    """Stories over few words, so that many are alike; each with a sentence of its own."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(count):
        name = NAMES[rng.integers(len(NAMES))]
        things = rng.choice(THINGS, 3)
        found.append([f"{name} had a {things[0]} called n{number}.", f"It was a {things[1]}.",
                      f"{name} saw the {things[2]}!", f"Then the {things[0]} fell {number} times.",
                      f"{name} {ENDINGS[rng.integers(len(ENDINGS))]}."])
    return found


def rows(lists, split=None, file="s.jsonl"):
    return [RawRow(file, number, {"story": story}, split=split) for number, story in enumerate(lists, start=1)]


def made_of(lists, folder, seed=3, read=None, columns=None, **changes):
    data = Dataset(source="unused", layout="stories", columns=columns or {})
    return ingested(rows(lists) if read is None else read, data, Ingest(**{**SETTINGS, **changes}), seed, folder)


@pytest.mark.parametrize(("text", "expected"), [
    ("He ran. She sat! Why? Nobody knew... It ended.", ["He ran.", "She sat!", "Why?", "Nobody knew...", "It ended."]),
    ("Mr. Fox met Dr. Bell at St. Mary. They left.", ["Mr. Fox met Dr. Bell at St. Mary.", "They left."]),
    ("J. Smith saw T.S. Eliot. I did too.", ["J. Smith saw T.S. Eliot.", "I did too."]),
    ("It was I. We left.", ["It was I.", "We left."]),
    ('She said "Stop. Do not go." and left. He stayed.', ['She said "Stop. Do not go." and left.', "He stayed."]),
    ('"Help!" She cried.', ['"Help!"', "She cried."]), ("He paid 3.50 dollars. 2 were left.",
                                                        ["He paid 3.50 dollars.", "2 were left."]),
    ("He said no. She sat in No. 5 then.", ["He said no.", "She sat in No. 5 then."]),
    ("He saw it. suddenly it fell.", ["He saw it. suddenly it fell."]), ("No end", ["No end"]), ("  ", []),
    ("她来了。他走了！好吗？", ["她来了。", "他走了！", "好吗？"]),
    ("(He left.) We stayed.", ["(He left.)", "We stayed."])])
def test_sentences_end_by_a_simple_rule(text, expected):
    assert sentences(text) == expected


@pytest.mark.parametrize(("content", "reason"), [
    ({"story": "One. Two. Three."}, "sentences: story was cut into 3 instead of 5; give it as a list"),
    ({"story": 7}, "not text: story is of type int"),
    ({"story": ["A.", "B.", None, "D.", "E."]}, "empty text: sentence 3 is missing"),
    ({"context": ["A.", "B.", "C."], "ending": "E."}, "sentences: context has 3 instead of 4")])
def test_rows_that_are_no_five_sentences_say_why(tmp_path, content, reason):
    made = made_of([], tmp_path, read=[*rows(stories(30)), RawRow("x.jsonl", 4, content)], neg_source="none")
    assert made.rejected[["file", "row"]].to_numpy().tolist() == [["x.jsonl", 4]]
    assert reason in made.rejected["reason"][0]


def test_every_beginning_leads_to_the_next_sentence_within_one_split(tmp_path):
    lists = stories()
    made = made_of(lists, tmp_path, neg_source="none", roc_mode="next_sentence")
    texts = made.texts["text"]
    assert [(texts[row.source_id], texts[row.target_id]) for row in made.examples.itertuples()] == [
        (" ".join(story[:length]), story[length]) for story in lists for length in range(1, 5)]
    assert made.examples.groupby(np.arange(240) // 4)["split"].nunique().max() == 1
    assert made.examples.groupby(np.arange(240) // 4)["group"].nunique().max() == 1
    assert made.counts["components"] == {"count": 60, "largest_texts": 4}


def test_stories_that_begin_alike_are_one_component_in_every_mode(tmp_path):
    lists = stories(40)
    lists += [[lists[0][0], *story[1:]] for story in stories(12, seed=9)]  # twelve more with the first's beginning
    lists.append([*lists[1][:4], "Another ending."])
    for mode in ("ending", "next_sentence", "lead_to_rest"):
        frame = by_key(made_of(lists, tmp_path, neg_source="none", roc_mode=mode))
        starts = frame["source"].str.startswith(text_key(lists[0][0]))
        assert starts.sum() >= 13
        assert frame.loc[starts, "group"].nunique() == 1
        assert frame.loc[starts, "split"].nunique() == 1
        assert frame.loc[frame["source"].str.startswith(text_key(lists[1][0])), "group"].nunique() == 1
        assert frame["group"].nunique() == 40
        assert not frame[["source", "target"]].duplicated().any()


def test_stories_of_files_in_different_forms_are_one_data_set(tmp_path):
    lists = stories(40)
    pd.DataFrame({"story": [" ".join(story) for story in lists[:10]]}).to_parquet(tmp_path / "plain.parquet")
    pd.DataFrame(lists[10:20], columns=list("abcde")).to_parquet(tmp_path / "columns.parquet")
    pd.DataFrame({"context": [story[:4] for story in lists[15:30]],  # five are there already, in another spelling
                  "ending": [story[4].replace(".", " .") for story in lists[15:30]]}).to_parquet(tmp_path / "e.parquet")
    pd.DataFrame({"id": list("abcdef"), "context": [story[:4] for story in lists[30:36]], "right_ending": [1, 2] * 3,
                  "ending1": [story[4] if number % 2 == 0 else "No." for number, story in enumerate(lists[30:36])],
                  "ending2": [story[4] if number % 2 else "No." for number, story in enumerate(lists[30:36])],
                  }).to_parquet(tmp_path / "cloze.parquet")
    pd.DataFrame({"context_with_mask": [f"{' '.join(story[:2])} [MASK] {story[4]}" for story in lists[36:]],
                  "missing_two_sentences": [f"{story[2]} {story[3].lower()}" for story in lists[36:]],
                  }).to_parquet(tmp_path / "gaps.parquet")
    data = Dataset(source=str(tmp_path), layout="stories", files=[
        "plain.parquet",
        {"name": "columns.parquet", "layout": "stories", "columns": {"sentences": list("abcde")}},
        {"name": "e.parquet", "layout": "stories", "columns": {"ending": "ending"}},
        {"name": "cloze.parquet", "layout": "story_cloze"}, {"name": "gaps.parquet", "layout": "story_infilling"}])
    made = ingested(read_rows(data), data, Ingest(**SETTINGS), 3, tmp_path)
    assert made.rejected["reason"].to_list() == [f"duplicate: of columns.parquet row {row}" for row in range(6, 11)]
    texts = made.texts["text"]
    pairs = [(texts[row.source_id], texts[row.target_id]) for row in made.examples.itertuples()]
    assert [key for pair in pairs for key in map(text_key, pair)] == [
        key for story in lists for key in (text_key(" ".join(story[:4])), text_key(story[4]))]
    assert pairs[36] == (" ".join([*lists[36][:3], lists[36][3].capitalize()]), lists[36][4])


def test_hashed_splits_are_the_same_whatever_the_mode(tmp_path):
    lists = stories(200)
    lists += [[f"Start {group}.", *(f"{word} {group} {row}." for word in "bcde")] for group in range(8)
              for row in range(7)]    # a component is large or small in every mode
    homes = []
    for changes in ({"roc_mode": "ending"}, {"roc_mode": "lead_to_rest", "neg_source": "none"},
                    {"roc_mode": "next_sentence", "roc_neg": "random"}):
        frame = by_key(made_of(lists, tmp_path, split_by="hashed", **changes))
        homes.append({story[0]: set(frame[frame["source"].str.startswith(text_key(story[0]))]["split"])
                      for story in lists})
    assert homes[0] == homes[1] == homes[2]
    assert {name for home in homes[0].values() for name in home} == {"train", "validation", "test"}


@pytest.mark.parametrize("way", ["bm25", "random"])
@pytest.mark.parametrize("mode", ["ending", "next_sentence", "lead_to_rest"])
def test_invariants_of_stories(tmp_path, mode, way):
    lists = stories(80)
    made = made_of(lists, tmp_path, roc_mode=mode, roc_neg=way)
    frame = by_key(made)
    assert len(frame) == made.counts["items_by_mode"][mode] and set(frame["negative_origin"]) == {way}
    assert (frame["negative"] != frame["target"]).all()
    assert (frame["negative"] != frame["source"]).all()
    triples = frame[["source", "target", "negative", "split"]].drop_duplicates()
    assert not triples[["source", "target", "negative"]].duplicated().any()
    for name, part in frame.groupby("split"):
        assert set(part["negative"]) <= set(part["target"]), name
    assert frame.groupby("group")["split"].nunique().max() == 1
    assert frame.groupby("source")["split"].nunique().max() == 1
    again = made_of(lists, tmp_path, roc_mode=mode, roc_neg=way)
    pd.testing.assert_frame_equal(made.examples, again.examples)
    assert not made.examples["split"].equals(made_of(lists, tmp_path, 4, roc_mode=mode, roc_neg=way).examples["split"])
    assert made.counts["training_items_left_out_without_a_negative"] == 0
    assert made.counts["evaluated_items_without_a_negative"] == 0


@pytest.mark.parametrize("way", ["bm25", "random"])
def test_negatives_do_not_depend_on_the_order_of_rows(tmp_path, way):
    lists = stories(80)
    one, other = ({row.source: (row.target, row.negative, row.split) for row in by_key(made_of(
        part, tmp_path, roc_neg=way, split_by="hashed")).itertuples()} for part in (lists, lists[::-1]))
    assert one == other


def test_a_story_without_another_ending_has_no_negative(tmp_path):
    lists = [[*story[:4], "All was well."] for story in stories(30)]
    with pytest.raises(InputError, match="no negative can be found for train: no story or context has an output"):
        made_of(lists, tmp_path)
    # Two stories with one beginning and two endings, and one that ends like the first of them. The two find
    # nothing but an ending that they have themselves; the third may have the second's.
    few = [["Once.", "A b.", "C d.", "E f.", "All was well."], ["Once.", "G h.", "I j.", "K l.", "They left."],
           ["Twice.", "M n.", "O p.", "Q r.", "All was well."]]
    others = [rows(stories(30, seed), name, name) for seed, name in enumerate(["train", "validation"])]
    frame = by_key(made_of([], tmp_path, read=others[0] + others[1] + rows(few, "test", "b")))
    assert frame[frame["split"] == "test"]["negative"].fillna("none").tolist() == ["none", "none", "theyleft"]
    made = made_of([], tmp_path, read=rows(few, "train", "b") + others[1] + rows(stories(30, 5), "test", "c"))
    frame = by_key(made)
    assert frame[frame["split"] == "train"][["target", "negative"]].to_numpy().tolist() == [["allwaswell", "theyleft"]]
    assert made.counts["training_items_left_out_without_a_negative"] == 2
