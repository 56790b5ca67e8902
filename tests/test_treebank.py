"""The embedded English pipeline: its treebank reader, its recipe in miniature, and the shipped folder."""

import hashlib
import re
from itertools import pairwise

import pytest
import spacy
from spacy.tokens import Doc
from spacy.util import load_config

from keycontrast.text.pipelines import EMBEDDED_FOLDER, hash_folder
from tools.english_pipeline import train as training
from tools.english_pipeline.corpus import POS_OF_TAG, Sentence, build_doc, parse_treebank, read_tagged
from tools.english_pipeline.lemmas import apply_rules, learn_lemma_tables

# "form lemma UPOS tag", a blank after each word unless its tag ends in "_"; "+" joins the next word into a
# fused token. Written for these tests.
SENTENCES = """
The the DET DT|kettle kettle NOUN NN|sings sing VERB VBZ_|. . PUNCT .
I I PRON PRP|+do do AUX VBP|n't not PART RB|like like VERB VB|cold cold ADJ JJ|tea tea NOUN NN_|. . PUNCT .
Two two NUM CD|birds bird NOUN NNS|built build VERB VBD|nests nest NOUN NNS_|. . PUNCT .
Rain rain NOUN NN|falls fall VERB VBZ|slowly slowly ADV RB_|. . PUNCT .
Maria Maria PROPN NNP|closed close VERB VBD|old old ADJ JJ|windows window NOUN NNS_|. . PUNCT .
We we PRON PRP|are be AUX VBP|walking walk VERB VBG|home home ADV RB_|. . PUNCT .
Who who PRON WP|painted paint VERB VBD|the the DET DT|green green ADJ JJ|door door NOUN NN_|? ? PUNCT .
She she PRON PRP|+ca can AUX MD|n't not PART RB|find find VERB VB|her her PRON PRP$|keys key NOUN NNS_|. . PUNCT .
Some some DET DT|trains train NOUN NNS|arrive arrive VERB VBP|late late ADV RB_|. . PUNCT .
Peter Peter PROPN NNP|and and CCONJ CC|Maria Maria PROPN NNP|danced dance VERB VBD_|. . PUNCT .
Snow snow NOUN NN|covered cover VERB VBD|the the DET DT|quiet quiet ADJ JJ|village village NOUN NN_|. . PUNCT .
Please please INTJ UH|water water VERB VB|these these DET DT|plants plant NOUN NNS_|! ! PUNCT .
"""
FORM, LEMMA, POS, TAG = range(4)
def conllu() -> str:
    """Return the sentences above as CoNLL-U: documents of four, paragraphs of two."""
    blocks = []
    for index, line in enumerate(SENTENCES.strip().splitlines()):
        rows = [f"# newdoc id = d{index // 4}"] if index % 4 == 0 else []
        rows += [f"# newpar id = p{index // 2}"] if index % 2 == 0 else []
        words = [cell.split() for cell in line.split("|")]
        for number, (word, following) in enumerate(pairwise([*words, None]), start=1):
            misc = "SpaceAfter=No" if word[TAG].endswith("_") else "_"
            if word[FORM].startswith("+"):
                fused = word[FORM][1:] + following[FORM]
                rows.append("\t".join([f"{number}-{number + 1}", fused, *"_" * 8]))
            form, tag = word[FORM].removeprefix("+"), word[TAG].rstrip("_")
            rows.append("\t".join(map(str, [number, form, word[LEMMA], word[POS], tag, "_", 0, "_", "_", misc])))
        blocks.append("\n".join(rows) + "\n")
    return "\n".join(blocks) + "\n"


@pytest.fixture(scope="module")
def sentences() -> list[Sentence]:
    return list(parse_treebank(conllu().splitlines(), "here"))


@pytest.fixture(scope="module")
def tiny_recipe():
    narrow = {"width": 16, "rows": [200, 50, 100, 50, 10]}
    changes = {f"components.tok2vec.model.embed.{name}": value for name, value in narrow.items()}
    changes |= {"components.tok2vec.model.encode.width": 16, "components.tok2vec.model.encode.depth": 1}
    return load_config(training.RECIPE, overrides=changes)


def test_lemmas_of_seen_and_unseen_words(sentences):
    tables = learn_lemma_tables(sentences)
    rules = tables.get_table("lemma_rules")["verb"]
    assert apply_rules(rules, "cooked") == "cook"  # from "walked", which is nowhere in the sentences
    nlp = spacy.blank("en")
    nlp.add_pipe("lemmatizer", config={"mode": "rule"}).initialize(lookups=tables)
    words, pos = ["Maria", "Built", "nests", "!!!"], ["PROPN", "VERB", "NOUN", "PUNCT"]
    doc = nlp(Doc(nlp.vocab, words=words, pos=pos))
    assert [token.lemma_ for token in doc] == ["Maria", "build", "nest", "!!!"]


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


def test_two_steps_train_the_same_bytes_twice(tiny_recipe, sentences):
    first, second = (training.train_pipeline(tiny_recipe, sentences, [], max_steps=2) for _ in range(2))
    assert first.to_bytes() == second.to_bytes()
    other = tiny_recipe.copy()
    other["system"]["seed"] = 1
    assert training.train_pipeline(other, sentences, [], max_steps=2).to_bytes() != first.to_bytes()
    assert "kettle" not in first.vocab.strings


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
