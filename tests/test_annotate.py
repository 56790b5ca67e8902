"""Stage ``annotate``: every text once, the same bytes for any number of workers, and after a kill."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import spacy

from keycontrast.errors import InputError
from keycontrast.text.annotate import load_annotator
from keycontrast.text.pipelines import noun_chunks
from keycontrast.text.tokens import (
    annotate_texts,
    stream_chunks,
    token_table,
)
from pipeline.schemas import SCHEMAS
from stages.annotate import annotate
from stages.annotate.params import Annotate
from stages.common import tables
from stages.common.tables import Provenance, read_metadata, read_table, write_table

WORDS = {"dogs": ("NOUN", "NNS", "dog"), "big": ("ADJ", "JJ", "big"), "bark": ("VERB", "VBP", "bark"),
         "the": ("DET", "DT", "the"), "loudly": ("ADV", "RB", "loudly"), ".": ("PUNCT", ".", ".")}
TEXTS = ["The big dogs bark.", "Dogs bark loudly.  The dogs bark.", "Do n't", "\N{SNOWMAN} dogs!", "Big dogs", "42"]


def saved_pipeline(folder, language="en"):
    """Save a pipeline by word list, a stand-in that is quick to load, and return its folder's name."""
    nlp = spacy.blank(language)
    nlp.add_pipe("sentencizer")
    rules = nlp.add_pipe("attribute_ruler")
    for word, (pos, tag, lemma) in WORDS.items():
        rules.add([[{"LOWER": word}]], {"POS": pos, "TAG": tag, "LEMMA": lemma})
    nlp.to_disk(folder)
    return str(folder)


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory):
    return saved_pipeline(tmp_path_factory.mktemp("pipeline") / "en_words")


def texts(strings, language="en"):
    return pa.table({"text_id": range(len(strings)), "text": strings, "language": [language] * len(strings)},
                    schema=SCHEMAS["texts"].arrow())


def test_columns_are_what_the_tokens_of_each_document_say(pipeline):
    nlp = load_annotator(pipeline, "en").nlp
    rows = token_table(annotate_texts(nlp, range(len(TEXTS)), TEXTS)).to_pylist()
    for row, doc in zip(rows, map(nlp, TEXTS), strict=True):
        spans = [(start, end) for start, end, _ in noun_chunks(doc)]
        assert row == {
            "text_id": row["text_id"], "token": [token.text for token in doc], "lemma": [token.lemma_ for token in doc],
            "pos": [token.pos_ for token in doc], "tag": [token.tag_ for token in doc],
            "start": [token.idx for token in doc], "end": [token.idx + len(token) for token in doc],
            "is_stop": [token.is_stop for token in doc],
            "sentence_start": [token.i == 0 or token.is_sent_start is True for token in doc],
            "chunk_start": [start for start, _ in spans], "chunk_end": [end for _, end in spans]}


def test_noun_chunks_of_a_pipeline_of_its_own_are_taken(tmp_path):
    nlp = spacy.load(saved_pipeline(tmp_path / "own"))
    nlp.vocab.get_noun_chunks = lambda doc: iter([(0, 1, 0), (1, 3, 0)] if len(doc) > 2 else [])
    rows = token_table(annotate_texts(nlp, [0, 1, 2], ["Dogs", "The big dogs", ""])).to_pylist()
    assert [(row["chunk_start"], row["chunk_end"]) for row in rows] == [([], []), ([0, 1], [1, 3]), ([], [])]


def test_long_texts_reach_the_pipeline_few_at_a_time(pipeline, monkeypatch):
    """A hundred papers together took 17 GB."""
    nlp, sizes = load_annotator(pipeline, "en").nlp, []
    pipe = nlp.pipe
    monkeypatch.setattr(nlp, "pipe", lambda given, **how: sizes.append(sum(map(len, given))) or pipe(given, **how))
    assert len(annotate_texts(nlp, range(40), ["dogs " * 600] * 40)["token"]) == 40
    assert len(sizes) > 1 and max(sizes) < 25_000


def test_the_vocabulary_does_not_grow(pipeline):
    nlp = load_annotator(pipeline, "en").nlp
    annotate_texts(nlp, [0], ["Dogs bark."])
    before = len(nlp.vocab.strings)
    table = token_table(annotate_texts(nlp, range(50), [f"word{number}ish bark" for number in range(50)]))
    assert len(nlp.vocab.strings) == before
    assert "word49ish" not in nlp.vocab
    assert table["token"][49].as_py() == ["word49ish", "bark"]  # what was read outlives the memory it was read from


