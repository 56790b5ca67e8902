"""Tables of a tiny HCL data set over the vocabulary of ``tiny_bert``."""

import pandas as pd

SOURCES = ["what is the best way to learn a language", "how do i find a good school", "can you tell me about the dog",
           "why do you run fast", "who can play with the cat", "where can i eat good food", "how do you learn fast",
           "what is a good way to run", "tell me how to find the dog", "is the school good"]
TARGETS = ["how do i learn a language", "what is a good school", "tell me about a dog", "why run fast",
           "who can play cat", "where is good food", "how can you learn", "how do i run", "where is the dog",
           "what is the best school"]
NEGATIVES = ["what is the best school", "how do i find a dog", "can you tell me about school", "why do you eat fast",
             "who can play with the dog", None, "how do you play fast", "what is a good way to eat",
             "tell me how to find the cat", "is the dog good"]
KEYWORDS = ["language", "school", "dog", "run", "cat", "food", "learn", "run", "dog", "school"]
OTHER = ["school", "dog", "school", "eat", "dog", None, "play", "eat", "cat", "dog"]
SPLITS = ["train"] * 7 + ["validation", "test", "test"]
NODES = sorted({word for words in (KEYWORDS[:7], OTHER[:7]) for word in words if word})


def tables():
    """Tables examples, texts, keywords and nodes; node vectors and edges are the test's own."""
    texts, words, rows = [], [], []

    def add(text, keyword):
        texts.append(text)
        words.append(keyword)
        return len(texts) - 1

    for number, (source, target, negative) in enumerate(zip(SOURCES, TARGETS, NEGATIVES, strict=True)):
        ids = [add(source, KEYWORDS[number]), add(target, KEYWORDS[number]),
               None if negative is None else add(negative, OTHER[number])]
        rows.append((number, SPLITS[number], *ids, [ids[1]]))
    examples = pd.DataFrame(rows, columns=["example_id", "split", "source_id", "target_id", "negative_id",
                                           "reference_ids"])
    examples["negative_id"] = examples["negative_id"].astype("Int64")
    return {"examples": examples,
            "texts": pd.DataFrame({"text_id": range(len(texts)), "text": texts, "language": "en"}),
            "keywords": pd.DataFrame({"text_id": range(len(texts)), "keyword": words}),
            "nodes": pd.DataFrame({"node_id": range(len(NODES)), "keyword": NODES})}
