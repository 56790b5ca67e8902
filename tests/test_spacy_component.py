"""The components for spaCy against pytextrank's own, document by document."""

import json

import pytest
from source_imports import ROOT
from spacy.tokens import Span

from keycontrast.text.pipelines import load_pipeline

NAMES = ["textrank", "positionrank"]
EDGES = ["", "Is it?", "linear constraints over the", "Dogs chase dogs. The dog's dog.", "Rock'n'roll, rock 'n' roll.",
         "Google bought a company. Google's company bought Google, and a search engine of Google."]


@pytest.fixture(scope="module")
def documents():
    nlp = load_pipeline("embedded")
    ruler = nlp.add_pipe("entity_ruler")
    ruler.add_patterns([{"label": "ORG", "pattern": "Google"}, {"label": "THING", "pattern": "search engine"},
                        {"label": "VERB", "pattern": "bought"}])
    lines = (ROOT / "data" / "sample" / "paraphrase.jsonl").read_text(encoding="utf-8").splitlines()
    texts = [json.loads(line)["source"] for line in lines[:120]]
    return list(nlp.pipe([*EDGES, *texts, *(" ".join(texts[at:at + 40]) for at in (0, 40, 80))]))


def both(name, nlp=None, **settings):
    nlp = nlp or load_pipeline("embedded")
    return (nlp.create_pipe(f"keycontrast_{name}", config=settings), nlp.create_pipe(name, config=settings))


def described(phrases):
    return sorted((phrase.text, phrase.count, [(span.start, span.end, span.label_) for span in phrase.chunks])
                  for phrase in phrases)


def assert_same(ours, theirs):
    assert described(ours) == described(theirs)
    rank = {phrase.text: phrase.rank for phrase in theirs}
    assert all(phrase.rank == pytest.approx(rank[phrase.text], abs=1e-12) for phrase in ours)
    # Where ranks differ, so does the order of neither.
    assert [round(phrase.rank, 9) for phrase in ours] == [round(phrase.rank, 9) for phrase in theirs]


@pytest.mark.parametrize("settings", [{}, {"pos_kept": ["NOUN", "PROPN"]}, {"token_lookback": 1},
                                      {"stopwords": {"dog": ["NOUN"], "people": ["NOUN"]}}])
@pytest.mark.parametrize("name", NAMES)
def test_phrases_and_ranks_are_the_packages(documents, name, settings):
    ours, theirs = both(name, **settings)
    found = 0
    for doc in documents:
        mine = ours(doc)._.phrases
        assert_same(mine, theirs(doc)._.phrases)
        found += len(mine)
    assert found > 300


def test_what_is_made_of_phrases_is_the_packages(documents, tmp_path):
    ours, theirs = both("textrank")
    for doc in (documents[-1], documents[3]):
        mine = ours(doc)._.textrank
        kept = ([str(one) for one in mine.summary(limit_phrases=10, limit_sentences=2)], set(mine.lemma_graph.edges),
                {lemma: round(rank, 12) for lemma, rank in mine.ranks.items()}, dict(mine.seen_lemma))
        mine.write_dot(path=str(tmp_path / "graph.dot"))
        other = theirs(doc)._.textrank
        assert kept == ([str(one) for one in other.summary(limit_phrases=10, limit_sentences=2)],
                        set(other.lemma_graph.edges), {lemma: round(rank, 12) for lemma, rank in other.ranks.items()},
                        dict(other.seen_lemma))
    assert (tmp_path / "graph.dot").read_text(encoding="utf-8").startswith("graph {")


def test_it_is_added_to_a_pipeline_by_its_name_alone():
    nlp = load_pipeline("embedded")
    nlp.add_pipe("keycontrast_textrank", config={"token_lookback": 2})
    one, two = nlp.pipe(["A dog chases a red ball.", ""])
    assert [phrase.text for phrase in one._.phrases] == ["ball", "dog"] and two._.phrases == []
    assert one._.textrank.elapsed_time > 0


def test_a_language_without_noun_chunks_has_entities():
    nlp = load_pipeline("embedded")
    ours, theirs = both("textrank", nlp)

    def none(doc):
        raise NotImplementedError

    nlp.vocab.get_noun_chunks = none
    doc = nlp("Google bought a company.")
    doc.set_ents([Span(doc, 0, 1, "ORG")])
    assert_same(ours(doc)._.phrases, theirs(doc)._.phrases)
    assert [phrase.text for phrase in doc._.phrases] == ["Google"]
