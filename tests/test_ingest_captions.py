"""Captions: one item per group of texts that say the same (PGKPR section 5.1)."""

import pytest
from ingest_rows import by_key, dataset, ingested

from stages.common.schemas import SPLITS
from stages.ingest.params import Ingest
from stages.ingest.rows import RawRow

COLUMNS = {"group": "image", "text": "caption"}
PARAMS = {"neg_source": "none", "validation": 0.1, "test": 0.1}


def captions(groups, split=None, file="c.json"):
    """Rows of (group, text), one group after another."""
    pairs = [(name, text) for name, texts in groups.items() for text in texts]
    return [RawRow(file, number, {"group": name, "text": text}, split=split)
            for number, (name, text) in enumerate(pairs, start=1)]


def images(count=40):
    return {f"image {n}": [f"caption {k} of image {n}" for k in range(2 + n % 4)] for n in range(count)}


def made_of(groups, folder, seed=1, rows=None, **changes):
    data = dataset(layout="captions", columns=COLUMNS)
    return ingested(captions(groups) if rows is None else rows, data, Ingest(**PARAMS | changes), seed, folder)


@pytest.mark.parametrize("source", ["first", "random"])
def test_a_group_is_one_item_and_all_other_captions_are_references(tmp_path, source):
    groups = images()
    made = made_of(groups, tmp_path, caption_source=source)
    keys = made.texts["text"].tolist()
    assert len(made.examples) == 40 == made.counts["groups"]
    chosen = []
    for row, texts in zip(made.examples.itertuples(), groups.values(), strict=True):
        references = [keys[number] for number in row.reference_ids]
        assert references == [text for text in texts if text != keys[row.source_id]]
        assert row.target_id == row.reference_ids[0]
        assert keys[row.source_id] in texts
        chosen.append(texts.index(keys[row.source_id]))
    assert (max(chosen) == 0) == (source == "first")
    assert made.examples["negative_id"].isna().all()
    assert made.counts["triples_by_negative_source"] == {"given": 0, "labelled": 0, "retrieved": 40, "none": 40}


def test_each_caption_can_be_a_source_once(tmp_path):
    groups = images(12)
    made = made_of(groups, tmp_path, caption_source="each")
    texts = made.texts["text"].tolist()
    found = {texts[row.source_id]: (texts[row.target_id], [texts[number] for number in row.reference_ids], row.split)
             for row in made.examples.itertuples()}
    assert len(found) == len(made.examples) == sum(map(len, groups.values()))
    assert made.counts["groups"] == len(groups)
    assert made.counts["triples_by_negative_source"]["none"] == len(found)
    for members in groups.values():
        for place, text in enumerate(members):
            target, references, _ = found[text]
            assert target == members[(place + 1) % len(members)]
            assert references == [target, *(other for other in members if other not in (text, target))]
        assert len({found[text][2] for text in members}) == 1


def test_random_sources_are_drawn_by_seed_and_texts_whatever_the_order(tmp_path):
    groups = images()
    turned = {name: texts[::-1] for name, texts in reversed(groups.items())}
    sources = [set(by_key(made_of(part, tmp_path, seed))["source"])
               for part, seed in ((groups, 1), (turned, 1), (groups, 2))]
    assert sources[0] == sources[1] != sources[2]


def test_groups_of_another_size_than_asked_for_are_set_aside(tmp_path):
    groups = {"few": ["one dog", "two dogs", "Two dogs."], "alone": ["a cat"], **images(40)}
    made = made_of(groups, tmp_path, captions=4, max_rejected=0.0)
    wanted = {name: texts for name, texts in images(40).items() if len(texts) == 4}
    assert len(made.examples) == len(wanted) == 10 == made.counts["groups"]
    assert set(made.texts["text"]) == {text for texts in wanted.values() for text in texts}
    assert {len(ids) for ids in made.examples["reference_ids"]} == {3}
    others = sum(map(len, images(40).values())) - 4 * 10
    assert made.counts["rows"]["not_taken_by_reason"] == {"alone": 1, "duplicate": 1, "group size": 2 + others}
    assert made.counts["rows"]["rejected"] == 0 and made.counts["rows"]["taken"] == 40
    reasons = made.rejected["reason"].tolist()
    assert reasons[:2] == ["group size: its group has more or fewer distinct texts than ingest.captions asks for"] * 2
    assert reasons[2:4] == ["duplicate: of c.json row 2", "alone: its group has no other text"]
    assert len(made_of(groups, tmp_path).examples) == 41


def test_hashed_splits_are_the_same_whatever_the_size_of_groups(tmp_path):
    wide = {f"{one} {group}": [f"all {one}", *(f"{word} {one} {group}" for word in "abcdef"[: 6 if group else 3])]
            for one in range(12) for group in range(5)}  # components that are large unless only groups of four count
    every, some = (by_key(made_of(images(200) | wide, tmp_path, split_by="hashed", captions=captions))
                   .set_index("source")["split"].to_dict() for captions in (None, 4))
    assert len(some) < len(every) and some.items() <= every.items() and set(some.values()) == set(SPLITS)


def test_groups_that_share_a_text_are_one_component(tmp_path):
    groups = images(30)
    groups["image 0"].append("shared")
    groups["image 7"].append("Shared.")
    for way in ("component", "pair"):
        made = made_of(groups, tmp_path, split_by=way, test=0.3, neg_source="retrieved")
        frame = made.examples
        assert frame["group"].iloc[0] == frame["group"].iloc[7]
        assert frame["group"].nunique() == 29
        if way == "component":
            assert frame.groupby("group")["split"].nunique().max() == 1
        # A negative says something else than every reference, and has a home in the item's split.
        for row in frame.itertuples():
            home = frame[frame["split"] == row.split]
            assert row.negative_id in {*home["source_id"], *(n for ids in home["reference_ids"] for n in ids)}
            assert row.negative_id not in {row.source_id, *row.reference_ids}


@pytest.mark.parametrize("way", ["component", "pair"])
def test_published_splits_are_kept(tmp_path, way):
    groups = list(images(40).items())
    rows = captions(dict(groups[:30]), "train", "a.json") + captions(dict(groups[30:]), "test", "b.json")
    # The first image is in both files; the next three share a text with an image of the test file.
    shared = [groups[n][1][0] for n in (1, 2, 3)]
    rows += captions({"image 0": ["as seen in test", "and once more"], "image 31": shared}, "test", "c.json")
    made = made_of({}, tmp_path, rows=rows, split_by=way)
    frame = by_key(made)
    lost = 1 if way == "pair" else 4
    assert made.counts["examples"] == {"train": 30 - lost - 3, "validation": 3, "test": 11}
    refused = made.rejected[["file", "row"]].to_numpy().tolist()
    assert refused[:2] == [["a.json", 1], ["a.json", 2]]
    assert len(refused) == (2 if way == "pair" else 2 + 3 + 4 + 5)
    assert made.counts["leak"]["test"]["items_with_a_leak"] == (0 if way == "component" else 1)
    tested = frame[frame["split"] == "test"]
    assert {"asseenintest", "andoncemore"} <= set(tested["source"]) | set(tested["target"])
