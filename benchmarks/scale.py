"""Time and memory of every data stage on growing corpora, from a file of triples to the graph.

    python -m benchmarks scale --texts 100000 1000000

Texts are short sentences of words by Zipf's law; source and target of a triple have the same nouns. A tokenizer with a
tagger by endings replaces the language pipeline. `--pairs` adds the stages that look texts up by their id (pair
classifier, rankings of words, node vectors, keywords side by side, items of PGKPR), with a BERT of two layers of 32.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness import DOCUMENT, Section, part, peak_memory, run_stage_in, write_parts

DATASET = "synthetic"
STAGES = ("ingest", "annotate", "textrank", "keywords", "graph")
BY_ID = ("pair_classifier", "attribution", "word_vectors", "psi", "s_tagger", "yake", "keyword_comparison",
         "node_vectors", "paraphrase_items")
_NAMED = {"datasets": [DATASET]}
_LOOKED_UP = {"encoder": {"source": "path", "path": "encoder"}, "models": {"pgkpr": {"pgkpr": {"dataset": DATASET}}},
              "psi": _NAMED, "keyword_comparison": _NAMED, "node_vectors": _NAMED,
              "paraphrase_items": {"datasets": {DATASET: {}}},
              "pair_classifier": {"epochs": 1, "max_sources": 10_000, "max_length": 32},
              "s_tagger": {**_NAMED, "epochs": 1, "batch_size": 1024}, "attribution": {**_NAMED, "batch_size": 256}}
_PIECE, _WORKERS = 100_000, 2
_MEMORY_GIB = 1.0  # of joins before they go to disk
_NOUNS, _OTHERS = 200_000, 5_000
_ENDINGS = {"ion": ("NOUN", "NN"), "ful": ("ADJ", "JJ"), "ing": ("VERB", "VBG"), "the": ("DET", "DT")}


def write_triples(path: Path, triples: int) -> None:
    """Write ``triples`` triples of sentences as Parquet, from a seed, piece by piece."""
    rng = np.random.default_rng(13)
    nouns, adjectives, verbs = (_words(count, ending) for count, ending in (
        (_NOUNS, "ion"), (_OTHERS, "ful"), (_OTHERS, "ing")))
    schema = pa.schema([("source", pa.string()), ("target", pa.string()), ("negative", pa.string())])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, triples, _PIECE):
            size = min(_PIECE, triples - start)
            subject, shared, alone = (_zipf(rng, nouns, size) for _ in range(3))
            rows = {role: [f"the {adjective} {first} {verb} the {other}" for adjective, first, verb, other in zip(
                _zipf(rng, adjectives, size), subject, _zipf(rng, verbs, size), last, strict=True)]
                for role, last in (("source", shared), ("target", shared), ("negative", alone))}
            writer.write_table(pa.table(rows, schema=schema))


def _words(count: int, ending: str) -> np.ndarray:
    letters = np.array(list("bcdfghjklmnpqrstvwxz"))
    numbers = np.arange(count)[:, None] // 20 ** np.arange(5) % 20
    return np.array(["".join(row) + ending for row in letters[numbers]], dtype=object)


def _zipf(rng: np.random.Generator, words: np.ndarray, size: int) -> list[str]:
    cumulative = np.cumsum(1 / np.arange(1, len(words) + 1))
    return list(words[np.minimum(np.searchsorted(cumulative, rng.random(size) * cumulative[-1]), len(words) - 1)])


def save_pipeline(folder: Path) -> None:
    """Save a blank English pipeline that tags words by their endings."""
    import spacy
    from spacy.lookups import Lookups

    nlp = spacy.blank("en")
    rules: Any = nlp.add_pipe("attribute_ruler")
    rules.add([[{"IS_ALPHA": True}]], {"POS": "X", "TAG": "FW"})
    for ending, (pos, tag) in _ENDINGS.items():
        rules.add([[{"SUFFIX": ending}]], {"POS": pos, "TAG": tag})
    lemmatizer: Any = nlp.add_pipe("lemmatizer", config={"mode": "rule"})
    lookups = Lookups()
    for name in ("lemma_index", "lemma_exc", "lemma_rules"):
        lookups.add_table(name, {})
    lemmatizer.initialize(lookups=lookups)
    nlp.to_disk(folder)


def save_encoder(folder: Path) -> None:
    """Save a BERT of two layers of 32, whose pieces are the most frequent words."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizer

    folder.mkdir()
    words = [word for ending in ("ion", "ful", "ing") for word in _words(_OTHERS, ending)]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", *words]
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    BertTokenizer(vocab=str(folder / "vocab.txt"), model_max_length=64).save_pretrained(folder)
    torch.manual_seed(0)
    BertModel(BertConfig(vocab_size=len(vocabulary), hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                         intermediate_size=64, max_position_embeddings=64)).save_pretrained(folder)


