"""Texts as people have them: markup, emoji, formulas, odd encodings, codes, other languages."""

import warnings

import pytest

from keycontrast import Keywords, keyword_graph
from keycontrast.text.clean import clean
from keycontrast.text.normal_form import normal_form
from keycontrast.text.tokens import NAME
from pipeline.results import data_warnings
from stages.common.paths import DatasetPaths
from stages.common.tables import write_json
from stages.params import parse_params

FAMILY = "\U0001f469\u200d\U0001f469\u200d\U0001f467"
CASES = {
    "abbreviations": ("The S&P index, AT&T stores and R&D budgets fell in the U.S. market.",
                      {"at&t stores", "r&d budgets", "u.s. market"}, ""),
    "bullets": ("\u2022 River Lodge (Mill Lane). \u2022 Old Airport. RING US TODAY. \u2022 River Lodge (Mill Lane).",
                {"river lodge", "mill lane"}, "\u2022"),
    "emoji": (f"A garden party \U0001f3d6\ufe0f with {FAMILY} old friends {FAMILY} and lemon cake \U0001f366.",
              {"garden party", "old friends", "lemon cake"}, f"{FAMILY}\U0001f3d6\ufe0f\U0001f366"),
    "codes": ("Mice with IL-2 deficiency got mRNA-4157 before the H3N2 vaccine.",
              {"il-2 deficiency", "mrna-4157", "h3n2 vaccine"}, ""),
    "formulas": ("Let $g: A \\to B$ be a smooth map and $\\beta_{k}$ the \\emph{weight matrix} of \\cite{roe2021}.",
                 {"smooth map", "weight matrix"}, "\\{}$"),
    "footnotes": ("The tower was moved.[note 3] Critics liked the brick front.[11]", {"tower", "brick front"}, "[]1"),
    "markup": ("<p>The <b>water tank</b> has a leak</p><br/>An old pump</b> &amp; a hose",
               {"water tank", "old pump", "hose"}, "<>&"),
    "lists": ("<ul><li>red apple</li><li>green pear</li></ul>", {"red apple", "green pear"}, "<>"),
    "hashtags": ("We love the #gardens and the #rose beds.", {"gardens", "rose beds"}, "#"),
    "glued sentences": ("The shop is open!!the rose garden is lovely", {"rose garden", "shop"}, "!"),
    "composed letters": ("They closed the cafe\u0301. The re\u0301sume\u0301 is long.",
                         {"caf\u00e9", "r\u00e9sum\u00e9"}, "."),
    "case": ("Wind power is cheap. WIND POWER works. We like Wind Power.", {"wind power"}, ""),
    "stop words alone": ("just as it was, and so it is", set(), ""),
    "languages and platforms": ("C++ code, C# code, F# code and node.js code run on the .NET platform.",
                                {"c++ code", "c# code", "f# code", "node.js code", ".net platform"}, ""),
    "keycaps and icons": ("Press 2\ufe0f\u20e3 for the old card\ue0a1shop window \u2b50\ufe0f blue\ufffcdoor.",
                          {"shop window"}, "2\ufe0f\u20e3\ue0a1\ufffc"),
    "script and style": ("<style>b {color: red}</style>The pond fence<script>if (a) b()</script>",
                         {"pond fence"}, "{}()"),
    "escaped markup": ("The &lt;b&gt;pond fence&lt;/b&gt;", {"pond fence"}, "<>&"),
    "comparisons": ("if a<b and c>d then the pond fence", {"pond fence"}, "<>"),
    "links of markdown": ("[pond fence](http://example.org/a) and ![stone wall](wall.png \"x\")",
                          {"pond fence", "stone wall"}, "[]()"),
    "wikitext": ("{{Box|name=Pond}} The [[fence|pond fence]] and the [[brick wall]].",
                 {"pond fence", "brick wall"}, "|[]{}"),
    "forums": ("[b]pond fence[/b] and [url=http://example.org]brick wall[/url]", {"pond fence", "brick wall"}, "[]"),
    "links of LaTeX": ("A \\href{http://example.org}{pond map} and \\url{http://example.org/z}.",
                       {"pond map"}, "\\{}/"),
    "formulas without commands": ("The sum $x+y$ is near the pond fence.", {"pond fence"}, "$+"),
    "display formulas": ("\\begin{align} F = ma \\end{align} The pond law \\[x = y\\] and \\(z\\) the oak law",
                         {"oak law"}, "\\={}[]()"),
    "amounts": ("It costs $5 (or $7) and the pond fence takes $10 bills.", {"pond fence"}, "$"),
    "more codes": ("The SARS-CoV-1 virus, a 4G antenna, ISO-8859-2 and the p21 gene.",
                   {"sars-cov-1 virus", "4g antenna", "iso-8859-2", "p21 gene"}, ""),
    "separators": ("The pond\u2028fence\u2029Oak gates \x1b[31mfell\x1b[0m.", {"pond fence", "oak gates"},
                   "\x1b\u2029"),
}


