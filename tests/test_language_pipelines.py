"""Loading spaCy pipelines by name, their noun chunks and their description."""

import shutil

import pytest
import spacy
from spacy.tokens import Doc

from keycontrast.errors import InputError
from keycontrast.text.pipelines import (
    EMBEDDED_FOLDER,
    describe_pipeline,
    load_pipeline,
    noun_chunks,
)


@pytest.fixture(scope="module")
def embedded():
    return load_pipeline("embedded")


def tagged(*pairs: str) -> Doc:
    words, pos = zip(*(pair.split("/") for pair in pairs), strict=True)
    return Doc(spacy.blank("en").vocab, words=words, pos=pos)


def chunks(doclike) -> list[tuple[int, int]]:
    return [(start, end) for start, end, _ in noun_chunks(doclike)]


def test_chunks_are_longest_runs_of_nouns():
    doc = tagged("big/ADJ", "red/ADJ", "dog/NOUN", "Rex/PROPN", "is/AUX", "happy/ADJ", "at/ADP", "home/NOUN")
    assert chunks(doc) == [(2, 4), (7, 8)]
    assert {doc.vocab.strings[label] for *_, label in noun_chunks(doc)} == {"NP"}
    assert chunks(doc[4:]) == [(7, 8)]
    assert chunks(tagged("nice/ADJ", "and/CCONJ", "easy/ADJ")) == []
    assert chunks(Doc(doc.vocab)) == []


def test_embedded_pipeline_chunks_and_serves_pytextrank(embedded):
    import pytextrank  # noqa: F401 - importing it registers the component

    doc = embedded("The old steam engine pulled the heavy train over the hills.")
    assert [chunk.text for chunk in doc.noun_chunks] == ["steam engine", "train", "hills"]
    nlp = load_pipeline("embedded")
    nlp.add_pipe("textrank")
    phrases = [phrase.text for phrase in nlp(doc.text)._.phrases]
    assert sorted(phrases) == ["hills", "steam engine", "train"]


def test_a_folder_and_its_copy_have_one_description(tmp_path, embedded):
    shutil.copytree(EMBEDDED_FOLDER, tmp_path / "copy of it")
    copy = load_pipeline(str(tmp_path / "copy of it"))
    description = describe_pipeline(copy)
    assert description == describe_pipeline(embedded)
    assert description["name"] == "en_ewt"
    assert description["language"] == "en"
    assert "lemmatizer" in description["components"]
    assert len(description["sha256"]) == 64


def test_a_folder_is_named_with_a_slash(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    with pytest.raises(InputError, match=r"'mine' is a folder; write \./mine, and DVC watches"):
        load_pipeline("mine")


def test_pipeline_without_lemmas_is_refused(tmp_path):
    spacy.blank("en").to_disk(tmp_path / "blank")
    with pytest.raises(InputError, match="no parts of speech and no lemmas .*components: none"):
        load_pipeline(str(tmp_path / "blank"))
