"""Word vectors: files in their layouts, with their flaws; training on the training split alone; the stage."""

import gzip
import json
from importlib.metadata import version

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import yaml
from ingest_rows import token_rows

from keycontrast.errors import InputError
from keycontrast.files import sha256_of
from pipeline.schemas import SCHEMAS
from stages.common.paths import DatasetPaths
from stages.common.tables import Provenance, read_frame, read_metadata, write_table
from stages.common.word_vectors import isotropic_vectors, read_vectors
from stages.psi import word_vectors
from stages.psi.params import WordVectors

BODY = "the 0.5 -1 2e-1\nNASA 1 2 3\ncat 4 5 6\nnasa 7 8 9\ncat 0 0 0\n. . . -1 -2 -3\n\u0085 1 1 1\nzebra 3 2 1\n"
WANTED = ["the", "cat", "nasa", "NASA", ". . .", "\u0085", "absent"]
EXPECTED = {"the": [0.5, -1, 0.2], "NASA": [1, 2, 3], "cat": [4, 5, 6], "nasa": [7, 8, 9], ". . .": [-1, -2, -3],
            "\u0085": [1, 1, 1]}


def save(folder, content, name="vectors.txt", packed=False):
    path, data = folder / name, content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if packed else data)
    return path


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gz"])
@pytest.mark.parametrize(("name", "content"), [
    ("word2vec", "8 3\n" + BODY), ("glove", BODY), ("fasttext", "8 3\n" + BODY.replace("\n", " \n")),
    ("windows", "8 3\r\n" + BODY.replace("\n", "\r\n"))])
def test_layouts_are_told_apart_by_their_first_line(tmp_path, name, content, packed):
    found = read_vectors(save(tmp_path, content, packed=packed), WANTED)
    assert {word: pytest.approx(vector.tolist()) for word, vector in zip(found.words, found.vectors, strict=True)} == (
        EXPECTED)
    assert found.vectors.dtype == np.float32 and found.words == list(EXPECTED)
    assert (found.lines, found.duplicates) == (8, 1)  # the second cat
    assert found.layout == ("no header" if name == "glove" else "header")


@pytest.mark.parametrize(("content", "message"), [
    ("", "vectors.txt: the file is empty"),
    ("cat 1\ndog 2\n", "line 1: neither a header 'COUNT WIDTH' nor a word with two or more numbers"),
    ("cat 1 2 3\ndog 1 2\n", "line 2: 2 numbers after the word, where line 1 makes it 3"),
    ("cat 1 2 3\ndog 1 nan 3\n", "line 2: 'nan' in the vector of 'dog' is not a finite number"),
    ("3 3\ncat 1 2 3\ndog 1 2 3\n", "line 1: the header says 3 words, the file has 2"),
    (b"2 3\ncat \x00\x00\x80?\x00\x00\x00@\n", "line 2: binary data. Give word vectors as text"),
])
def test_flaws_are_named_with_their_line(tmp_path, content, message):
    with pytest.raises(InputError, match=message):
        read_vectors(save(tmp_path, content), ["cat", "dog"])


def test_isotropic_vectors_are_centred_and_of_length_one():
    vectors = np.random.default_rng(0).normal(3, 1, size=(40, 6)).astype(np.float32)
    made = isotropic_vectors(vectors)
    for row, vector in enumerate(vectors):
        centred = [float(x) - sum(float(v[d]) for v in vectors) / 40 for d, x in enumerate(vector)]
        length = sum(x * x for x in centred) ** 0.5
        assert made[row].tolist() == pytest.approx([x / length for x in centred], abs=1e-6)
    assert isotropic_vectors(vectors[:1]).tolist() == [[0.0] * 6]


TRAIN = [["How", "do", "I", "learn", "French", "?"], ["What", "is", "the", "best", "way", "to", "learn", "french", "?"],
         ["Where", "do", "I", "learn", "  ", "chess", "?"]]
TEXTS = [*TRAIN, ["the", "Louvre", "is", "best"], ["unseen", "words"], ["French", "?"]]


def examples():
    return pd.DataFrame({
        "example_id": range(3), "split": ["train", "validation", "test"], "source_id": [0, 3, 5],
        "target_id": [1, 4, 5], "negative_id": [2, None, None], "reference_ids": [[1], [4], [5]], "group": range(3),
        "negative_origin": ["given", None, None]})


def tokens(texts=TEXTS):
    table = pa.table({"text_id": range(len(texts)), "token": texts})
    return (table.slice(start, 2) for start in range(0, table.num_rows, 2))


