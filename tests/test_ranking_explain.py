"""Explanations: the engine's own numbers, and a sentence that says why a keyword won."""

from collections import Counter
from statistics import fmean

import pytest
from ranking_tables import by_chance, frequencies, row, table, tagged

from keycontrast.errors import InputError
from keycontrast.explain import explain
from keycontrast.ranking import Settings, rank
from keycontrast.ranking.selection import InverseFrequency
from stages.keywords.choice import choose_keywords

IDF = InverseFrequency(10, Counter({"common": 9, "middle": 2, "rare": 1, "odd": 1, "graph": 4, "fast": 2}))
PRINTED = Settings("mihalcea")


def test_tokens_nodes_and_edges():
    found = explain(tagged("Old/ADJ dogs/NOUN bark/VERB ./PUNCT old/ADJ men/NOUN"), PRINTED, idf=IDF)
    assert [(one.text, one.lemma, one.pos, one.tag, one.candidate, one.node, one.space_after)
            for one in found.tokens] == [
        ("Old", "old", "ADJ", "ADJ", True, 0, True), ("dogs", "dogs", "NOUN", "NOUN", True, 1, True),
        ("bark", "bark", "VERB", "VERB", False, None, True), (".", ".", "PUNCT", "PUNCT", False, None, True),
        ("old", "old", "ADJ", "ADJ", True, 0, True), ("men", "men", "NOUN", "NOUN", True, 2, False)]
    assert [(node.word, node.kept, node.tokens) for node in found.nodes] == [
        ("old", True, (0, 4)), ("dogs", False, (1,)), ("men", False, (5,))]
    assert found.edges == ((0, 1, 1.0), (0, 2, 1.0))
    assert (found.method, found.status) == ("mihalcea", "ok")
    assert found.settings == "mihalcea, window 2, damping 0.85, tolerance 1e-11"
    assert found.reason == "'old' is the only phrase."


@pytest.mark.parametrize("settings", [
    {}, {"method": "mihalcea"}, {"method": "pytextrank", "compat": "pytextrank"}, {"method": "positionrank"}])
def test_phrases_and_keywords_are_those_of_the_stages(settings):
    tokens = by_chance(8)
    idf = frequencies(tokens["token"].to_pylist()[:20])
    ranking = rank(tokens, phrases=5, idf=idf, **settings)
    chosen = choose_keywords(tokens, ranking, "textrank", idf).to_pylist()
    rows = {}
    for line in ranking.to_pylist():
        rows.setdefault(line["text_id"], []).append(line)
    for place in range(tokens.num_rows):
        found = explain(tokens.slice(place, 1), Settings(**settings), idf=idf)
        listed = [line for line in rows[place] if line["rank"]]
        names = ("rank", "phrase", "keyword", "score", "token_start", "token_end")
        assert [tuple(getattr(one, name) for name in names) for one in found.phrases[:5]] == [
            tuple(line[name] for name in names) for line in listed]
        assert {line["status"] for line in rows[place]} == {found.status}
        expected = chosen[place]
        assert (found.keyword, found.keyword_method, found.keyword_score) == (
            expected["keyword"], expected["method"], expected["score"])
        assert repr(found.keyword) in found.reason or found.keyword_method == "none"
        said = tokens["token"][place].as_py()
        for one in found.phrases:
            assert one.idf == pytest.approx(fmean(idf.of(word) for word in said[one.token_start:one.token_end]))


@pytest.mark.parametrize(("text", "idf", "reason"), [
    # A star: 0.5325 / 0.2775 in the middle, 0.69369 at each end.
    ("big/ADJ red/ADJ dogs/NOUN see/VERB old/ADJ red/ADJ", IDF,
     "'big red' has the highest score, 2.61261; the next has 1.91892."),
    ("common/NOUN sees/VERB middle/NOUN sees/VERB odd/NOUN sees/VERB x/NOUN", IDF,
     "'x' shares the highest score, 0.15, with 'odd'; of these it has the highest inverse document frequency, 3.3979."),
    ("odd/NOUN sees/VERB rare/NOUN sees/VERB middle/NOUN sees/VERB common/NOUN", IDF,
     "'odd' shares the highest score, 0.15, with 'rare'; of these it comes first in the text."),
    ("common/NOUN sees/VERB rare/NOUN sees/VERB middle/NOUN sees/VERB odd/NOUN", None,
     "'common' shares the highest score, 0.15, with 'rare'; of these it comes first in the text."),
    ("common/VERB sees/VERB rare/VERB", IDF, "No phrase is left to choose, so the keyword is the content word of "
                                              "highest inverse document frequency: 'sees'."),
    ("sees/VERB all/VERB", None, "No phrase is left to choose, so the keyword is the first content word: 'sees'."),
    ("42/NUM ?/PUNCT", IDF, "The text has neither a ranked phrase nor a content word, so it has no keyword.")])
def test_reasons(text, idf, reason):
    assert explain(tagged(text), PRINTED, idf=idf).reason == reason


def test_a_keyword_by_its_lemma_is_named_as_it_is():
    tokens = table([row(0, [("Feet", "NOUN", "foot", "NNS")])])
    found = explain(tokens, Settings(), lemmatize=True)
    assert (found.keyword, found.phrases[0].keyword) == ("foot", "feet")


def test_nodes_of_other_methods_have_their_names():
    tokens = tagged("old/ADJ Dog/PROPN Ada/PROPN and/CCONJ old/ADJ Dog/PROPN")
    lemmas = explain(tokens, Settings("pytextrank"))
    assert [node.word for node in lemmas.nodes] == ["old ADJ", "dog PROPN", "ada PROPN"]
    with pytest.raises(InputError, match="topicrank is computed by the pytextrank package, which shows no graph"):
        explain(tokens, Settings("topicrank", engine="package"))
