"""The embedded English pipeline: the questions that it was also trained on, and the shipped folder."""

import hashlib
import re

import spacy

from keycontrast.text.pipelines import EMBEDDED_FOLDER, hash_folder
from tools.english_pipeline import train as training
from tools.english_pipeline.corpus import POS_OF_TAG, build_doc, read_tagged


def test_shipped_questions_are_distinct_and_in_tokens_of_the_pipeline():
    questions = read_tagged(training.TAGGED)
    nlp = spacy.load(EMBEDDED_FOLDER)
    docs = [build_doc(nlp.vocab, [sentence]) for sentence in questions]
    assert len({doc.text for doc in docs}) == len(docs)
    # Else they would teach what the pipeline never sees.
    assert [doc.text for doc in docs if [token.text for token in nlp.make_doc(doc.text)] != [w.text for w in doc]] == []
    # A label that the treebank lacks would be one more class.
    assert {word.tag for one in questions for word in one.words} <= set(nlp.get_pipe("tagger").labels)
    assert set(POS_OF_TAG) <= set(nlp.get_pipe("tagger").labels)


def test_shipped_pipeline_reads_english():
    nlp = spacy.load(EMBEDDED_FOLDER)
    doc = nlp("The children didn't see three small dogs. Where were they running?")
    assert [token.tag_ for token in doc][:9] == ["DT", "NNS", "VBD", "RB", "VB", "CD", "JJ", "NNS", "."]
    assert [token.pos_ for token in doc][:5] == ["DET", "NOUN", "AUX", "PART", "VERB"]
    assert " ".join(token.lemma_ for token in doc) == "the child do not see three small dog . where be they run ?"
    assert [sentence.start for sentence in doc.sents] == [0, 9]
    assert [token.pos_ for token in nlp("one \n two") if token.is_space] == ["SPACE"]


def test_card_names_the_shipped_bytes():
    card = (EMBEDDED_FOLDER.parent / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w/.-]+)` \| ([\d,]+) \| `([0-9a-f]{64})` \|$", card, flags=re.MULTILINE)
    assert "tok2vec/model" in dict(row[:2] for row in rows)
    for name, size, digest in rows:
        content = (EMBEDDED_FOLDER / name).read_bytes()
        assert (f"{len(content):,}", hashlib.sha256(content).hexdigest()) == (size, digest), name
    assert hash_folder(EMBEDDED_FOLDER) in card
