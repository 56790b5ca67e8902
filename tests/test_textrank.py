"""Stage ``textrank``: the pytextrank package over stored tokens (METHODS A.2)."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from spacy.tokens import Doc
from spacy.vocab import Vocab

from stages import textrank
from stages.artifacts.tables import Provenance, as_table, read_metadata, write_table
from stages.language.pipelines import load_pipeline, noun_chunks
from stages.language.tokens import annotate_texts, doc_columns, token_table
from stages.params.data import TextRank
from stages.ranking import rank
from stages.ranking.normal_form import normal_form
from stages.runtime.errors import InputError

ROOT = Path(__file__).resolve().parents[1]
# Repeated words, edges in both directions, several sentences, no nouns, an apostrophe, ties.
TEXTS = [
    "What is the best way to lose belly fat?", "Dog bites man. Man bites dog. The old dog bites the old man again.",
    "How do I become rich and famous, and why?", "Who are you?",
    "Rock'n'roll music and rock music are not the same music.",
    "Graph methods rank words; words rank graph methods when methods of graphs rank.", "India", "Is it?",
    "Compatibility of systems of linear constraints over the set of natural numbers. Criteria of compatibility of a "
    "system of linear Diophantine equations, strict inequations, and nonstrict inequations are considered.",
]


def tokens_of(sentences):
    """Token table of texts written as ``word/POS``; lemmas are lower-cased words."""
    vocab = Vocab()
    vocab.get_noun_chunks = noun_chunks
    rows = []
    for number, sentence in enumerate(sentences):
        pairs = [item.rsplit("/", 1) for item in sentence.split()]
        doc = Doc(vocab, words=[word for word, _ in pairs], pos=[pos for _, pos in pairs],
                  lemmas=[word.lower() for word, _ in pairs], sent_starts=[n == 0 for n in range(len(pairs))])
        rows.append({"text_id": number, **doc_columns(doc)})
    return token_table({name: [row[name] for row in rows] for name in rows[0]})


@pytest.fixture(scope="module")
def embedded():
    """Name the tokens of ``TEXTS`` by the pipeline that ships with the project."""
    nlp = load_pipeline("embedded")
    return nlp, token_table(annotate_texts(nlp, range(len(TEXTS)), TEXTS))


def test_phrases_and_scores_are_those_of_a_full_pipeline(embedded):
    nlp, tokens = embedded
    ranking = rank(tokens, "pytextrank", phrases=1000).to_pylist()
    if "textrank" not in nlp.pipe_names:
        nlp.add_pipe("textrank")
    for text_id, doc in enumerate(nlp.pipe(TEXTS)):
        mine = [row for row in ranking if row["text_id"] == text_id and row["rank"] > 0]
        theirs = [phrase for phrase in doc._.phrases if phrase.text]
        assert [row["keyword"] for row in mine] == [normal_form(phrase.text) for phrase in theirs]
        assert [row["score"] for row in mine] == [phrase.rank for phrase in theirs]
        for row, phrase in zip(mine, theirs, strict=True):
            assert (row["start"], row["end"]) == min((chunk.start, chunk.end) for chunk in phrase.chunks)
            assert row["phrase"] == doc[row["start"]:row["end"]].text
    assert {row["status"] for row in ranking} == {"ok", "no_candidate"}


def test_only_the_best_phrases_are_kept(embedded):
    whole, kept = (rank(embedded[1], phrases=phrases).to_pandas() for phrases in (1000, 2))
    assert kept["rank"].max() == 2
    assert kept.reset_index(drop=True).equals(whole[whole["rank"] <= 2].reset_index(drop=True))
    ranks = whole[whole["rank"] > 0].groupby("text_id")["rank"].agg(["min", "max", "count"])
    assert (ranks["min"] == 1).all()
    assert (ranks["max"] == ranks["count"]).all()


def test_scores_by_hand():
    # One node: PageRank 1. The phrase is as long as its lemmas, so sqrt(1 / 1) * 1 / (1 + 1).
    row = rank(tokens_of(["Cats/NOUN ./PUNCT"])).to_pylist()[0]
    assert row == {"text_id": 0, "rank": 1, "phrase": "Cats", "keyword": "cats", "score": pytest.approx(0.5),
                   "start": 0, "end": 1, "status": "ok"}
    # Two nodes share: 1/2 each. "belly fat" has both: sqrt((1/2 + 1/2) / 2) * 2 / (2 + 1).
    row = rank(tokens_of(["Belly/NOUN Fat/NOUN"])).to_pylist()[0]
    assert (row["keyword"], row["score"]) == ("belly fat", pytest.approx(0.5**0.5 * 2 / 3))


def test_a_text_without_phrases_has_one_row_that_says_why():
    tokens = tokens_of(["Who/PRON are/VERB you/PRON", "Dogs/NOUN"])
    empty = token_table({name: [5] if name == "text_id" else [[]] for name in tokens.column_names})
    rows = rank(pa.concat_tables([tokens, empty])).to_pylist()
    assert [(row["text_id"], row["rank"], row["status"], row["keyword"]) for row in rows] == [
        (0, 0, "no_candidate", None), (1, 1, "ok", "dogs"), (5, 0, "empty_text", None)]
    as_table("textrank", pa.Table.from_pylist(rows))


def test_a_phrase_that_the_package_scrubs_away_is_no_keyword():
    rows = rank(tokens_of(["'/NOUN is/AUX odd/ADJ"])).to_pylist()
    assert [row["status"] for row in rows] == ["no_candidate"]


def test_the_first_occurrence_is_recorded():
    row = rank(tokens_of(["I/PRON saw/VERB Dogs/NOUN and/CCONJ Dogs/NOUN"])).to_pylist()[0]
    assert (row["keyword"], row["start"], row["end"]) == ("dogs", 2, 3)


def test_normal_form_is_lower_case_with_single_spaces():
    assert normal_form(" Belly \n  FAT ") == "belly fat"


def test_a_text_ranks_the_same_alone_and_among_others(embedded):
    tokens = embedded[1]
    alone = pa.concat_tables([rank(tokens.slice(place, 1)) for place in range(tokens.num_rows)])
    assert alone.equals(rank(tokens))


def test_unknown_methods_and_counts_are_refused():
    with pytest.raises(InputError, match="no ranking is called 'pytextrnk'; did you mean 'pytextrank'"):
        rank(tokens_of(["a/NOUN"]), method="pytextrnk")
    with pytest.raises(ValueError, match="phrases must be at least 1, found 0"):
        rank(tokens_of(["a/NOUN"]), phrases=0)


def test_workers_and_hash_seeds_do_not_change_a_byte(embedded, tmp_path, monkeypatch):
    many = pa.concat_tables([embedded[1].set_column(0, "text_id", pa.array(range(n * 9, n * 9 + 9), pa.int64()))
                             for n in range(60)])  # more than one chunk
    write_table(tmp_path / "artifacts/toy/tokens.parquet", "tokens", many,
                Provenance("annotate@toy", "0", models={"spacy": {"name": "x"}}))
    ranking = tmp_path / "artifacts/toy/textrank.parquet"
    params = "recipe: t\ndatasets: {{toy: {{source: x}}}}\nruntime: {{workers: {}}}\n"
    (tmp_path / "params.yaml").write_text(params.format(2))
    done = subprocess.run([sys.executable, "-m", "stages.textrank", "toy"], cwd=tmp_path, capture_output=True,
                          text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "1"})
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    two = ranking.read_bytes()
    ranking.unlink()
    # This process has another hash seed, drawn by chance.
    monkeypatch.chdir(tmp_path)
    Path("params.yaml").write_text(params.format(1))
    assert textrank.main(["toy"]) == 0
    assert ranking.read_bytes() == two
    models = read_metadata(Path("artifacts/toy/textrank.parquet"))["models"]
    assert models["spacy"] == {"name": "x"}
    assert models["pytextrank"]


def test_run_ranks_any_number_of_texts(embedded):
    assert textrank.run(embedded[1], TextRank(phrases=3)).equals(rank(embedded[1], phrases=3))
    assert textrank.run(embedded[1].slice(0, 0), TextRank()).num_rows == 0
