"""Options that users of KeyBERT and pytextrank look for: ids, words, vocabularies, encoders, pipelines, comparisons."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
import pytextrank
import spacy
from ranking_tables import by_chance
from tiny_project import save_encoder

from keycontrast import InputError, Keywords, keyword_graph, load_pipeline
from keycontrast.ranking import Settings
from keycontrast.ranking.embedrank import EmbedRanking
from keycontrast.ranking.package import docs
from keycontrast.ranking.ranker import ranker
from keycontrast.text.normal_form import normal_form

TEXTS = ["Black money in New York helps nobody.", "The distributed system keeps a copy of each file.", "",
         "A dog chases a red ball in New York."]


class Letters:
    """An encoder that anybody could write: how often a text has each letter."""

    def encode(self, texts):
        assert isinstance(texts, list)
        return [[text.lower().count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts]


def keywords(texts=TEXTS, method="tfidf", **options):
    return [[phrase.keyword for phrase in phrases] for phrases in Keywords(method, **options).rank(texts)]


@pytest.mark.parametrize(("index", "ids"), [
    (list("abcd"), ["a", "b", "d"]), ([7, 5, 6, 4], [7, 5, 4]), (["a", 2, None, 3.5], ["a", "2", "3.5"]),
    (pd.RangeIndex(4, 8), [4, 5, 7]), (pd.date_range("2024-01-01", periods=4), None), (pd.RangeIndex(4), [])])
def test_the_index_of_a_series_is_the_id(index, ids):
    found = Keywords().rank(pd.Series(TEXTS, index=index), top=1).to_pandas()
    assert found["row"].tolist() == [0, 1, 3] and list(found.columns[:2]) == ["row", "rank" if ids == [] else "id"]
    assert ids == [] or found["id"].tolist() == (ids or [index[0], index[1], index[3]])
    with pytest.raises(InputError, match="the index has several levels"):
        Keywords().rank(pd.Series(["a"], index=pd.MultiIndex.from_tuples([(1, 2)])))


def test_methods_side_by_side_read_the_texts_once(monkeypatch):
    ranking, read = Keywords(stop_words=["red"]), []
    parts = Keywords._parts
    monkeypatch.setattr(Keywords, "_parts", lambda self, *given: read.append(1) or parts(self, *given))
    found = ranking.compare(["tfidf", "pytextrank", "yake"], pd.Series(TEXTS, index=list("abcd")), top=2)
    assert len(read) == 1
    assert found.table.column_names == ["row", "id", "rank", "tfidf", "pytextrank", "yake"]
    assert repr(found) == "<keywords of 4 texts by tfidf, pytextrank, yake>" and len(found.to_pandas()) == 6
    for method, phrases in found.phrases.items():
        alone = Keywords(method, stop_words=["red"]).rank(TEXTS, top=2)
        assert phrases.table.drop_columns("id").equals(alone.table)
        cells = zip(found.table["row"].to_pylist(), found.table["rank"].to_pylist(), found.table[method].to_pylist(),
                    strict=True)
        assert [cell for cell in cells if cell[2] is not None] == list(zip(
            *(alone.table[name].to_pylist() for name in ("row", "rank", "keyword")), strict=True))
    with pytest.raises(InputError, match="leave out fit"):
        Keywords(min_count=2).fit(TEXTS).compare(["tfidf"], TEXTS)


@pytest.mark.parametrize("method", Keywords.methods)
def test_no_phrase_has_a_stop_word(method):
    plain, without = (keywords(method=method, stop_words=words) for words in ((), ["RED", "black", "copy of each"]))
    assert any("red" in phrase.split() for phrases in plain for phrase in phrases)
    assert not any({"red", "black"} & set(phrase.split()) or phrase == "copy of each"
                   for phrases in without for phrase in phrases)
    assert without[0] and without[3]
    fitted = Keywords(method, stop_words=["red", "black"]).fit(TEXTS)
    assert list(fitted.stream(TEXTS)) == list(Keywords(method, stop_words=["red", "black"]).rank(TEXTS))


@pytest.mark.parametrize("method", ["tfidf", "pytextrank", "positionrank", "embedrank"])
def test_a_vocabulary_takes_the_place_of_noun_chunks(method):
    found = Keywords(method, candidates=["New York", "york", "A copy  of", "nothing of it"], stop_words=["red"])
    phrases = found.rank(TEXTS)
    assert [sorted(phrase.keyword for phrase in one) for one in phrases] == [
        ["new york", "york"], ["a copy of"], [], ["new york", "york"]]
    assert all(text[phrase.start:phrase.end] == phrase.text for text, one in zip(TEXTS, phrases, strict=True)
               for phrase in one)


def test_what_a_vocabulary_finds_has_no_white_space_at_its_edges():
    for text in ("Intro text.\n\nRed ball here, a  red ball.", "The 'red ball' is here."):
        (found,) = Keywords(candidates=["red ball"]).rank(text)[0]
        assert found.text.lower() == text[found.start:found.end].lower() == "red ball"
    assert [one.text for one in Keywords(candidates=["C++"]).rank("I like C++ and C.")[0]] == ["C++"]
    assert [one.keyword for one in Keywords(candidates=["c", "dogs\u2019 fur"]).rank("A dogs\u2019 fur, a C.")[0]] == [
        "dogs fur", "c"]
    assert keywords(["She'll come; we're here."], candidates=["shell", "were"]) == [[]]


def test_a_focus_is_that_of_the_package():
    tokens = by_chance(3, texts=40)
    ours = ranker(Settings(compat="pytextrank", focus="graph word"), 100)(tokens).table.to_pylist()
    compared = 0
    for text, doc in docs(tokens):
        if any(token.lemma_ in ("graph", "word") and token.pos_ in ("NOUN", "PROPN") for token in doc):
            pytextrank.BiasedTextRankFactory()(doc)._.textrank.change_focus("graph word", 1.0, 0.0)
            theirs = {}
            for phrase in doc._.phrases:
                theirs.setdefault(normal_form(phrase.text), phrase.rank)
            mine = {}
            for row in ours:
                if row["text_id"] == text and row["rank"]:
                    mine.setdefault(row["keyword"], row["score"])
            assert mine == {form: pytest.approx(score, abs=1e-6) for form, score in theirs.items() if form}
            compared += 1
    assert compared > 10


def test_a_seed_is_a_quarter_of_what_a_text_means():
    words = Keywords("pytextrank", seed_words=["red-ball"]), Keywords("pytextrank", seed_words=["red", "ball"])
    assert words[0].rank(TEXTS).table.equals(words[1].rank(TEXTS).table)
    assert not words[0].rank(TEXTS).table.equals(Keywords("pytextrank").rank(TEXTS).table)
    unit = [vector / np.linalg.norm(vector) for vector in map(np.array, Letters().encode([TEXTS[3], "ball", "dog"]))]
    meant = 3 * unit[0] + (unit[1] + unit[2]) / 2
    plain = Keywords("embedrank", encoder=Letters()).rank(TEXTS[3])[0]
    drawn = Keywords("embedrank", encoder=Letters(), seed_words=["ball", "dog"]).rank(TEXTS[3])[0]
    by_keyword = {phrase.keyword: phrase.score for phrase in plain}
    for phrase in drawn:
        vector = EmbedRanking(Letters()).vectors([phrase.keyword])[0]
        ratio = (vector @ meant / np.linalg.norm(meant)) / (vector @ unit[0])
        assert phrase.score / by_keyword[phrase.keyword] == pytest.approx(ratio, rel=1e-3)


def test_encoders_of_every_kind(tmp_path):
    save_encoder(tmp_path / "encoder", ["black", "money", "new", "york", "dog", "red", "ball"])
    named = [Keywords("embedrank", encoder=name).rank(TEXTS).table for name in (
        tmp_path / "encoder", str(tmp_path / "encoder"), f"path:{tmp_path / 'encoder'}")]
    assert named[0].equals(named[1]) and named[0].equals(named[2])
    bundled = Keywords("embedrank").rank(TEXTS).table
    assert Keywords("embedrank", encoder="all-MiniLM-L6-v2").rank(TEXTS).table.equals(bundled)
    assert not named[0].equals(bundled)
    own = Keywords("embedrank", encoder=Letters(), diversity=0.5)
    with ThreadPoolExecutor(4) as pool:
        assert len({str(table.to_pylist()) for table in pool.map(lambda _: own.rank(TEXTS).table, range(20))}) == 1
    assert keywords(TEXTS[0], "embedrank", encoder=Letters()) == [["black money", "new york"]]
    unused = Keywords(encoder=Letters())
    for use in (unused.rank, unused.fit, lambda texts: keyword_graph(texts, keywords=unused)):
        with pytest.raises(InputError, match="it is of embedrank, not of tfidf"):
            use(TEXTS)


def test_any_pipeline_reads_texts_and_stays_as_it_is(tmp_path):
    expected, nlp = Keywords().rank(TEXTS).table, load_pipeline()
    tokenizer, before = nlp.tokenizer, nlp("Dogs bark.")
    assert Keywords(pipeline=nlp).rank(TEXTS).table.equals(expected)
    assert nlp.tokenizer is tokenizer and before[0].lemma_ == "dog"
    nlp.to_disk(tmp_path / "own")
    assert Keywords(pipeline=tmp_path / "own").rank(TEXTS).table.equals(expected)
    german = spacy.blank("de")
    assert keywords(["Der rote Ball liegt im Garten."], "yake", pipeline=german)[0][0] == "rote ball liegt"
    assert keywords([german("Der rote Ball.")], "yake", pipeline=german) == [["rote ball", "ball", "rote"]]
    with pytest.raises(InputError, match="'de_pipeline' gives no parts of speech .its components: none.; use 'embed"):
        keywords(["Der rote Ball."], pipeline=german)
    tagged = spacy.blank("en")
    tagged.add_pipe("attribute_ruler").add([[{"IS_ALPHA": True}]], {"POS": "NOUN"})
    assert keywords(["ball"], pipeline=tagged) == [["ball"]] == keywords([tagged("ball")])
    for held in (["ball"], [tagged("ball")]):
        with pytest.raises(InputError, match="no lemmas"):
            keywords(held, "pytextrank", pipeline=tagged)


@pytest.mark.parametrize(("text", "options", "phrases"), [
    ("<h1>北京大学</h1>\n<p>清华大学的学生</p>", {"language": "zh"}, ["北京大学", "清华大学", "学生"]),
    ("The data\u00adbase sys\u200btem is big.", {}, ["database system"]), ("A \u202ered\u202c ball", {}, ["red ball"]),
    ("Battery-electric buses need charging plans.", {"stop_words": ["battery"]}, ["electric buses", "plans"]),
    ("The red ball of Mr. O'Neill.", {"stop_words": ["Mr. O'Neill"]}, ["red ball"]),
    ("ẞIG NEW PUMP STATION. The small dog.", {}, ["ẞIG NEW PUMP STATION", "small dog"]),
    ("I like the dog\n\ncat food is cheap.", {"candidates": ["dog cat", "cat food"]}, ["cat food"])])
def test_phrases_as_they_are_given(text, options, phrases):
    assert {phrase.text for phrase in Keywords(**options).rank(text)[0]} == set(phrases)


def test_no_number_of_phrases_turns_other_options_off():
    assert Keywords(threshold=1e9).rank(TEXTS, top=1_000_000).table.num_rows == 0
    with pytest.raises(InputError, match="at most three words"):
        Keywords("yake", ngram_range=(4, 5)).rank(TEXTS)


def test_the_method_of_the_constructor_changes_no_comparison():
    text = "The new state of the art water pump filter test station report shows water pumps."
    tables = [Keywords(method).compare(["tfidf", "yake"], text).table for method in ("tfidf", "yake")]
    assert tables[0].equals(tables[1])
    with pytest.raises(InputError, match=r"candidates: 'x+'\.\.\. has more than 200 characters"):
        Keywords(candidates=["dog", "x" * 201])
