"""`keycontrast explain`: tokens, graph, scores and the choice, for a text of the artifacts and for a new one."""

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from keycontrast.errors import InputError
from pipeline.cli import app
from pipeline.schemas import SCHEMAS
from stages.common.paths import DatasetPaths
from stages.common.schemas import NO_KEYWORD
from stages.common.tables import Provenance, write_table

PROVENANCE = Provenance("keywords@small", "0123")
# A path of three candidates; a text with markup; one without candidates; one without words; a number.
TEXTS = ["alpha beta gamma", "<b>beta & [red]delta[/red]", "run quickly", "...", "alpha"]
POS = [["NOUN"] * 3, ["NOUN", "CCONJ", "NOUN"], ["VERB", "ADV"], ["PUNCT"], ["NOUN"]]


def tokens_of(texts, pos):
    """Rows of table ``tokens``: words between spaces, no noun chunks."""
    rows = {name: [] for name in SCHEMAS["tokens"].arrow().names}
    for text_id, (text, tags) in enumerate(zip(texts, pos, strict=True)):
        words = text.split()
        start = [sum(len(word) + 1 for word in words[:place]) for place in range(len(words))]
        row = {"text_id": text_id, "token": words, "lemma": words, "pos": tags, "tag": tags, "start": start,
               "end": [at + len(word) for at, word in zip(start, words, strict=True)],
               "is_stop": [False] * len(words), "sentence_start": [place == 0 for place in range(len(words))],
               "chunk_start": [], "chunk_end": []}
        for name, values in row.items():
            rows[name].append(values)
    return rows


def write(paths, kind, rows):
    write_table(paths.table(kind), SCHEMAS[kind], rows, PROVENANCE)


def write_params(**changes):
    content = {"recipe": "sample", "datasets": {"small": {"source": "raw"}}, "keywords": {"datasets": ["small"]},
               "textrank": {"method": "mihalcea"}}
    Path("params.yaml").write_text(yaml.safe_dump(content | changes), encoding="utf-8")


@pytest.fixture
def paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "140")
    paths = DatasetPaths("small")
    ids = list(range(len(TEXTS)))
    write(paths, "texts", {"text_id": ids, "text": TEXTS, "language": ["en"] * len(TEXTS)})
    write(paths, "tokens", tokens_of(TEXTS, POS))
    write(paths, "examples", {"example_id": [0, 1], "split": ["train", "test"], "source_id": [0, 1],
                              "target_id": [2, 4], "negative_id": [3, None], "reference_ids": [[2], [4]],
                              "group": [0, 1], "negative_origin": ["given", None]})
    write(paths, "keywords", {"text_id": ids, "keyword": ["beta", "delta", "quickly", NO_KEYWORD, "other"],
                              "method": ["textrank", "attribution", "idf", "none", "textrank"],
                              "score": [1.459, 0.75, 1.4, None, 1.0]})
    write_params()
    return paths


def asked(*arguments):
    done = CliRunner().invoke(app, ["explain", *arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


def squeezed(*arguments):
    return " ".join(asked(*arguments).split())


def test_a_path_of_three_words_is_explained_with_its_known_scores(paths):
    shown = asked("0")
    assert "Text 0 of small" in shown and "alpha beta gamma" in shown
    assert "Candidate graph: 3 words, 2 edges" in shown
    # The scores of a path of three nodes; one word in three is kept.
    beta = next(line for line in shown.splitlines() if "1.45946" in line)
    assert "beta" in beta and "yes" in beta and "alpha (1), gamma (1)" in beta
    rest = [line for line in shown.splitlines() if "0.77027" in line]
    assert len(rest) == 2 and all("no" in line.split("│")[3] for line in rest)
    assert "window 2, damping 0.85" in shown and "Keyword: beta (by textrank" in shown
    assert "artifacts/data/small/keywords: beta (by textrank, score 1.459)" in shown and "differs" not in shown


def test_a_keyword_of_another_method_or_a_fall_back_says_so(paths):
    write(paths, "attribution", {"text_id": [1, 1], "mode": ["xx", "xy"], "pair": [1, 0],
                                 "word": [TEXTS[1].split()] * 2, "score": [[0.25, 0.0, 0.75], [1.0, 1.0, 1.0]]})
    shown = squeezed("1")
    assert "That keyword comes from attribution, not from TextRank" in shown
    assert "Its best words: [red]delta[/red] 0.750, <b>beta 0.250, & 0.000." in shown
    shown = squeezed("2")
    assert "That is a fall-back: the method chose none, so the word of highest IDF was taken." in shown
    shown = squeezed("3")
    assert f"That is a fall-back: the text has no word to choose, and {NO_KEYWORD} forms no cluster." in shown
    assert "It differs from the choice above: the table was made with other params" in squeezed("4")


def test_another_method_or_a_new_text_is_explained(paths):
    assert "positionrank, window" in squeezed("0", "--method", "positionrank")
    with pytest.raises(InputError, match=r"--method: no ranking is called 'textrank2'; did you mean 'textrank'"):
        asked("0", "--method", "textrank2")
    with pytest.raises(InputError, match=r"no text has id 42; it has 5 texts, numbered from 0\. For a number.*--text"):
        asked("42")
    assert "New text" in asked("42", "--text")
    shown = asked("My rice cooker burns the rice.")
    assert "New text" in shown and "Tokens by en_ewt" in shown and "IDF over the training texts of small" in shown
    assert "cooker" in shown and "data/small/keywords" not in shown


def test_a_chinese_text_without_any_artifacts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "140")
    write_params(datasets={"zh": {"source": "raw", "language": "zh"}}, keywords={"datasets": ["zh"]})
    shown = squeezed("我喜欢吃苹果，苹果很甜。")
    assert "no data set has tokens, so no IDF: ties of scores fall to the earliest position." in shown
    assert "苹果" in shown


def test_stop_words_and_a_threshold_leave_phrases_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words").write_text("rice\n", encoding="utf-8")
    text = "My rice cooker burns the bottom layer."
    shown = [asked(text, *options) for options in ((), ("--stop-words", "words"), ("--threshold", "9"))]
    assert "No params.yaml here: the pipeline and the settings are the defaults." in " ".join(shown[0].split())
    assert ["rice cooker" in one.partition("Ranked phrases")[2] for one in shown] == [True, False, False]
    assert "cooker" in shown[1].partition("Ranked phrases")[2] and "No phrase is left to choose" in shown[2]
