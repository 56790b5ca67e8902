"""Params of the data stages, from raw files to node vectors."""

from collections.abc import Mapping
from encodings.aliases import aliases
from itertools import chain
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, field_validator, model_validator

from stages.common.methods import FOR_ANY_TEXT, NAMING
from stages.ingest.layouts.registry import LAYOUTS, is_paired
from stages.params.block import Block, Switches
from stages.params.presets import Presets
from stages.params.watched import ROWS, WATCHED
from stages.run.errors import nearest


def _filled(content: Any) -> Any:
    """Return what the params say of files, with the encoding and the columns that their layout fills in."""
    if not isinstance(content, Mapping):
        return content
    name, columns = content.get("layout", "pairs"), content.get("columns", {})
    layout = LAYOUTS.get(name) if isinstance(name, str) else None
    if layout is None or not isinstance(columns, Mapping):
        return content  # which the fields say
    return {"encoding": layout.encoding, **content, "columns": layout.completed(columns)}


def _layout_exists(name: str) -> str:
    if name not in LAYOUTS:
        raise ValueError(f"no layout is called {name!r}; {nearest(name, LAYOUTS)}")
    return name


def _encoding_exists(name: str) -> str:
    try:
        "a".encode(name)
    except (LookupError, UnicodeError):
        of_text = [alias for alias in aliases.values() if not alias.endswith("_codec") and alias != "rot_13"]
        valid = nearest(name.lower().replace("-", "_"), of_text)
        raise ValueError(f"no encoding of text is called {name!r}; {valid}") from None
    return name


LayoutName = Annotated[str, AfterValidator(_layout_exists)]
Encoding = Annotated[str, AfterValidator(_encoding_exists)]
Separator = Literal[",", ";", "|", "\t"]


class OwnColumns(Block):
    """Files of a data set that have a layout or columns of their own, as its ``files`` and ``splits`` may name them."""

    name: str = Field(description="or pattern, inside the folder")
    layout: LayoutName = Field(description="of the structure of the data set's")
    columns: dict[str, str | list[str] | None] = Field(default_factory=dict, description="names, by role")
    encoding: Encoding = "utf-8"
    quoting: Literal["standard", "none"] = "standard"
    separator: Separator | None = None

    _layout_fills = model_validator(mode="before")(_filled)


# What pydantic puts into the place of a problem besides names and numbers.
KIND_OF_NAME = ("(name)", "(columns)")
Named = Annotated[Annotated[str, Tag(KIND_OF_NAME[0])] | Annotated[OwnColumns, Tag(KIND_OF_NAME[1])],
                  Discriminator(lambda entry: KIND_OF_NAME[isinstance(entry, Mapping | OwnColumns)])]


class Dataset(Block):
    """Where a data set's files are and how they are laid out.

    What a layout reads, and from which columns, is declared in :mod:`stages.ingest.layouts`; those of published files
    bring their own columns and dialect.
    """

    source: str = Field(description="file, or folder that holds `files`; the DVC dependency")
    files: list[Named] = Field(
        default_factory=list, description="names or patterns inside the folder; of files with columns of their own "
                                          "`{name: ..., layout: ..., columns: ...}`")
    splits: dict[Literal["train", "validation", "test"], list[Named]] = Field(
        default_factory=dict, description="files (named likewise) whose rows have a published split; they "
                                          "are read after `files`, training first")
    layout: LayoutName = Field("pairs", description="what a row is and which columns it has: " + ", ".join(LAYOUTS))
    columns: dict[str, str | list[str] | None] = Field(
        default_factory=dict, description="names of the columns, by role; which roles there are, and what they are "
                                          "called if left out, the layout says")
    ingest: dict[str, Any] = Field(default_factory=dict, description="what differs from the block `ingest`")
    encoding: Encoding = Field("utf-8", description="of text files; named by whoever knows it, never guessed; left "
                                                    "out, it is latin-1 for trec, cp1252 for rt_polarity and text_gcn; "
                                                    "a post of newsgroups that is not of it is read as latin-1")
    quoting: Literal["standard", "none"] = Field("standard", description="of CSV and TSV: RFC 4180, or none at all")
    separator: Separator | None = Field(None, description="of the columns of CSV and TSV: `,` `;` `|` or a tab; null: "
                                                          "a comma in .csv, a tab in .tsv")
    language: str = Field("en", pattern="^[a-z]{2}$")
    turn_mark: str = Field("[SEP]", min_length=1, description="dialogue: what separates the turns of a context that "
                                                              "comes as one text; turns are joined by [SEP]")
    join_han: bool = Field(False, description="take out the spaces between Chinese characters that word-segmented "
                                              "texts have")
    side_by_side: bool = Field(False, description="also find keywords by every other method, and compare, "
                                                  "which trains a pair classifier, word vectors and the S-Tagger; "
                                                  "models that read one of these have it trained anyway")
    keywords: bool = Field(True, description="annotate the texts and find their keywords; labelled texts, which are "
                                             "classified without, may say false")
    watched: str = Field(ROWS["datasets", "watched"].nothing, description=WATCHED.format("`ingest.neg_encoder`"))

    _layout_fills = model_validator(mode="before")(_filled)

    @model_validator(mode="after")
    def _files_are_of_one_structure(self) -> "Dataset":
        wanted = LAYOUTS[self.layout].structure
        for entry in chain(self.files, *self.splits.values()):
            if isinstance(entry, OwnColumns) and (found := LAYOUTS[entry.layout]).structure != wanted:
                raise ValueError(f"{entry.name}: its layout {entry.layout} gives {found.structure}, but {self.layout} "
                                 f"gives {wanted}. Files of two structures are two data sets")
            if isinstance(entry, OwnColumns) and found.folders is not None:
                raise ValueError(f"{entry.name}: layout {entry.layout} reads folders, which have no columns")
        return self

    @model_validator(mode="after")
    def _keywords_fit_layout(self) -> "Dataset":
        if not self.keywords and LAYOUTS[self.layout].structure != "labelled":
            kind = "pairs, which are joined by their keywords" if is_paired(self.layout) else "texts without classes"
            raise ValueError(f"layout {self.layout} is of {kind}; keywords: false is for labelled texts")
        return self


