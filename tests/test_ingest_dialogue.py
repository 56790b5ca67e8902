"""Dialogues (HCL section 4.1): tables and published text files, items, negatives by score, BM25, label, chance."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from ingest_rows import by_key, ingested

from stages.ingest.files import read_rows
from stages.ingest.params import Dataset, Ingest
from stages.ingest.parsing import douban_line, groupwise_line
from stages.ingest.rows import RawRow
from stages.ingest.text_keys import join_han, text_key

SETTINGS = {"neg_source": "retrieved", "douban_neg": "bm25", "validation": 0.2, "test": 0.2, "max_rejected": 1}
FILE = Path("d.txt")
WORDS = ["tea", "rain", "bus", "film", "moon", "shop", "fish", "game", "book", "train"]


def dialogues(count=60, seed=0):
    """Contexts of one to four turns over few words, with a response."""
    rng = np.random.default_rng(seed)
    return [([" ".join(rng.choice(WORDS, 4)) + f" c{number}" if turn == 0 else " ".join(rng.choice(WORDS, 3))
              for turn in range(1 + number % 4)], f"{rng.choice(WORDS)} r{rng.integers(count // 2)}")
            for number in range(count)]


def rows(pairs, split=None, file="d.jsonl", **more):
    return [RawRow(file, number, {"context": context, "response": response, **more}, split=split)
            for number, (context, response) in enumerate(pairs, start=1)]


def data(columns=None, layout="dialogue", source="unused", **more):
    return Dataset(source=str(source), layout=layout, columns=columns or {}, **more)


def made_of(pairs, folder, seed=3, read=None, dataset=None, **changes):
    read = rows(pairs) if read is None else read
    return ingested(read, dataset or data(), Ingest(**{**SETTINGS, **changes}), seed, folder)


def texts_of(made):
    texts = made.texts["text"]
    return [(texts[row.source_id], texts[row.target_id]) for row in made.examples.itertuples()]


@pytest.mark.parametrize("shape", ["list", "text", "last turn", "columns"])
def test_every_shape_of_a_context_gives_the_same_items(tmp_path, shape):
    pairs = dialogues(30)
    turns = [[*c, *[None] * (4 - len(c)), r] for c, r in pairs]  # a turn that is not there is left out
    frame, columns, mark = {
        "list": (pd.DataFrame({"c": [c for c, _ in pairs], "r": [r for _, r in pairs]}),
                 {"context": "c", "response": "r"}, "[SEP]"),
        "text": (pd.DataFrame({"c": [" __eou__ ".join(c) for c, _ in pairs], "r": [r for _, r in pairs]}),
                 {"context": "c", "response": "r"}, "__eou__"),
        "last turn": (pd.DataFrame({"turns": [[*c, r] for c, r in pairs]}), {"context": "turns", "response": None},
                      "[SEP]"),
        "columns": (pd.DataFrame(turns, columns=list("abcde")), {"turns": list("abcde")}, "[SEP]")}[shape]
    path = tmp_path / "d.parquet"
    frame.to_parquet(path)
    dataset = data(columns, source=path, turn_mark=mark)
    made = ingested(read_rows(dataset), dataset, Ingest(**SETTINGS), 3, tmp_path)
    pd.testing.assert_frame_equal(made.examples, made_of(pairs, tmp_path).examples)
    assert texts_of(made) == [(" [SEP] ".join(context), response) for context, response in pairs]


@pytest.mark.parametrize(("content", "reason"), [
    ({"context": None, "response": "r"}, "empty text: context is missing"),
    ({"context": ["a"], "response": "A."}, "same text: context and response are the same"),
    ({"context": ["a"]}, "empty text: context has 1 turns, and the last one is the response; two are needed"),
    ({"context": ["a"], "response": "r", "candidates": ["x"], "scores": None},
     "candidates: must be a list of texts beside a list of scores, found list and NoneType"),
    ({"context": ["a"], "response": "r", "candidates": ["x", "y"], "scores": [1]}, "candidates: 2 texts and 1 scores")])
def test_rows_that_are_no_dialogues_say_why(tmp_path, content, reason):
    made = made_of([], tmp_path, read=[*rows(dialogues(30)), RawRow("x.jsonl", 4, content)], neg_source="none")
    assert made.rejected[["file", "row"]].to_numpy().tolist() == [["x.jsonl", 4]]
    assert reason in made.rejected["reason"][0]


@pytest.mark.parametrize(("text", "joined"), [
    ("我 也 看过 ， 是 吗 ？", "我也看过，是吗？"), ("iphone x 很 好 用", "iphone x 很好用"), ("a b", "a b"),
    ("得 分 3 比 2", "得分 3 比 2"), ("你 好 [SEP] 再 见", "你好 [SEP] 再见")])
def test_spaces_between_chinese_characters_can_be_taken_out(tmp_path, text, joined):
    assert join_han(text) == joined
    pairs = [([text], "好 的 吧"), *dialogues(30)]
    plain, without = (texts_of(made_of(pairs, tmp_path, neg_source="none", dataset=data(join_han=way)))[0]
                      for way in (False, True))
    assert plain == (text, "好 的 吧")
    assert without == (joined, "好的吧")


def test_lines_of_turns_hold_label_turns_and_response(tmp_path):
    assert douban_line("1\ta\tb c\td", FILE) == {"label": "1", "context": ["a", "b c"], "response": "d"}
    lines = ["\t".join(["1", *context, response]) for context, response in dialogues(30)]
    lines[3:3] = ["0\ta\tb", "1\tonly this", "", "2\ta\tb"]
    path = tmp_path / "train.txt"
    path.write_text("\n".join(lines))
    dataset = data(layout="douban_dialogue", source=path)
    made = ingested(read_rows(dataset), dataset, Ingest(**SETTINGS), 3, tmp_path)
    assert texts_of(made) == [(" [SEP] ".join(context), response) for context, response in dialogues(30)]
    assert made.counts["responses"] == {"right": 30, "wrong": 1}
    assert made.refused[["row", "reason"]].to_numpy().tolist() == [
        [5, "broken line: 2 fields separated by tabs; a label, at least one turn and a response are needed, in line 5"],
        [7, "label: must be 0 or 1, found '2'"]]


def test_lines_with_samples_hold_pairs_and_scores_in_both_directions(tmp_path):
    line = "3 hi there __EOT__ you __SAMP__ c1 __EOC__ r1 __EOD__ c2 __EOC__ r2 __SAMP__ 0.9 0.1 __SAMP__ 0.3 0.4\t ok"
    found = groupwise_line(line, FILE)
    assert [turn.strip() for turn in found["context"]] == ["hi there", "you"]
    assert ([text.strip() for text in found["candidates"]], found["scores"]) == (["r1", "r2"], [0.9, 0.1])
    assert groupwise_line("1 hi\tok", FILE) == {"context": ["hi"], "response": "ok"}
    assert "candidates" not in groupwise_line("1 hi __SAMP__ c __EOC__ r\tok", FILE)
    for broken, message in (("hi\tok", "must be a number, a context, a tab and a response"), ("1 hi", "a tab"),
                            ("1 a __SAMP__ c r __SAMP__ 1\tok", "no __EOC__ between"),
                            ("1 a __SAMP__ c __EOC__ r __SAMP__ x\tok", "the scores must be numbers")):
        with pytest.raises(ValueError, match=message):
            groupwise_line(broken, FILE)
    (tmp_path / "train.txt").write_text(f"{line}\n1 lonely\n")
    dataset = data(layout="groupwise_dialogue", source=tmp_path)
    good, bad = read_rows(dataset)
    assert good.content["scores"] == [0.9, 0.1]
    assert (bad.row, bad.problem) == (2, "broken line: must be a number, a context, a tab and a response, in line 2")


def test_a_context_is_one_component_and_responses_connect_nothing(tmp_path):
    pairs = dialogues(80)
    pairs += [(context, f"another answer {number}") for number, (context, _) in enumerate(pairs[:10])]
    frame = by_key(made_of(pairs, tmp_path))
    assert len(frame) == 90
    assert frame["group"].nunique() == frame["source"].nunique() == 80
    assert frame["target"].nunique() < 90
    assert frame.groupby("source")["split"].nunique().max() == 1
    assert (frame["group"].iloc[:10].to_numpy() == frame["group"].iloc[80:].to_numpy()).all()


SCORED = {"candidates": "samples", "scores": "fit"}


def with_candidates(pairs, lists, split=None, file="s"):
    return [RawRow(file, number, {"context": context, "response": response, "candidates": [text for text, _ in found],
                                  "scores": [score for _, score in found]}, split=split)
            for number, ((context, response), found) in enumerate(zip(pairs, lists, strict=True), start=1)]


def test_scored_negatives_have_the_worst_score_of_the_similar_half(tmp_path):
    pairs = dialogues(30)
    lists = [[("high", 0.9), ("low", 0.1), ("middle", 0.4), ("LOW!", 0.2), ("x", 0.0), ("y", -1.0), ("z", 0.0)]
             for _ in pairs]
    lists[0] = [(pairs[0][1], 0.1), (pairs[0][0][0], 0.2), ("?!", 0.25), ("first", 0.3), ("second", 0.3), ("x", 0),
                ("y", 0), ("z", 0), ("u", 0), ("v", 0)]
    made = made_of([], tmp_path, read=with_candidates(pairs, lists), dataset=data(SCORED), douban_neg="scored")
    frame = by_key(made)
    # Not the response, not the context, not what has no letter; equal scores in the order of the list.
    assert frame["negative"].tolist() == ["first", *["low"] * 29]
    assert set(frame["negative_origin"]) == {"scored"}
    assert made.counts["responses_with_candidates"] == 30


def test_scored_negatives_of_training_are_no_texts_of_what_is_evaluated(tmp_path):
    pairs, tested = dialogues(20), [([f"test context {number}"], f"answer {number}") for number in range(10)]
    candidates = [[("answer 3", 0.1), (pairs[(number + 1) % 20][1] + " more", 0.2), ("a", 1), ("b", 1)]
                  for number in range(20)]
    from_training = [[("tea r1", 0.1), ("answer 3", 0.2), ("a", 1), ("b", 1)] for _ in range(10)]
    read = (with_candidates(pairs, candidates, "train", "a") + with_candidates(tested, from_training, "test", "b"))
    frame = by_key(made_of([], tmp_path, read=read, dataset=data(SCORED), douban_neg="scored"))
    assert "answer3" not in set(frame[frame["split"] == "train"]["negative"])
    assert set(frame[frame["split"] == "test"]["negative"]) == {"tear1"}


def test_training_items_without_a_candidate_are_left_out_and_counted(tmp_path):
    pairs = dialogues(30)
    lists = [[("low", 0.1), ("x", 1.0)] if number % 3 else [] for number in range(30)]
    made = made_of([], tmp_path, read=with_candidates(pairs, lists), dataset=data(SCORED), douban_neg="scored")
    lost, kept = (made.counts[name] for name in ("training_items_left_out_without_a_negative",
                                                 "evaluated_items_without_a_negative"))
    assert lost + kept == 10 and lost > 0
    assert made.counts["responses_with_candidates"] == 20
    assert made.counts["examples"] == {"train": 18 - lost, "validation": 6, "test": 6}
    frame = by_key(made)
    assert (frame["split"][frame["negative"].isna()] != "train").all()
    assert frame["negative_origin"].isna().sum() == frame["negative"].isna().sum() == kept
    # They are no negatives where these are found in another way, and their texts are not written.
    plain = made_of([], tmp_path, read=with_candidates(pairs, lists), dataset=data(SCORED), neg_source="none")
    assert len(plain.examples) == 30
    assert "low" not in set(plain.texts["text"])


def test_labelled_negatives_are_the_wrong_responses_to_the_context(tmp_path):
    pairs = dialogues(40)
    read, wrong = [], {}
    for number, (context, response) in enumerate(pairs):
        found = [f"wrong {number} {place}" for place in range(number % 4)]
        wrong[text_key(" ".join(context))] = {text_key(text) for text in found}
        read += [RawRow("l", 10 * number + place, {"context": context, "response": text, "label": int(not place)})
                 for place, text in enumerate([response, *found])]
    made = made_of([], tmp_path, read=read, dataset=data({"label": "label"}), neg_source="labelled")
    frame = by_key(made)
    assert len(frame) == 30 == made.counts["triples_by_negative_source"]["labelled"]
    for row in frame.itertuples():
        assert row.negative in wrong[row.source.replace("sep", "")]
    # A response is never an input, whatever the rule says of directions.
    assert set(frame["source"]) <= {text_key(" [SEP] ".join(context)) for context, _ in pairs}
    assert set(frame["negative_origin"]) == {"labelled"}


@pytest.mark.parametrize("neg", ["bm25", "random"])
def test_an_evaluated_context_is_one_item_with_all_its_right_responses(tmp_path, neg):
    pairs = dialogues(60)
    evaluated = [(context, f"{response} {more}") for context, response in dialogues(8, seed=5) for more in ("x", "y")]
    read = [*rows(pairs), *rows([(pairs[0][0], "another one")], file="e.jsonl"),
            *rows(evaluated, split="test", file="t.jsonl")]
    made = made_of(None, tmp_path, read=read, douban_neg=neg)
    texts, items = made.texts.set_index("text_id")["text"], made.examples
    tested = items[items["split"] == "test"]
    assert [texts.loc[list(ids)].tolist() for ids in tested["reference_ids"]] == [
        [one[1], other[1]] for one, other in zip(evaluated[::2], evaluated[1::2], strict=True)]
    assert [ids[0] for ids in tested["reference_ids"]] == tested["target_id"].tolist()
    # Of words that several contexts are answered with, the negative is none that answers its own.
    several = [(context, word) for number, (context, _) in enumerate(dialogues(8, seed=5))
               for word in (f"r{number % 3}", f"r{(number + 1) % 3}")]
    answered = made_of(None, tmp_path, read=[*rows(pairs), *rows(several, split="test", file="u")], douban_neg=neg)
    judged = answered.examples[answered.examples["split"] == "test"]
    assert len(judged) == 8 and not any(row.negative_id in row.reference_ids for row in judged.itertuples())
    rest = items[items["split"] != "test"]  # each pair is an item, those of one context too
    assert len(rest) == 61 and rest["reference_ids"].map(len).eq(1).all()