def test_training_sees_the_training_texts_alone():
    params = WordVectors(size=6, epochs=3)
    columns, description, metrics = word_vectors.run(tokens(), examples(), params, 13)
    lower = sorted({word.lower() for row in TRAIN for word in row} - {"  "})
    assert columns["word"] == lower
    counts = {word: sum(row_word.lower() == word for row in TRAIN for row_word in row) for word in lower}
    assert columns["count"].tolist() == [counts[word] for word in lower]
    other = [*TRAIN, ["other"] * 9, ["texts"], ["altogether", "?"]]
    again, *_ = word_vectors.run(tokens(other), examples(), params, 13)
    assert np.array_equal(again["vector"], columns["vector"])
    changed, *_ = word_vectors.run(tokens(), examples(), params, 14)
    assert not np.array_equal(changed["vector"], columns["vector"])


def test_trained_vectors_say_so_and_how_much_they_cover():
    columns, description, metrics = word_vectors.run(tokens(), examples(), WordVectors(size=6, epochs=1), 13)
    assert description == {"origin": "trained on the training split", "algorithm": "word2vec, skip-gram with 5 "
                                "negative samples", "gensim": version("gensim"), "size": 6, "window": 5,
                                "min_count": 1, "epochs": 1, "isotropic": True}
    assert metrics["origin"] == "trained on the training split"
    # white space is no word, "Louvre", "unseen" and "words" were not seen
    assert metrics["coverage"] == {
        "train": {"tokens": pytest.approx(21 / 22, abs=1e-6), "distinct_tokens": pytest.approx(15 / 16, abs=1e-6)},
        "validation": {"tokens": 0.5, "distinct_tokens": 0.5}, "test": {"tokens": 1.0, "distinct_tokens": 1.0}}
    with pytest.raises(InputError, match=r"no word occurs 50 times. Lower word_vectors.min_count \(now 50\)"):
        word_vectors.run(tokens(), examples(), WordVectors(min_count=50), 13)


def test_from_a_file_a_token_has_its_lower_case_form_or_else_its_own(tmp_path):
    path = save(tmp_path, "8 2\nfrench 1 2\nFrench 3 4\nHow 5 6\nthe 7 8\nlouvre 1 1\nzebra 0 0\n? 2 2\nthe 9 9\n")
    columns, description, metrics = word_vectors.run(tokens(), examples(), read_from(path), 13)
    vectors = dict(zip(columns["word"], columns["vector"], strict=True))
    # "French" is found as "french"; "How", which the file has not in lower case, as written
    assert {word: vector.tolist() for word, vector in vectors.items()} == {
        "french": [1, 2], "How": [5, 6], "the": [7, 8], "louvre": [1, 1], "?": [2, 2]}
    assert dict(zip(columns["word"], columns["count"].tolist(), strict=True)) == {
        "french": 2, "How": 1, "the": 1, "louvre": 0, "?": 3}
    assert description == {"origin": "file vectors.txt", "sha256": sha256_of(path), "layout": "header",
                                "words_in_file": 8, "size": 2}
    assert metrics["duplicates"] == 1 and metrics["coverage"]["test"]["tokens"] == 1.0
    with pytest.raises(InputError, match="vectors.txt has a vector for none of the data set's"):
        word_vectors.run(tokens([["xx"]] * 6), examples(), read_from(path), 13)


def read_from(path):
    """The block as a stage has it, which reads the file at ``path``."""
    return WordVectors(source="path", path=str(path)).model_copy(update={"source": f"path:{path}"})


def test_stage_reads_a_file_and_says_where_the_vectors_come_from(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    project = DatasetPaths("tiny")
    write_table(project.table("tokens"), SCHEMAS["tokens"], token_rows(range(len(TEXTS)), TEXTS),
                Provenance("test", "0"))
    write_table(project.table("examples"), SCHEMAS["examples"], examples(), Provenance("test", "0"))
    (tmp_path / "params.yaml").write_text(yaml.safe_dump({
        "recipe": "test", "datasets": {"tiny": {"source": "x"}},
        "word_vectors": {"size": 8, "source": "path", "path": "vectors.txt.gz"}}))
    assert word_vectors.main(["tiny"]) == 1
    assert "word_vectors.source: vectors.txt.gz: no such file" in capsys.readouterr().err
    save(tmp_path, "the 1 2\n? 3 4\n", "vectors.txt.gz", packed=True)
    assert word_vectors.main(["tiny"]) == 0
    assert read_frame(project.table("word_vectors"))["word"].tolist() == ["?", "the"]
    description = read_metadata(project.table("word_vectors"))["models"]["word_vectors"]
    assert description["origin"] == "file vectors.txt.gz" and len(description["sha256"]) == 64
    metrics = json.loads(project.metrics("word_vectors").read_text())
    assert metrics["words"] == 2 and metrics["origin"] == "file vectors.txt.gz" and metrics["size"] == 2