@pytest.mark.parametrize("name", CASES)
def test_phrases_are_words_and_places_are_those_of_the_text(name):
    text, wanted, never = CASES[name]
    found = Keywords("pytextrank").rank(text)[0]
    assert wanted <= {phrase.keyword for phrase in found}, found
    assert not any(sign in phrase.text for phrase in found for sign in never), found
    for phrase in found:
        assert text[phrase.start:phrase.end] == phrase.text and normal_form(phrase.text) == phrase.keyword
    if name == "case":
        assert len(found) == 1
    if name == "bullets":
        assert "us" not in {phrase.keyword for phrase in found}


@pytest.mark.parametrize(("text", "phrase"), [
    ("A <a href='http://example.org/a?b=c'>pond boat</a> trip", "pond boat trip"),
    ("The G\\\"odel number, by \\emph{x}", "G\u00f6del number"),
    ("the $k$-means method of \\emph{x}", "k-means method"), ("An oak\\_gate field", "oak_gate field"),
    ("The H<sub>2</sub>O pipes leak", "H2O pipes")])
def test_a_phrase_with_markup_within_is_written_without(text, phrase):
    assert phrase in [found.text for found in Keywords("pytextrank").rank(text)[0]]


@pytest.mark.parametrize("sign", ["<!--", "$a", "[[a", "{{a|", "<a b", "\\emph{", "<script>", "A-", "\u200d\U0001f467"])
def test_long_runs_of_signs_are_read_in_linear_time(sign):
    clean(sign * 200_000)   # by the square of its length this takes hours
    assert NAME.fullmatch(sign * 200_000) is None


def test_headlines_have_the_phrases_of_sentences():
    for text in ("Heavy snow closes mountain roads", "Three old bridges fall in a storm; two men are safe"):
        loud, plain = ([phrase.keyword for phrase in Keywords().rank(one)[0]] for one in (text.upper(), text))
        assert loud == plain and plain


@pytest.mark.parametrize("method", Keywords.methods)
def test_a_text_of_one_word_has_it_for_a_keyword(method):
    assert [phrase.keyword for phrase in Keywords(method).rank("Lantern")[0]] == ["lantern"]


def test_encodings_of_one_keyword_are_one_node():
    texts = ["The river pump failed.", "The river\u00a0pu\u00admp failed.", "The \u200briver pump failed.",
             "The \uff32iver pump failed.", "The ri\u200cver pump failed.", "The ri\u2062ver pump failed.",
             "A solid\u2011wood gate.", "A solid-wood gate."]
    nodes = {row["keyword"]: row["texts"] for row in keyword_graph(texts).nodes.to_pylist()}
    assert nodes["river pump"] == 6 and nodes["solid-wood gate"] == 2


def test_a_stop_word_that_was_taken_for_a_noun_is_found_in_no_other_text():
    texts = ["HOw do I speak fluent English?", "How is the river pump repaired?", "It seems that IT is the future.",
             "We repair it at the front of the house.", "A tree grew in the front."]
    graph = keyword_graph(texts, keywords=Keywords("pytextrank"))
    nodes = {row["keyword"]: row["texts"] for row in graph.nodes.to_pylist()}
    assert nodes["how"] == 1 and nodes.get("it", 1) == 1 and nodes["front"] == 2


def test_latin_words_and_spaces_in_chinese():
    ranking = Keywords(language="zh")
    found = ranking.rank(["你知道iPhone吗", "小王用Python写爬虫程序，手机是X900型号。"])
    assert [phrase.keyword for phrase in found[0]] == ["iphone"]
    assert {"python", "x900型号"} <= {phrase.keyword for phrase in found[1]}
    assert [phrase.keyword for phrase in ranking.rank("5G网络，SARS-CoV-2病毒，用Node.js写")[0]] == [
        "5g网络", "sars-cov-2病毒", "node.js"]
    graph = keyword_graph(["他在公园散步", "他在 公园 散步"], keywords=ranking)
    assert {row["keyword"]: row["texts"] for row in graph.nodes.to_pylist()} == {"公园散步": 2}