class Ingest(Block):
    """De-duplication, triples and splits (METHODS A.1)."""

    qqp_rule: Literal["undirected_one", "undirected_all", "undirected_zip", "question1_one", "question1_all",
                      "question1_zip"] = "undirected_one"
    neg_source: Literal["given", "labelled", "retrieved", "mined", "none"] = Field(
        "labelled", description="retrieved: by overlap of words (stories, dialogues: roc_neg, douban_neg); mined: the "
                                "text, of stories and dialogues the output, nearest to the input by `neg_encoder`")
    neg_encoder: str = Field("bundled", pattern=r"^(bundled|hub:.+|path:.+)$",
                             description="frozen, of whatever source `encoder` has; embeds texts for `mined`, on the "
                                         "CPU by one thread")
    neg_ceiling: float | None = Field(0.8, gt=0, le=1, description="mined: cosine above which a text is taken for a "
                                                                   "paraphrase that nobody labelled, on the scale of "
                                                                   "the bundled encoder; null: none is")
    told_apart: bool = Field(False, description="also count the items whose output `neg_encoder` finds nearer to the "
                                                "input than the negative; counted anyway where they are mined")
    neg_pick: Literal["hardest", "random"] = "hardest"
    negatives: int = Field(1, ge=1, description="negatives per item, best first; the further ones serve the contrast "
                                               "between instances alone")
    split_by: Literal["component", "hashed", "pair"] = Field(
        "component", description="what is in one split: component fills the shares to the item; hashed draws each "
                                 "component by a hash of seed and texts, so that data sets of the same files agree, "
                                 "whatever items they make; pair lets texts be in several splits")
    douban_neg: Literal["scored", "bm25", "random"] = Field(
        "scored", description="dialogues, neg_source retrieved: worst score among the candidates of similar contexts; "
                              "response to the most similar context of the split by BM25; response of any item")
    roc_mode: Literal["ending", "next_sentence", "lead_to_rest"] = Field(
        "ending", description="stories: sentences 1-4 give 5; every beginning gives the next; the first gives the rest")
    roc_neg: Literal["bm25", "random"] = Field(
        "bm25", description="stories, neg_source retrieved: output of the story of the split whose input is most "
                            "similar by BM25, or of any")
    caption_source: Literal["random", "first", "each"] = Field(
        "random", description="which caption of a group is the source; each: every one once, the next one its target")
    labelled_copies: Literal["drop", "keep"] = Field(
        "drop", description="labelled texts that occur more than once: drop keeps one, that of the evaluated split, "
                            "and none whose class is in dispute; keep takes every row, so that counts are as "
                            "published, and reports the copies")
    ng_strip: Literal["none", "headers", "headers_footers_quotes"] = Field(
        "none", description="labelled texts that are posts of newsgroups: what is taken off them (METHODS D.4)")
    captions: int | None = Field(None, ge=2, description="distinct captions that a group must have, neither more nor "
                                                         "fewer; null: any number from two")
    validation: float = Field(0.05, gt=0, lt=0.5, description="share of examples")
    test: float = Field(0.05, gt=0, lt=0.5, description="share of examples")
    train_part: tuple[float, float] | None = Field(
        None, description="hashed: training items whose component a second hash draws into this range of [0, 1); data "
                          "sets of the same files with other ranges share none of them; null: all")
    max_train: int | None = Field(None, ge=1, description="keep a seeded sample of at most so many")
    max_validation: int | None = Field(None, ge=1)
    max_test: int | None = Field(None, ge=1)
    max_rejected: float = Field(0.01, ge=0, le=1, description="share of rows above which the stage fails")

    @model_validator(mode="after")
    def _train_part_is_one(self) -> "Ingest":
        if self.train_part is not None and not 0 <= self.train_part[0] < self.train_part[1] <= 1:
            raise ValueError(f"ingest.train_part is a lower and a higher share of [0, 1], found "
                             f"{list(self.train_part)}; write [0, 0.5], say, or null")
        if self.train_part is not None and self.split_by != "hashed":
            raise ValueError(f"ingest.train_part draws components by a hash and needs ingest.split_by: hashed, found "
                             f"{self.split_by}")
        return self


