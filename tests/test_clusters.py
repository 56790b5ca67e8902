"""The clusters stage on three rows in memory."""

import pandas as pd

from stages.artifacts.schemas import NO_KEYWORD
from stages.artifacts.tables import as_table
from stages.clusters import run


def test_training_examples_are_grouped_by_input_keyword():
    examples = pd.DataFrame({"example_id": [0, 1, 2, 3], "split": ["train", "train", "test", "train"],
                             "source_id": [0, 1, 0, 4], "target_id": [1, 2, 2, 1],
                             "negative_id": pd.array([2, None, 3, 3], dtype="Int64")})
    keywords = pd.DataFrame({"text_id": [0, 1, 2, 3, 4], "keyword": ["dough", "oven", "yeast", "salt", NO_KEYWORD]})
    clusters = as_table("clusters", run(examples, keywords)).to_pylist()
    assert clusters == [
        {"keyword": "dough", "example_id": 0, "output_keyword": "oven", "negative_keyword": "yeast"},
        {"keyword": "oven", "example_id": 1, "output_keyword": "yeast", "negative_keyword": None},
    ]
