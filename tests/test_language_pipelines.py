"""Loading spaCy pipelines by name, their noun chunks and their description."""

import shutil

import pytest
import spacy
from spacy.tokens import Doc

from keycontrast.text.annotate import SpacyAnnotator
from keycontrast.text.pipelines import EMBEDDED_FOLDER, load_pipeline, noun_chunks


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


def test_a_folder_and_its_copy_have_one_description(tmp_path, embedded):
    shutil.copytree(EMBEDDED_FOLDER, tmp_path / "copy of it")
    copy = load_pipeline(str(tmp_path / "copy of it"))
    description = SpacyAnnotator(copy).describe()
    assert description == SpacyAnnotator(embedded).describe()
    assert (description["name"], description["language"], len(description["sha256"])) == ("en_ewt", "en", 64)