class Annotate(Block):
    """Tokens, lemmas, parts of speech."""

    pipeline: str = Field("embedded", description="embedded (English; jieba for Chinese), jieba, an installed spaCy "
                                                  "package, or a folder with a slash in it (./FOLDER)")
    chunk: int = Field(4096, ge=1, description="texts per chunk, after which spaCy's memory and caches are emptied; "
                                               "the same bytes for any number of workers")


class TextRank(Block):
    """Ranked phrases of each text (METHODS A.2)."""

    method: Literal["mihalcea", "pytextrank", "positionrank", "tfidf", "topicrank", "biasedtextrank"] = Field(
        "pytextrank", description="mihalcea: TextRank as printed, whose keywords are the worst of all that were read; "
                                  "tfidf: IDF over the training texts, occurrences and position, without a graph; "
                                  "topicrank and biasedtextrank: with engine package alone")
    compat: Literal["none", "pytextrank"] = Field("none", description="pytextrank: agree with that package phrase for "
                                                                      "phrase, its quirks included")
    engine: Literal["ours", "package"] = Field("ours", description="package: run the pytextrank package itself, text "
                                                                   "by text")
    phrases: int = Field(5, ge=1, description="phrases kept per text")
    damping: float = Field(0.85, gt=0, lt=1)
    tolerance: float = Field(1e-11, gt=0, description="absolute: largest change of a score at which iteration stops; "
                                                      "equal scores are told by nine digits, which the paper's 1e-4 "
                                                      "does not give")
    max_iterations: int = Field(100, ge=1)
    window: int | None = Field(None, ge=2, description="words of a co-occurrence window; null is the method's own")
    focus: str = Field("", description="biasedtextrank: the words that the ranking leans to")
    chunks: Literal["auto", "annotated", "adjectives"] = Field(
        "auto", description="noun chunks that are phrases, of all methods but mihalcea: those of the annotation (nouns "
                            "alone, which meet more often in a graph), or with adjectives, participles and hyphens; "
                            "auto: these, but in Chinese and where the package is followed")
    whole: bool = Field(False, description="mihalcea: phrases are whole runs of nouns and adjectives around a kept "
                                           "word (black money), not kept words alone (black)")

    @model_validator(mode="after")
    def _compat_exists(self) -> "TextRank":
        foreign = self.method in ("mihalcea", "tfidf")
        if self.compat == "pytextrank" and foreign:
            raise ValueError(f"textrank.compat: pytextrank has no method {self.method}; choose pytextrank or "
                             f"positionrank, or set compat to none")
        if self.method in ("topicrank", "biasedtextrank") and self.engine != "package":
            raise ValueError(f"textrank.method: {self.method} is computed by the pytextrank package alone; set "
                             f"textrank.engine to package, or choose another method")
        if self.engine == "package" and foreign:
            raise ValueError(f"textrank.engine: the pytextrank package has no method {self.method}; choose pytextrank, "
                             f"positionrank, biasedtextrank or topicrank, or set engine to ours")
        if self.engine == "package" and (self.damping, self.max_iterations) != (0.85, 100):
            raise ValueError("textrank.engine: the pytextrank package has a damping of 0.85 and 100 iterations; set "
                             "damping and max_iterations so, or engine to ours")
        if self.method == "biasedtextrank" and not self.focus.strip():
            raise ValueError("textrank.focus: biasedtextrank needs the words that it leans to")
        return self