def measure(folder: Path, texts: int, pairs: bool) -> Iterator[dict[str, Any]]:
    """Yield a row per stage, with ``pairs`` also those of the stages that look texts up: seconds and peak MiB."""
    write_triples(folder / "triples.parquet", texts // 3)
    save_pipeline(folder / "blank")
    if pairs:
        save_encoder(folder / "encoder")
    (folder / "params.yaml").write_text(json.dumps({
        "recipe": "synthetic", "runtime": {"workers": _WORKERS, "memory_gib": _MEMORY_GIB},
        "datasets": {DATASET: {"source": "triples.parquet", "layout": "triples", "columns": {
            role: role for role in ("source", "target", "negative")}, "ingest": {"neg_source": "given"}}},
        "keywords": _NAMED, "graph": _NAMED, "annotate": {"pipeline": "path", "path": "./blank"},
        **(_LOOKED_UP if pairs else {})}))
    for stage in (*STAGES, *(BY_ID if pairs else ())):
        record, peak = peak_memory(run_stage_in, folder, stage, DATASET)
        yield {"texts": texts, "stage": stage, "seconds": round(record["seconds"], 1), "MiB": round(peak)}


def over_sizes(rows: list[dict[str, Any]], names: Sequence[str]) -> list[dict[str, Any]]:
    """Return a line per stage: seconds and MiB at each size."""
    lines: dict[str, dict[str, Any]] = {}
    for row in rows:
        if row["stage"] in names:
            lines.setdefault(row["stage"], {"stage": row["stage"]}).update(
                {f"{row['texts']:,}: s": row["seconds"], f"MiB {row['texts']:,}": row["MiB"]})
    return list(lines.values())


def section(rows: list[dict[str, Any]], pairs: bool) -> Section:
    """Return the measurements as a section of the document; with ``pairs``, of the stages that look texts up."""
    title, workload, names, note = (
        ("Stages that look texts up", "triples as above, a BERT of two layers of 32, 10,000 pairs of training for the "
         "classifier", BY_ID, "Some 300 MiB of a stage with a network are PyTorch.") if pairs else
        ("A growing corpus", f"synthetic triples of short texts, a blank tokenizer with a tagger by endings, "
         f"{_WORKERS} workers, joins of {_MEMORY_GIB:g} GiB", STAGES, "Workers have half a GiB each besides."))
    return Section(title, workload, "not compared, as there is one contender", [over_sizes(rows, names)], [
        f"MiB is the growth of the memory of the stage's process to the peak, without mapped files. {note}"])


def main(argv: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks scale", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, nargs="+", default=[100_000, 1_000_000], help="sizes of the corpus")
    parser.add_argument("--pairs", action="store_true", help="of the stages that look texts up by their id")
    parser.add_argument("--write", action="store_true", help=f"also write the tables into {DOCUMENT}")
    given = parser.parse_args(argv)
    rows = []
    for texts in given.texts:
        with TemporaryDirectory(prefix="keycontrast-scale-") as folder:
            for row in measure(Path(folder), texts, given.pairs):
                rows.append(row)
                sys.stderr.write(f"{row}\n")
    name, option = ("scale by id", " --pairs") if given.pairs else ("scale", "")
    text = part(name, f"benchmarks scale --texts {' '.join(map(str, given.texts))}{option}", [
        section(rows, given.pairs)])
    sys.stdout.write(text + "\n")
    if given.write:
        write_parts({name: text})
    return 0
