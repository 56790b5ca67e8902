"""Items and batches of the HCL stages on a handful of rows."""

import numpy as np
import pytest
import tiny_bert
import tiny_items

from stages.tracks.hcl.data import TripleBatches, joined_items, padded, word_pieces


@pytest.fixture
def items():
    return joined_items(**tiny_items.tables())


def test_items_join_texts_and_keywords(items):
    assert items["source"].tolist() == tiny_items.SOURCES
    assert [tiny_items.NODES[i] for i in items["input_node"][:7]] == tiny_items.KEYWORDS[:7]
    assert items.loc[0, "references"] == [tiny_items.TARGETS[0]]


def test_items_list_their_negative_and_batches_read_it(items, tmp_path):
    assert items["negatives"].tolist() == [[text] if text else [] for text in tiny_items.NEGATIVES]
    tokenizer = tiny_bert.tokenizer(tmp_path)
    batches = TripleBatches(items, tokenizer, 8, 8)
    batch, words = batches.batch([0, 5]), tokenizer(tiny_items.NEGATIVES[0])["input_ids"]
    assert batch["neg_ids"][0][batch["neg_mask"][0]].tolist() == words
    assert batch["neg_ids"][1][batch["neg_mask"][1]].tolist() == [words[0], words[-1]]  # there is none
    assert batches.has_negative.tolist() == [text is not None for text in tiny_items.NEGATIVES]


def test_keywords_outside_the_training_graph_have_no_node():
    tables = tiny_items.tables()
    tables["nodes"] = tables["nodes"][tables["nodes"]["keyword"] != "dog"].reset_index(drop=True)
    tables["nodes"]["node_id"] = range(len(tables["nodes"]))
    items = joined_items(**tables)
    assert items.loc[2, "input_node"] == -1
    assert items.loc[5, "negative_node"] == -1
    assert items.loc[0, "input_node"] >= 0


def test_batches_wrap_cut_and_shift(items, tmp_path):
    tokenizer = tiny_bert.tokenizer(tmp_path)
    batches = TripleBatches(items, tokenizer, max_source=4, max_target=3)
    batch = batches.batch([0, 5])
    cls, sep = tokenizer.cls_token_id, tokenizer.sep_token_id
    words = tokenizer(tiny_items.SOURCES[0], add_special_tokens=False)["input_ids"]
    assert batch["x_ids"][0].tolist() == [cls, *words[:4], sep]
    assert batch["y_in"][0, 0] == cls
    assert batch["y_out"][0].tolist() == [*batch["y_in"][0, 1:].tolist(), sep]
    assert batch["y_in_mask"].sum(1).tolist() == (batch["y_out"] != tokenizer.pad_token_id).sum(1).tolist()
    assert batch["has_negative"].tolist() == [True, False]
    assert batch["kneg"].tolist()[1] == -1
    assert batches.mean_target_length == pytest.approx(np.mean([4] * len(items)))


def test_padding_covers_empty_rows():
    ids, mask = padded([[5, 6], []], pad=0)
    assert ids.tolist() == [[5, 6], [0, 0]]
    assert mask.tolist() == [[True, True], [False, False]]


def test_dialogues_keep_the_end_of_what_is_too_long(tmp_path):
    tokenizer = tiny_bert.tokenizer(tmp_path)
    whole = word_pieces(tokenizer, ["the cat sat on the mat", "cat"], 99)
    assert len(whole[0]) > 3
    assert word_pieces(tokenizer, ["the cat sat on the mat", "cat"], 3) == [row[:3] for row in whole]
    assert word_pieces(tokenizer, ["the cat sat on the mat", "cat"], 3, "last") == [row[-3:] for row in whole]


def test_a_text_without_a_keyword_row_is_named():
    tables = tiny_items.tables()
    tables["keywords"] = tables["keywords"].iloc[1:]
    with pytest.raises(ValueError, match="example 0 refers to a text without keyword row"):
        joined_items(**tables)