@pytest.mark.parametrize(("texts", "language", "share"), [
    (["مكتبة المدينة تفتح أبوابها", "A red ball."], "en", r"1 of 2 texts \(50%\)"),
    (["東京の図書館で本を借りました。"], "en", "1 of 1"), (["The garden gate is open."], "zh", "1 of 1")])
def test_texts_in_another_language_are_counted_in_a_warning(texts, language, share):
    with pytest.warns(UserWarning, match=f"{share} .*are not written as language '{language}' is"):
        Keywords(language=language).rank(texts)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Keywords().rank(["A red ball.", "\u00c9t\u00e9 \u00e0 la plage", "123"])


@pytest.mark.parametrize("text", [*(case[0] for case in CASES.values()), "", " \n", "\ufe0f", "</", "&#0;", "$",
                                  "a\u0301"])
def test_a_cleaned_text_knows_its_places(text):
    made = clean(text)
    assert len(made.read) == len(made.text)
    if not made.start:
        assert made.text == text
        return
    assert len(made.start) == len(made.end) == len(made.text)
    assert all(0 <= first <= last <= len(text) for first, last in zip(made.start, made.end, strict=True))
    assert made.start == sorted(made.start) and made.end == sorted(made.end)
    assert all(text[first:last] == letter for letter, first, last in zip(made.text, made.start, made.end, strict=True)
               if letter.isascii() and letter.isalnum() and last - first == 1)


def test_a_plain_text_stays_as_it_is():
    for text in ("A red ball.", "x < 3 and y > 2", "I paid $5 and $10 at 3 p.m.", "a ($), b ($)", "See [the map]",
                 "a{b}", "Is it? Yes!", "C:\\Users\\name", "https://a.b/c?d=e#f"):
        assert clean(text).text == text, text


def test_blocks_that_name_no_data_sets_take_those_that_models_need():
    datasets = {"pairs": {"source": "x"},
                "texts": {"source": "y", "layout": "labelled", "columns": {"label": "label"}}}
    models = {"hcl": {"a": {"dataset": "pairs"}}, "clld": {"b": {"dataset": "texts", "contrast": "uniform"}}}
    params = parse_params({"recipe": "r", "datasets": datasets, "models": models}, "recipe")
    named = {block: params.named(block) for block in ("keywords", "graph", "node_vectors", "linear_baseline", "psi")}
    assert named == {"keywords": ["pairs"], "graph": ["pairs"], "node_vectors": ["pairs"], "linear_baseline": ["texts"],
                     "psi": []}


def test_a_class_of_the_test_that_training_lacks_and_texts_of_another_language_are_said(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_json(DatasetPaths("d").metrics("ingest"), {"classes": {"train": {"a": 3, "c": 0}, "test": {"a": 1, "c": 2}},
                                                   "rows": {"read": 9, "in_no_item_by_reason": {"unused": 5}}})
    write_json(DatasetPaths("d").metrics("annotate"), {"texts": 6, "other_language": 2})
    unseen, unused, foreign = data_warnings("d", {"ingest@d", "annotate@d"})
    assert unused == "5 of 9 rows are in no item: ingest.neg_source does not use them"
    assert unseen.startswith("no text of class 'c' is in training")
    assert foreign.startswith("2 of 6 texts are not in the data")
    assert data_warnings("d", {"ingest@other"}) == []


@pytest.mark.parametrize("method", ["mihalcea", "yake", "pytextrank", "tfidf"])
def test_no_phrase_goes_across_paragraphs_or_signs(method):
    for text in ("\u2022 solar power\n\u2022 wind farm", "red apples \U0001f600 green pears",
                 "solar power\n\nwind farm"):
        found = {phrase.keyword for phrase in Keywords(method).rank([text], top=20)[0]}
        assert not any({"power", "wind"} <= {*phrase.split()} or {"apples", "green"} <= {*phrase.split()}
                       for phrase in found), found


@pytest.mark.parametrize("text", [
    "x <a b=" + " " * 200_000, "x <p" + " " * 200_000 + "x", "{{" + "|a" * 200_000, "[a](" + "b.cc/" * 200_000])
def test_a_text_of_broken_markup_is_cleaned_in_linear_time(text):
    assert len(clean(text).text) > 100_000     # by the square of its length this takes hours
