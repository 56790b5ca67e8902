"""The control corpus of the graph: training has no keyword that is asked for, and no two triples share a text."""

from tools.graph_control import Corpus


def test_only_the_graph_knows_what_is_asked_for():
    rows = list(Corpus(1, [f"word{n}" for n in range(40)], 30, 10, 10).rows(among=2, validation=2, test=3))
    keyword = {split: {row["source"].split(" the ")[1].split()[0] for row in rows if row["split"] == split}
               for split in ("train", "graph", "validation", "test")}
    asked = keyword["validation"] | keyword["test"]
    assert len(asked) == 5 and asked <= keyword["graph"] and not asked & keyword["train"]
    assert len({text for row in rows for text in (row["source"], row["target"], row["negative"])}) == 3 * len(rows)