def test_cleaned_texts_keep_the_offsets_of_the_texts_as_given(pipeline):
    text = "<p>Big&nbsp;dogs</b> bark \N{SNOWMAN}"
    row = annotate.run(texts([text]), Annotate(pipeline=pipeline)).to_pylist()[0]
    found = {text[start:end]: token for start, end, token in zip(row["start"], row["end"], row["token"], strict=True)}
    assert [word for word in row["token"] if word.strip()] == ["Big", "dogs", "bark"]
    assert found["dogs"] == "dogs" and found["Big"] == "Big"


def test_cleaned_texts_and_those_of_another_language_are_counted(tmp_path):
    given = texts(["a <b>dog</b>", "a dog", "\u043e\u043d \u0438\u0434\u0451\u0442"])
    write_table(tmp_path / "texts", SCHEMAS["texts"], given, Provenance("ingest@toy", "0"))
    for language, other in (("en", 1), ("zh", 3)):
        described = load_annotator("embedded", language).describe()
        make = annotate.part_annotator("embedded", language, 4, True, described, Provenance("annotate@toy", "0"))
        assert make(tmp_path / "texts" / "part-00000.parquet", tmp_path / language) == {
            "texts": 3, "cleaned": 1, "other_language": other}


def test_a_worker_with_another_pipeline_of_the_same_name_is_refused(pipeline):
    with pytest.raises(InputError, match="Install the same one on every machine"):
        annotate.part_annotator(pipeline, "en", 4, False, {"name": "another"}, Provenance("annotate@toy", "0"))


def test_streamed_chunks_are_the_same_however_they_come():
    table = texts([str(number) for number in range(23)])
    whole = list(stream_chunks([table], 5))
    for sizes in ([23], [1] * 23, [5, 0, 9, 9], [11, 12]):
        cuts = np.cumsum([0, *sizes])
        batches = [table.slice(start, size) for start, size in zip(cuts, sizes, strict=False)]
        chunks = list(stream_chunks(batches, 5))
        assert [chunk.num_rows for chunk in chunks] == [5, 5, 5, 5, 3]
        assert all(one.equals(other) for one, other in zip(chunks, whole, strict=True))
    assert list(stream_chunks([], 5)) == list(stream_chunks([table.slice(0, 0)], 5)) == []


def project(folder, pipeline, workers=1, strings=TEXTS, language="en"):
    table = folder / "artifacts/data/toy/items/texts"
    write_table(table, SCHEMAS["texts"], texts(strings, language), Provenance("ingest@toy", "0"))
    (folder / "params.yaml").write_text(f"recipe: t\nruntime: {{workers: {workers}}}\n"
                                        f"datasets: {{toy: {{source: x, language: {language}}}}}\n"
                                        f"annotate: {{pipeline: {pipeline}, chunk: 1}}\n")
    return folder / "artifacts/data/toy/tokens"


def test_finished_parts_do_not_outlive_a_change_of_params(pipeline, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tables, "PART_ROWS", 1)
    out, make = project(tmp_path, pipeline), annotate.annotator

    def failing(*arguments):
        work = make(*arguments)
        return lambda chunk: work(chunk) if chunk["text_id"][0].as_py() < 3 else 1 / 0

    monkeypatch.setattr(annotate, "annotator", failing)
    with pytest.raises(ZeroDivisionError):
        annotate.main(["toy"])
    kept = sorted(Path(".keycontrast/scratch/annotate/toy/parts").rglob("*.parquet"))
    assert len(kept) == 3 and not out.exists()
    project(tmp_path, saved_pipeline(tmp_path / "another_words"))
    with pytest.raises(ZeroDivisionError):
        annotate.main(["toy"])
    assert not any(path.exists() for path in kept)


def test_the_stage_reads_chinese_and_says_by_what(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = project(tmp_path, "embedded", strings=["我喜欢苹果。", ""], language="zh")
    assert annotate.main(["toy"]) == 0
    assert read_table(out, SCHEMAS["tokens"])["token"].to_pylist() == [["我", "喜欢", "苹果", "。"], []]
    assert read_metadata(out)["models"]["jieba"]["language"] == "zh"