class Yake(Block):
    """Ranked phrases of each text by YAKE, the package ``yake``."""

    phrases: int = Field(5, ge=1, description="phrases kept per text")
    # With two stop words inside a phrase, the package's scores may be negative.
    ngrams: int = Field(3, ge=1, le=3, description="words of a phrase at most")


class EmbedRank(Block):
    """Ranked phrases of each text by embeddings, IDF and position."""

    phrases: int = Field(5, ge=1, description="phrases kept per text")
    encoder: str = Field("bundled", pattern=r"^(bundled|hub:.+|path:.+)$",
                         description="frozen, of whatever source `encoder` has; on the CPU by one thread per worker")
    max_length: int = Field(256, ge=8, description="word pieces of a text that are read")
    chunks: Literal["auto", "annotated", "adjectives"] = Field("auto", description="as `textrank.chunks`")


class PairClassifier(Block):
    """Classifier of sentence pairs whose gradients become keyword scores (METHODS C.2)."""

    stage1_neg: Literal["random2", "released"] = "random2"
    max_sources: int | None = Field(None, ge=1, description="seeded sample of training pairs; null takes all")
    max_length: int = Field(51, ge=8, description="word pieces of a pair, special tokens included")
    learning_rate: float = Field(2e-5, gt=0)
    batch_size: int = Field(128, ge=1)
    epochs: int = Field(5, ge=1)
    clip: float = Field(1.0, gt=0)
    precision: Literal["fp32", "bf16"] = Field("fp32", description="of the matrix products; losses are always fp32")
    freeze_layers: int = Field(0, ge=0, description="lowest encoder layers (and embeddings) kept frozen")


# What METHODS C.2 has as the paper's reading, and what the released code does.
_ATTRIBUTION_PRESETS: dict[str, dict[str, Any]] = {
    "paper": {"method": "gradient", "attr_target": "pos_logit", "argmax_of": "row", "embedding": "lookup",
              "token_types": True, "normalisation": "minmax"},
    "released": {"method": "gradient", "attr_target": "argmax_logit", "argmax_of": "first_row",
                 "embedding": "block_output", "token_types": False, "normalisation": "minmax"},
}


class Attribution(Switches):
    """Saliency of source words (METHODS C.2)."""

    presets: ClassVar[Presets] = _ATTRIBUTION_PRESETS

    preset: Literal["paper", "released"] | None = Field(None, description="sets every switch below at once")
    method: Literal["gradient", "integrated_gradients", "siamese"] = "gradient"
    attr_target: Literal["pos_logit", "argmax_logit", "logit_diff", "pos_prob"] = "pos_logit"
    argmax_of: Literal["row", "first_row"] = Field(
        "row", description="first_row: the class of the batch's first row for all, a bug of the released code")
    embedding: Literal["lookup", "block_output"] = Field(
        "lookup", description="block_output: the embedding block's output fed in again, a bug of the released code")
    token_types: bool = Field(True, description="false: the pass that is differentiated does not tell segments apart, "
                                                "a bug of the released code")
    normalisation: Literal["minmax", "max", "sum"] = "minmax"
    modes: list[Literal["xx", "xy"]] = ["xx", "xy"]
    steps: int = Field(32, ge=1, description="integrated_gradients and siamese: points of the path")
    batch_size: int = Field(64, ge=1, description="rows of a forward pass: pairs, or points of their paths")

    @model_validator(mode="after")
    def _switches_fit(self) -> "Attribution":
        if self.argmax_of == "first_row" and self.attr_target != "argmax_logit":
            raise ValueError(f"argmax_of first_row is about attr_target argmax_logit, and attr_target is "
                             f"{self.attr_target}; set argmax_of to row, or attr_target to argmax_logit")
        idle = [f"{name} {getattr(self, name)}" for name in ("attr_target", "argmax_of", "embedding", "token_types")
                if getattr(self, name) != type(self).model_fields[name].default]
        if self.method == "siamese" and idle:
            raise ValueError(f"method siamese has no pair classifier, so these mean nothing to it: "
                             f"{', '.join(idle)}. Take them out, or choose another method")
        return self


