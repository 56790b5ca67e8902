"""One schema per table, one description per column; ``docs/data-dictionary.md`` is made from this module."""

from dataclasses import dataclass

import pyarrow as pa

from stages.keywords.methods import METHODS, NAMING

SCHEMA_VERSION = 3
SPLITS = ("train", "validation", "test")
NO_KEYWORD = "<nokw>"


@dataclass(frozen=True)
class TableSchema:
    """A table: what it is, its sort key, its columns and what they mean."""

    name: str
    description: str
    key: tuple[str, ...]
    fields: tuple[tuple[str, pa.DataType, str], ...]
    unique: bool = True

    def arrow(self) -> pa.Schema:
        """Return the Arrow schema, each field carrying its description as metadata."""
        return pa.schema([pa.field(name, kind, metadata={"description": text})
                          for name, kind, text in self.fields])


_TEXTS = pa.list_(pa.string())
_INTS = pa.list_(pa.int32())

_SCORES: tuple[tuple[str, pa.DataType, str], ...] = (
    ("system", pa.string(), "run, or a floor: copy, nearest, shuffled, keyword"),
    ("example_id", pa.int64(), "evaluated example"),
    ("output", pa.string(), "text that was scored"),
    ("bleu_1", pa.float64(), "sentence BLEU of order 1 alone, smoothing method 7"),
    ("bleu_2", pa.float64(), "order 2 alone"),
    ("bleu_3", pa.float64(), "order 3 alone"),
    ("bleu_4", pa.float64(), "order 4 alone"),
    ("extrema", pa.float64(), "vector extrema cosine; null if the reference has no known word"),
    ("average", pa.float64(), "mean vector cosine; null likewise"),
    ("greedy", pa.float64(), "greedy matching, mean of both directions"),
    ("rouge_1", pa.float64(), "ROUGE-1 F1 as rouge_score counts it, stemmed, best reference"),
    ("rouge_2", pa.float64(), "ROUGE-2 likewise"),
    ("rouge_l", pa.float64(), "ROUGE-L likewise"),
    ("bertscore", pa.float64(), "BERTScore F1, raw, best reference; null if it was left out"),
    ("source_bleu_4", pa.float64(), "cumulative sentence BLEU-4 of the output against the source, smoothing "
                                    "method 7; lower means more rewriting"),
    ("keyword_kept", pa.bool_(), "the input keyword occurs in the output, by word stems; null without one"),
)

# Of every method that ranks phrases.
_PHRASES: tuple[tuple[str, pa.DataType, str], ...] = (
    ("text_id", pa.int64(), "text"),
    ("rank", pa.int32(), "1 for the best phrase; 0 for a text without phrases"),
    ("phrase", pa.string(), "phrase as written in the text; null without phrases"),
    ("keyword", pa.string(), "normal form of the phrase, the identity of a graph node"),
    ("score", pa.float64(), "rank score of the phrase"),
    ("start", pa.int32(), "first token of the phrase's first occurrence"),
    ("end", pa.int32(), "token after its last"),
    ("status", pa.string(), "ok, not_converged, or why there is no phrase (empty_text, no_candidate)"),
)

