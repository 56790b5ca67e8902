"""Stage ``annotate``: every text once, the same bytes for any number of workers."""

from pathlib import Path

import pyarrow as pa
import pytest
import spacy

from stages import annotate
from stages.artifacts.schemas import SCHEMAS
from stages.artifacts.tables import Provenance, read_metadata, read_table, write_table
from stages.language.tokens import doc_columns, fixed_chunks, rebuild_docs, token_table
from stages.params.data import Annotate
from stages.runtime.errors import InputError

WORDS = {"dogs": ("NOUN", "NNS", "dog"), "big": ("ADJ", "JJ", "big"), "bark": ("VERB", "VBP", "bark"),
         "the": ("DET", "DT", "the"), "loudly": ("ADV", "RB", "loudly"), ".": ("PUNCT", ".", ".")}
TEXTS = ["The big dogs bark.", "Dogs bark loudly.  The dogs bark.", "Do n't", "\N{SNOWMAN} dogs!", "Big dogs", "42"]


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory):
    """A pipeline by word list, saved: a stand-in that is quick to load."""
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    rules = nlp.add_pipe("attribute_ruler")
    for word, (pos, tag, lemma) in WORDS.items():
        rules.add([[{"LOWER": word}]], {"POS": pos, "TAG": tag, "LEMMA": lemma})
    folder = tmp_path_factory.mktemp("pipeline") / "en_words"
    nlp.to_disk(folder)
    return str(folder)


def texts(strings, language="en"):
    return pa.table({"text_id": range(len(strings)), "text": strings, "language": [language] * len(strings)},
                    schema=SCHEMAS["texts"].arrow())


def test_one_row_per_text_with_aligned_lists(pipeline):
    rows = annotate.run(texts(TEXTS), Annotate(pipeline=pipeline, chunk=4)).to_pylist()
    assert [row["text_id"] for row in rows] == list(range(len(TEXTS)))
    for text, row in zip(TEXTS, rows, strict=True):
        lists = ("token", "lemma", "pos", "tag", "start", "end", "is_stop", "sentence_start")
        assert len({len(row[name]) for name in lists}) == 1
        assert [text[start:end] for start, end in zip(row["start"], row["end"], strict=True)] == row["token"]
        assert row["sentence_start"][0]


def test_values_are_those_of_the_pipeline(pipeline):
    row = annotate.run(texts(["Dogs bark loudly.  The"]), Annotate(pipeline=pipeline)).to_pylist()[0]
    assert row["token"] == ["Dogs", "bark", "loudly", ".", " ", "The"]
    assert row["lemma"][:4] == ["dog", "bark", "loudly", "."]
    assert row["pos"] == ["NOUN", "VERB", "ADV", "PUNCT", "", "DET"]  # the word list says nothing of white space
    assert row["tag"][:4] == ["NNS", "VBP", "RB", "."]
    assert (row["start"], row["end"]) == ([0, 5, 10, 16, 18, 19], [4, 9, 16, 17, 19, 22])
    assert row["is_stop"] == [False, False, False, False, False, True]
    assert row["sentence_start"] == [True, False, False, False, True, False]


def test_noun_chunks_are_stored(pipeline):
    row = annotate.run(texts(["The big dogs bark."]), Annotate(pipeline=pipeline)).to_pylist()[0]
    assert (row["chunk_start"], row["chunk_end"]) == ([2], [3])


def test_the_order_of_rows_does_not_matter(pipeline):
    params = Annotate(pipeline=pipeline, chunk=4)
    assert annotate.run(texts(TEXTS).sort_by([("text_id", "descending")]), params).equals(
        annotate.run(texts(TEXTS), params))


def test_no_texts_give_an_empty_table(pipeline):
    assert annotate.run(texts([]), Annotate(pipeline=pipeline)).schema.equals(SCHEMAS["tokens"].arrow())


def test_a_pipeline_for_another_language_is_refused(pipeline):
    with pytest.raises(InputError, match="made for language 'en', but the texts are 'zh'"):
        annotate.run(texts(["x"], language="zh"), Annotate(pipeline=pipeline))


def test_documents_come_back_as_the_pipeline_left_them(pipeline):
    tokens = annotate.run(texts(TEXTS), Annotate(pipeline=pipeline))
    nlp = annotate.reader(pipeline, "en").nlp
    for (text_id, rebuilt), text in zip(rebuild_docs(tokens), TEXTS, strict=True):
        original = nlp(text)
        assert rebuilt.text == text == TEXTS[text_id]
        assert [str(chunk) for chunk in rebuilt.noun_chunks] == [str(chunk) for chunk in original.noun_chunks]
        assert [str(sentence) for sentence in rebuilt.sents] == [str(sentence) for sentence in original.sents]
        assert doc_columns(rebuilt) | {"is_stop": 0} == doc_columns(original) | {"is_stop": 0}


def test_chunks_stand_alone_and_are_cut_by_id():
    table = texts([str(n) for n in range(10)]).sort_by([("text_id", "descending")])
    chunks = fixed_chunks(table, 4)
    assert [chunk["text_id"].to_pylist() for chunk in chunks] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert fixed_chunks(table.slice(0, 0), 4) == []
    assert token_table({name: [] for name in SCHEMAS["tokens"].arrow().names}).num_rows == 0


def test_the_stage_writes_the_same_bytes_for_any_number_of_workers(pipeline, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_table(Path("artifacts/toy/texts.parquet"), "texts", texts(TEXTS), Provenance("ingest@toy", "0"))
    written = []
    for workers in (1, 2):
        Path("params.yaml").write_text(f"recipe: t\nruntime: {{workers: {workers}}}\ndatasets: {{toy: {{source: x}}}}\n"
                                       f"annotate: {{pipeline: {pipeline}, chunk: 2}}\n")
        assert annotate.main(["toy"]) == 0
        written.append(Path("artifacts/toy/tokens.parquet").read_bytes())
    assert written[0] == written[1]
    metadata = read_metadata(Path("artifacts/toy/tokens.parquet"))
    assert metadata["models"]["spacy"]["language"] == "en"
    assert read_table(Path("artifacts/toy/tokens.parquet"), "tokens").num_rows == len(TEXTS)