class WordVectors(Block):
    """Word vectors: read from a file, or trained on the training split."""

    source: str = Field("train", pattern="^(train|path:.+)$",
                        description="train, or path:FILE (word2vec or GloVe text, fastText .vec, each also as .gz)")
    size: int = Field(100, ge=2, description="train: width")
    window: int = Field(5, ge=1, description="train")
    min_count: int = Field(1, ge=1, description="train: rarer words have no vector")
    epochs: int = Field(10, ge=1, description="train")
    isotropic: bool = Field(True, description="train: take off the mean vector and scale to length 1; vectors of few "
                                              "texts point one way and are longest for the most frequent words")


class Psi(Block):
    """Primary words by paired semantic importance (METHODS C.7, IANet)."""

    alpha: float = Field(0.1, description="a word is primary if its importance exceeds this")
    ties: Literal["ordinal", "average"] = "ordinal"
    modes: list[Literal["xx", "xy"]] = ["xx", "xy"]


class STagger(Block):
    """The tagger of primary words that needs no target (METHODS C.7, IANet+S)."""

    min_count: int = Field(2, ge=1, description="rarer words of the training sources are read as unknown, which so has "
                                                "an embedding that was trained")
    embedding: int = Field(300, ge=1)
    hidden: int = Field(512, ge=1)
    layers: int = Field(2, ge=1)
    learning_rate: float = Field(2e-5, gt=0)
    batch_size: int = Field(128, ge=1)
    epochs: int = Field(60, ge=1)
    clip: float = Field(1.0, gt=0)
    precision: Literal["fp32", "bf16"] = Field("fp32", description="of the matrix products; the LSTM keeps fp32")


class SideBySide(Block):
    """The keywords of every method beside each other."""

    top: int = Field(3, ge=1, description="keywords per text and method")


class Keywords(Block):
    """Which ranking names the keyword of a text."""

    method: str = Field("textrank", description=f"{', '.join(NAMING)}; {', '.join(FOR_ANY_TEXT)} read nothing but the "
                                                f"text, the others need a data set of pairs, from which they learn")
    by_dataset: dict[str, str] = Field(default_factory=dict, description="data sets whose keywords another method "
                                                                         "names, and which")
    kw_lemma: bool = Field(False, description="normal form by lemmas, not only in lower case")

    @field_validator("method", "by_dataset")
    @classmethod
    def _method_exists(cls, given: Any) -> Any:
        for name in given.values() if isinstance(given, Mapping) else [given]:
            if name not in NAMING:
                raise ValueError(f"no value is called {name!r}; {nearest(name, NAMING)}")
        return given


# HCL 3.1 has no caps, and links no input keywords; texts that "contain the same keyword" are a cluster.
_GRAPH_PRESETS: dict[str, dict[str, Any]] = {
    "paper": {"cluster_by": "contains", "max_nbr": None, "max_cluster_outputs": None, "link_inputs": False}}


class Graph(Switches):
    """The keyword graph (METHODS A.3)."""

    presets: ClassVar[Presets] = _GRAPH_PRESETS

    preset: Literal["paper"] | None = Field(None, description="paper: clusters by containment, no links of inputs, no "
                                                              "caps")
    cluster_by: Literal["top", "contains"] = Field("top", description="a cluster has the inputs whose keyword it is, "
                                                                      "or all that contain it, word by word")
    max_nbr: int | None = Field(16, ge=1, description="neighbours kept per node and sign, by count; null keeps all")
    max_cluster_outputs: int | None = Field(512, ge=1, description="distinct outputs kept per cluster, by count; null "
                                                                   "keeps all")
    link_inputs: bool = True
    resolution: float = Field(1.0, gt=0, description="of the communities: higher gives more and smaller ones")


class CharacterEncoder(Block):
    """An encoder of word pieces of a data set's own (`encoder.source: characters:<data set>`)."""

    min_count: int = Field(2, ge=1, description="rarer characters are unknown, Latin letters and digits never")
    min_word_count: int = Field(5, ge=1, description="rarer words of several characters are spelt")
    size: int = Field(256, ge=2, description="width; the layers' heads divide it")
    layers: int = Field(4, ge=1)
    heads: int = Field(4, ge=1)
    feed_forward: int = Field(1024, ge=1)
    window: int = Field(5, ge=1, description="of the skip-gram vectors, in pieces")
    epochs: int = Field(5, ge=1, description="likewise")


class NodeVectors(Block):
    """Initial node vectors (METHODS A.3)."""

    pooling: Literal["mean", "cls"] = "mean"
    batch_size: int = Field(64, ge=1)
    max_length: int = Field(128, ge=8)