_ALL = (
    TableSchema(
        "examples", "Training, validation and test items: a source, a target, a negative, by text id.",
        ("example_id",), (
            ("example_id", pa.int64(), "number of the item; stable for the same inputs and params"),
            ("split", pa.string(), "train, validation or test"),
            ("source_id", pa.int64(), "text id of the input x"),
            ("target_id", pa.int64(), "text id of the output y+"),
            ("negative_id", pa.int64(), "text id of the negative y-; null where there is none"),
            ("further_negative_ids", pa.list_(pa.int64()), "text ids of further negatives (ingest.negatives), best "
                                                           "first; empty with one"),
            ("reference_ids", pa.list_(pa.int64()), "text ids of all references, the target first"),
            ("group", pa.int64(), "connected component of all pairs; in one split, unless ingest.split_by is pair"),
            ("negative_origin", pa.string(), "given, labelled or retrieved; bm25, random or scored for stories and "
                                             "dialogues; null where there is no negative"),
        )),
    TableSchema(
        "labelled_examples", "Labelled texts, in the place of examples.parquet for a data set of that layout.",
        ("example_id",), (
            ("example_id", pa.int64(), "number of the item; stable for the same inputs and params"),
            ("split", pa.string(), "train, validation or test"),
            ("text_id", pa.int64(), "text id"),
            ("label", pa.string(), "class"),
        )),
    TableSchema(
        "texts", "Each distinct text once (distinct by its letters and digits).", ("text_id",), (
            ("text_id", pa.int64(), "number of the text, in order of first appearance"),
            ("text", pa.string(), "the text as it first appeared"),
            ("language", pa.string(), "ISO 639-1 code"),
        )),
    TableSchema(
        "rejected", "Every input row that was not taken, and why.", ("file", "row"), (
            ("file", pa.string(), "input file as named in the params"),
            ("row", pa.int64(), "row in that file, 1-based, header not counted"),
            ("reason", pa.string(), "why the row was not taken"),
            ("raw", pa.string(), "the row as JSON, or the raw line if it could not be parsed"),
        ), unique=False),
    TableSchema(
        "tokens", "Linguistic annotation, one row per text, lists aligned with its tokens.", ("text_id",), (
            ("text_id", pa.int64(), "text"),
            ("token", _TEXTS, "token as written"),
            ("lemma", _TEXTS, "lemma"),
            ("pos", _TEXTS, "universal part of speech (UPOS)"),
            ("tag", _TEXTS, "fine part of speech (Penn for English)"),
            ("start", _INTS, "offset of the token's first character in the text"),
            ("end", _INTS, "offset after the token's last character"),
            ("is_stop", pa.list_(pa.bool_()), "stop word of the language pipeline"),
            ("sentence_start", pa.list_(pa.bool_()), "token opens a sentence"),
            ("chunk_start", _INTS, "first token of each noun chunk"),
            ("chunk_end", _INTS, "token after the last of each noun chunk"),
        )),
    *(TableSchema(method.name, "Ranked phrases of every text; one row with a status for a text that has none.",
                  ("text_id", "rank"), _PHRASES) for method in METHODS.values() if method.holds == "phrases"),
    TableSchema(
        "attribution", "Saliency of each source word under the pair classifier or a Siamese encoder (PGKPR 3.1).",
        ("text_id", "mode", "pair"), (
            ("text_id", pa.int64(), "source text whose words are scored"),
            ("mode", pa.string(), "xx: the text paired with itself; xy: paired with a target"),
            ("pair", pa.int64(), "text id of the second segment"),
            ("word", _TEXTS, "word as written; aligned with the token lists of tokens.parquet"),
            ("score", pa.list_(pa.float32()), "keyword probability in [0, 1]; aligned likewise"),
        )),
    TableSchema(
        "word_vectors", "Vectors of words, from a file or trained on the training split (see the metadata).",
        ("word",), (
            ("word", pa.string(), "word, in lower case where the vectors were trained here"),
            ("count", pa.int64(), "occurrences in the training split"),
            ("vector", pa.list_(pa.float32()), "all rows have the same width"),
        )),
    TableSchema(
        "psi", "Paired semantic importance of each source word (IANet; METHODS C.7).",
        ("text_id", "mode", "pair"), (
            ("text_id", pa.int64(), "source text whose words are scored"),
            ("mode", pa.string(), "xx: the text paired with itself; xy: paired with a target"),
            ("pair", pa.int64(), "text id of the second text"),
            ("word", _TEXTS, "word as written; aligned with the token lists of tokens.parquet"),
            ("score", pa.list_(pa.float64()), "importance G; aligned likewise"),
            ("primary", pa.list_(pa.bool_()), "G exceeds the threshold; aligned likewise"),
        )),
    TableSchema(
        "s_tags", "Primary words as the S-Tagger sees them, without a target (METHODS C.7).", ("text_id",), (
            ("text_id", pa.int64(), "source text"),
            ("word", _TEXTS, "word as written; aligned with the token lists of tokens.parquet"),
            ("probability", pa.list_(pa.float32()), "of being primary; aligned likewise"),
            ("primary", pa.list_(pa.bool_()), "the probability exceeds one half; aligned likewise"),
        )),
    TableSchema(
        "side_by_side", "The best keywords of each text by every method, best first.", ("text_id",), (
            ("text_id", pa.int64(), "text"),
            *((method.name, _TEXTS, method.shown) for method in METHODS.values()),
        )),
    TableSchema(
        "keywords", "The keyword of every text and how it was found.", ("text_id",), (
            ("text_id", pa.int64(), "text"),
            ("keyword", pa.string(), f"keyword in normal form; {NO_KEYWORD} where the text has none"),
            ("method", pa.string(), f"{', '.join(NAMING)}, idf (fall-back) or none"),
            ("score", pa.float64(), "score under that method; null for none"),
        )),
    TableSchema(
        "clusters", "Training examples by the keyword of their input (HCL 3.1).", ("keyword", "example_id"), (
            ("keyword", pa.string(), "keyword of the input"),
            ("example_id", pa.int64(), "training example"),
            ("output_keyword", pa.string(), "keyword of its target"),
            ("negative_keyword", pa.string(), "keyword of its negative; null where there is none"),
        )),
    TableSchema(
        "nodes", "Nodes of the keyword graph, numbered by sorted keyword.", ("node_id",), (
            ("node_id", pa.int32(), "number of the node"),
            ("keyword", pa.string(), "keyword"),
            ("cluster_size", pa.int64(), "training examples whose input has this keyword"),
            ("in_positive", pa.int32(), "positive neighbours that the node receives from, itself excluded"),
            ("in_negative", pa.int32(), "negative neighbours that the node receives from"),
            ("out_positive", pa.int32(), "nodes that receive from it positively, itself excluded"),
            ("out_negative", pa.int32(), "nodes that receive from it negatively"),
            ("centrality", pa.float64(), "PageRank over the positive edges, summing to 1"),
            ("component", pa.int32(), "connected component over both signs, numbered by smallest node"),
            ("community", pa.int32(), "community over the positive edges, numbered by smallest node"),
        )),
    TableSchema(
        "edges", "Directed edges of the keyword graph: target receives from source.",
        ("target", "source", "sign"), (
            ("target", pa.int32(), "node that receives"),
            ("source", pa.int32(), "neighbour it receives from"),
            ("sign", pa.int8(), "+1 positive, -1 negative"),
            ("count", pa.int64(), "multiplicity, after conflicts were resolved and neighbours capped"),
        )),
    TableSchema(
        "node_vectors", "Initial vector of each node: mean of frozen text embeddings (HCL 3.1).", ("node_id",), (
            ("node_id", pa.int32(), "node"),
            ("vector", pa.list_(pa.float32()), "mean embedding; all rows have the encoder's width"),
            ("origin", pa.string(), "texts averaged: input, output or negative"),
        )),
    TableSchema(
        "paraphrase_items", "Pairs as words, with tags and keyword scores of the source (PGKPR; METHODS C.1-C.3).",
        ("example_id", "reference"), (
            ("example_id", pa.int64(), "example of examples.parquet"),
            ("reference", pa.int32(), "0 for the target; 1.. for further references, each a pair of its own"),
            ("split", pa.string(), "train, validation or test"),
            ("group", pa.int64(), "group of examples.parquet: texts of one group are no negatives of each other"),
            ("source", pa.string(), "source text"),
            ("target", pa.string(), "target text"),
            ("source_words", _TEXTS, "words of the source in lower case, uncut"),
            ("source_tags", _TEXTS, "Penn tag of each, from the text as written"),
            ("target_words", _TEXTS, "words of the target in lower case, uncut"),
            ("target_tags", _TEXTS, "Penn tag of each"),
            ("score_xx", pa.list_(pa.float32()), "keyword probability of each source word, from the source alone"),
            ("score_xy", pa.list_(pa.float32()), "keyword probability of each source word, from this pair"),
            ("primary_xx", pa.list_(pa.bool_()), "primary by PSI, from the source alone; null where no "
                                                "model reads primary words"),
            ("primary_xy", pa.list_(pa.bool_()), "primary by PSI, from this pair; null likewise"),
            ("primary_s", pa.list_(pa.bool_()), "primary as the S-Tagger sees it; null where no run reads that"),
        )),
    TableSchema(
        "vocabulary", "The one vocabulary of words, tags and special tokens (METHODS C.1).", ("token_id",), (
            ("token_id", pa.int32(), "id; [pad] is 0"),
            ("token", pa.string(), "special token, tag in brackets such as [NN], or word in lower case"),
            ("kind", pa.string(), "special, tag or word"),
            ("count", pa.int64(), "occurrences in sources and targets of the training split"),
        )),
    TableSchema(
        "items", "What a model was trained and is evaluated on, as plain texts with keywords.", ("example_id",), (
            ("example_id", pa.int64(), "example of examples.parquet"),
            ("split", pa.string(), "train, validation or test"),
            ("source", pa.string(), "input text"),
            ("target", pa.string(), "output text"),
            ("negatives", _TEXTS, "negative texts, best first; empty where there is none"),
            ("keyword", pa.string(), "keyword of the input"),
            ("target_keyword", pa.string(), "keyword of the target"),
            ("negative_keyword", pa.string(), "keyword of the first negative; null where there is none"),
            ("references", _TEXTS, "reference texts, the target first"),
        )),
    TableSchema(
        "predictions", "Generated texts of a run.", ("example_id", "sample"), (
            ("example_id", pa.int64(), "evaluated example"),
            ("sample", pa.int32(), "0 for z as the run has it (mean of the prior by default); 1.. for further draws"),
            ("source", pa.string(), "input text"),
            ("keyword", pa.string(), "keyword that conditioned the output; those of PGKPR and IANet joined by spaces; "
                                      "null if the model uses none"),
            ("keyword_known", pa.bool_(), "the keyword is a node of the training graph; true without a graph"),
            ("prediction", pa.string(), "generated text"),
            ("references", _TEXTS, "reference texts"),
        )),
    TableSchema("scores", "Scores of every evaluated example, of the run and of the floors.", ("system", "example_id"),
                _SCORES),
    TableSchema(
        "paraphrase_scores", "Scores of a run of the PGKPR track, in the place of scores.parquet; texts are words of "
                             "the language pipeline, joined by spaces.", ("system", "example_id"), (
            *_SCORES,
            ("py_rouge_1", pa.float64(), "ROUGE-1 F1 as py-rouge counts it: pooled over the references"),
            ("py_rouge_2", pa.float64(), "ROUGE-2 likewise"),
            ("py_rouge_l", pa.float64(), "ROUGE-L likewise"),
            ("released_py_rouge_1", pa.float64(), "ROUGE-1 likewise, of released_output and released_references"),
            ("released_py_rouge_2", pa.float64(), "ROUGE-2 likewise"),
            ("released_py_rouge_l", pa.float64(), "ROUGE-L likewise"),
            ("keywords_kept", pa.float64(), "share of the source's keywords (attribution from the source alone, fixed "
                                            "coins) that the output shows, by word stems; null without any"),
            ("released_output", pa.string(), "the output as PGKPR's code scores it: cut, [unk] for words outside the "
                                             "vocabulary"),
            ("released_references", _TEXTS, "references likewise"),
        )),
    TableSchema(
        "linear_floor", "What a linear classifier on TF-IDF makes of the texts that it was not trained on.",
        ("example_id",), (
            ("example_id", pa.int64(), "labelled example"),
            ("text_id", pa.int64(), "text id"),
            ("split", pa.string(), "validation or test"),
            ("label", pa.string(), "class"),
            ("predicted", pa.string(), "class of largest probability"),
            ("probabilities", pa.list_(pa.float64()), "of the classes, in the order of their names"),
        )),
    TableSchema(
        "labelled_items", "Texts with their classes that a classifier was chosen by and is evaluated on, in the place "
                          "of items.parquet.", ("example_id",), (
            ("example_id", pa.int64(), "example of examples.parquet"),
            ("text_id", pa.int64(), "text id"),
            ("split", pa.string(), "validation or test"),
            ("text", pa.string(), "the text"),
            ("label", pa.string(), "class"),
        )),
    TableSchema(
        "validation_confusion", "Confusions of a classifier on the validation split, at its best epoch; every pair "
                                "of classes.", ("label", "predicted"), (
            ("label", pa.string(), "class of the texts"),
            ("predicted", pa.string(), "class that they were given"),
            ("texts", pa.int64(), "how many there are"),
        )),
    TableSchema(
        "label_distance", "The label distance matrix of a classifier over its training; every ordered pair of classes.",
        ("evaluation", "class", "other"), (
            ("evaluation", pa.int64(), "evaluation that moved the matrix, 1-based; 0 for the matrix of the beginning"),
            ("epoch", pa.int64(), "epoch of that, 1-based; 0 for the beginning"),
            ("step", pa.int64(), "optimiser steps before"),
            ("strength", pa.float64(), "e, how far the matrix went towards what the confusions ask for; null for the "
                                       "beginning"),
            ("class", pa.string(), "class of the row"),
            ("other", pa.string(), "class of the column"),
            ("distance", pa.float64(), "d"),
        )),
    TableSchema(
        "confusing_pairs", "Pairs of classes that a finished classifier confuses on the validation split, the most "
                           "confused first (METHODS D.3).", ("rank",), (
            ("rank", pa.int64(), "1 for the most confused; equal counts stand in the order of classes"),
            ("class", pa.string(), "class"),
            ("other", pa.string(), "another class, behind it in the order of names"),
            ("as_other", pa.int64(), "texts of the first that were taken for the other"),
            ("as_class", pa.int64(), "texts of the other that were taken for the first"),
            ("confused", pa.int64(), "both together"),
            ("chosen", pa.bool_(), "the pair is one of those that a static matrix takes"),
        )),
    TableSchema(
        "class_predictions", "What a classifier makes of the evaluated texts, in the place of predictions.parquet.",
        ("example_id",), (
            ("example_id", pa.int64(), "evaluated example"),
            ("text_id", pa.int64(), "text id"),
            ("text", pa.string(), "the text"),
            ("label", pa.string(), "class"),
            ("predicted", pa.string(), "class of largest probability"),
            ("probability", pa.float64(), "of the predicted class"),
            ("probabilities", pa.list_(pa.float64()), "of the classes, in the order of classes.parquet"),
        )),
    TableSchema(
        "class_scores", "Scores of every evaluated text, of a classifier and of the floors, in the place of "
                        "scores.parquet.", ("system", "example_id"), (
            ("system", pa.string(), "run, or a floor: majority, linear"),
            ("example_id", pa.int64(), "evaluated example"),
            ("label", pa.string(), "class"),
            ("predicted", pa.string(), "class that the system says"),
            ("correct", pa.bool_(), "these are equal"),
            ("probability", pa.float64(), "of the predicted class; null for majority, which has none"),
            ("nll", pa.float64(), "-log of the probability of the right class (nats); null likewise"),
            ("brier", pa.float64(), "squared distance of the probabilities from the right class; null likewise"),
        )),
    TableSchema(
        "classes", "Scores of each class, of a run.", ("number",), (
            ("number", pa.int32(), "place of the class in lists of probabilities, 0-based"),
            ("class", pa.string(), "class"),
            ("texts", pa.int64(), "evaluated texts of the class"),
            ("predicted", pa.int64(), "evaluated texts that were given the class"),
            ("precision", pa.float64(), "share of these that are of the class; 0 for none"),
            ("recall", pa.float64(), "share of its texts that were given the class; 0 for none"),
            ("f1", pa.float64(), "their harmonic mean; 0 where both are 0, null for a class neither there nor "
                                 "predicted"),
        )),
    TableSchema(
        "confusion", "Confusions of a run on the evaluated texts; every pair of classes.", ("label", "predicted"), (
            ("label", pa.string(), "class of the texts"),
            ("predicted", pa.string(), "class that they were given"),
            ("texts", pa.int64(), "how many there are"),
        )),
    TableSchema(
        "calibration", "How often a run is right when it is so sure (reliability diagram).", ("bin",), (
            ("bin", pa.int32(), "bin of the probability of the predicted class, 1-based"),
            ("from", pa.float64(), "lower end, not in the bin (but 0 is)"),
            ("to", pa.float64(), "upper end, in the bin"),
            ("texts", pa.int64(), "evaluated texts in the bin"),
            ("confidence", pa.float64(), "their mean probability; null without any"),
            ("accuracy", pa.float64(), "share that is classified rightly; null likewise"),
        )),
    TableSchema(
        "paired", "Paired tests between the runs of a data set on the same items (METHODS E.4).",
        ("dataset", "metric", "first", "second"), (
            ("dataset", pa.string(), "data set and split, such as sample/test"),
            ("metric", pa.string(), "metric as named in metrics.json"),
            ("first", pa.string(), "run, or the name of several runs that differ in their seed alone"),
            ("second", pa.string(), "run or name that it is compared with"),
            ("items", pa.int64(), "evaluated items"),
            ("first_value", pa.float64(), "metric of the first"),
            ("second_value", pa.float64(), "metric of the second"),
            ("difference", pa.float64(), "first minus second"),
            ("low", pa.float64(), "lower end of the bootstrap interval of the difference"),
            ("high", pa.float64(), "upper end"),
            ("p_value", pa.float64(), "two-sided, of the paired bootstrap"),
        )),
    TableSchema(
        "mcnemar", "McNemar's exact test between classifiers on the same texts, single runs and floors.",
        ("dataset", "first", "second"), (
            ("dataset", pa.string(), "data set and split, such as sample/test"),
            ("first", pa.string(), "run"),
            ("second", pa.string(), "run or floor that it is compared with"),
            ("items", pa.int64(), "evaluated texts"),
            ("both_right", pa.int64(), "texts that both have right"),
            ("first_only", pa.int64(), "texts that the first alone has right"),
            ("second_only", pa.int64(), "texts that the second alone has right"),
            ("both_wrong", pa.int64(), "texts that both have wrong"),
            ("p_value", pa.float64(), "two-sided, of the binomial over the texts that one alone has right; 1 without "
                                      "any"),
        )),
    TableSchema(
        "latent", "Points of the latent space of some items, and where t-SNE puts them (HCL Figure 3).",
        ("example_id", "kind"), (
            ("example_id", pa.int64(), "example of examples.parquet"),
            ("kind", pa.string(), "input (mu of the prior), positive and negative (mu of the posterior), "
                                  "output_keyword and impostor_keyword (P u)"),
            ("text", pa.string(), "the text, or the keyword"),
            ("x", pa.float64(), "first coordinate of t-SNE"),
            ("y", pa.float64(), "second coordinate"),
            ("vector", pa.list_(pa.float32()), "the point itself; all rows have the latent width"),
        )),
    TableSchema(
        "keyword_swap", "The same input rewritten under other keywords (HCL Table 4).", ("example_id", "choice"), (
            ("example_id", pa.int64(), "example of examples.parquet"),
            ("choice", pa.string(), "textrank, random or given"),
            ("keyword", pa.string(), "keyword that conditioned the prior"),
            ("keyword_known", pa.bool_(), "it is a node of the training graph"),
            ("source", pa.string(), "input text"),
            ("prediction", pa.string(), "generated text"),
            ("reference", pa.string(), "target text"),
            ("shows_keyword", pa.bool_(), "the keyword occurs in the output, by word stems"),
            ("same_as_textrank", pa.bool_(), "the output is the one under the input's own keyword"),
        )),
    TableSchema(
        "judgements", "What raters said in filled sheets (METHODS E.5); written by `keycontrast judge read`, no stage.",
        ("item", "run", "rater", "criterion"), (
            ("item", pa.int64(), "example of examples.parquet"),
            ("run", pa.string(), "run whose output was judged, or `human reference`"),
            ("rater", pa.string(), "rater, named as the sheet"),
            ("criterion", pa.string(), "what was judged, such as fluency"),
            ("score", pa.int32(), "point of the scale"),
        )),
)

SCHEMAS: dict[str, TableSchema] = {table.name: table for table in _ALL}
