"""Every path of data and artifacts, relative to its root; ``dvc.yaml`` is compared with this module by a test."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

ARTIFACTS = Path("artifacts")
DATA = ARTIFACTS / "data"
MANIFESTS = ARTIFACTS / "manifests"
REPORT = ARTIFACTS / "report"
REPORT_PAGE = REPORT / "index.html"
COMPARISON = ARTIFACTS / "comparison"
METRICS = Path("metrics")
PARAMS = Path("params.yaml")
RECIPES = Path("recipes")


def seeded_name(name: str, seed: int, seeds: Collection[int]) -> str:
    """Return what results call a model or run under one of its seeds: ``hcl/14``; ``hcl`` if it has no other."""
    return name if len(seeds) == 1 else f"{name}/{seed}"


def row_name(name: str) -> str:
    """Return the name in the params of what results call ``name``, such as ``hcl`` of ``hcl/14``."""
    return name.partition("/")[0]


# Tables that one stage writes together lie in a folder.
_INSIDE = {**dict.fromkeys(("examples", "texts", "rejected"), "items"),
           **dict.fromkeys(("clusters", "nodes", "edges"), "graph"),
           **dict.fromkeys(("phrase_nodes", "phrase_edges", "phrase_texts"), "graph/phrases"),
           **dict.fromkeys(("node_vectors", "text_vectors"), "vectors")}


@dataclass(frozen=True)
class DatasetPaths:
    """The artifacts of one data set: ``artifacts/data/<name>/``."""

    name: str

    @property
    def folder(self) -> Path:
        """The data set's folder."""
        return DATA / self.name

    def table(self, kind: str) -> Path:
        """Folder of the table ``kind`` (the name of its schema)."""
        return self.folder / _INSIDE.get(kind, "") / kind

    def metrics(self, stage: str) -> Path:
        """Path of the counts that a data stage reports as DVC metrics."""
        return self.folder / "metrics" / f"{stage}.json"

    @property
    def pair_classifier(self) -> Path:
        """Folder of the trained pair classifier (Hugging Face layout)."""
        return self.folder / "pair_classifier"

    @property
    def character_encoder(self) -> Path:
        """Folder of the encoder of its own word pieces (Hugging Face layout)."""
        return self.folder / "character_encoder"

    @property
    def s_tagger(self) -> Path:
        """Folder of the trained tagger of primary words (Hugging Face layout)."""
        return self.folder / "s_tagger"

    @property
    def pos_frequency(self) -> Path:
        """Folder of the picture of keywords by part of speech."""
        return self.folder / "pos_frequency"


MODELS, RUNS, PREDICTED, PROBES, CONFUSED = (
    ARTIFACTS / name for name in ("models", "runs", "predictions", "probes", "confusing_pairs"))


@dataclass(frozen=True)
class ModelPaths:
    """A trained model: ``artifacts/models/<name>/<seed>/``."""

    name: str
    seed: int

    @property
    def folder(self) -> Path:
        """The model's folder."""
        return MODELS / self.name / str(self.seed)

    @property
    def weights(self) -> Path:
        """Folder in Hugging Face layout (``config.json``, ``model.safetensors``, tokenizer, card)."""
        return self.folder / "model"

    @property
    def history(self) -> Path:
        """One row per epoch: every part of the loss and every monitor."""
        return self.folder / "history.csv"

    @property
    def metrics(self) -> Path:
        """Best epoch, validation values and alarms of the training."""
        return self.folder / "metrics.json"

    @property
    def items(self) -> Path:
        """Training and evaluation items as plain texts, so that a run needs the model's folder alone."""
        return self.folder / "items.parquet"

    @property
    def paraphrase_items(self) -> Path:
        """The evaluated pairs of a model of the PGKPR track as words, with tags and keyword scores."""
        return self.folder / "paraphrase_items.parquet"

    def table(self, kind: str) -> Path:
        """Path of ``validation_confusion`` or ``label_distance`` of a model of the CLLD track."""
        return self.folder / f"{kind}.parquet"

    @property
    def confusing_pairs(self) -> Path:
        """Pairs of classes that a model of the CLLD track confuses; another stage writes them."""
        return CONFUSED / self.name / str(self.seed) / "confusing_pairs.parquet"

    @property
    def evaluations(self) -> Path:
        """Evaluations within epochs of an adaptive model of the CLLD track."""
        return self.folder / "evaluations.csv"

    @property
    def vocabulary(self) -> Path:
        """Vocabulary of a model of the PGKPR track as a table, so that its runs are scored without its weights."""
        return self.folder / "vocabulary.parquet"


@dataclass(frozen=True)
class ProbePaths:
    """What a probed model does with keywords and latent space: ``artifacts/models/<model>/…`` is not touched."""

    name: str

    @property
    def folder(self) -> Path:
        """The probe's folder."""
        return PROBES / self.name

    def table(self, kind: str) -> Path:
        """Path of ``latent`` or ``keyword_swap``."""
        return self.folder / f"{kind}.parquet"

    @property
    def metrics(self) -> Path:
        """How often the output shows the keyword that it was given."""
        return self.folder / "metrics.json"

    @property
    def figures(self) -> Path:
        """Folder of the t-SNE picture, SVG and PNG."""
        return self.folder / "figures"


@dataclass(frozen=True)
class RunPaths:
    """A row of a results table under one seed of its model: ``artifacts/runs/<name>/<seed>/`` and predictions beside.
    """

    name: str
    seed: int

    @property
    def folder(self) -> Path:
        """The folder of the run's scores."""
        return RUNS / self.name / str(self.seed)

    @property
    def predictions(self) -> Path:
        """Generated texts or classes, a row per example of the evaluated split: in a folder that a stage owns alone."""
        return PREDICTED / self.name / str(self.seed) / "predictions.parquet"

    def generated(self, kind: str) -> Path:
        """Path of a table that is generated: ``predictions``, or beside it ``likelihoods``."""
        return self.predictions.with_name(f"{kind}.parquet")

    def file(self, name: str) -> Path:
        """Path of a file of the run, by the name that it has in its folder."""
        return self.predictions if name == self.predictions.name else self.folder / name

    @property
    def metrics(self) -> Path:
        """Corpus metrics of the run and of the floors on the same examples."""
        return self.folder / "metrics.json"

    def table(self, kind: str) -> Path:
        """Path of ``classes``, ``confusion`` or ``calibration`` of a run of the CLLD track."""
        return self.folder / f"{kind}.parquet"

    @property
    def scores(self) -> Path:
        """Per-example scores behind the metrics."""
        return self.folder / "scores.parquet"


def manifest_path(recipe: str, kind: str, name: str) -> Path:
    """Return where it is listed what a stage made under a recipe; ``kind`` is ``data``, ``runs`` or ``probes``."""
    return MANIFESTS / recipe / kind / f"{name}.json"


def corpus_page(dataset: str) -> Path:
    """Return the page of a data set's keywords and graph."""
    return ARTIFACTS / "corpus_pages" / f"{dataset}.html"


def old_layout(root: Path = Path()) -> str | None:
    """Return what to say of artifacts of data sets that lie as they once did; None where there are none."""
    found = sorted(path.parent.name for path in (root / ARTIFACTS).glob("*/texts.parquet"))
    if not found:
        return None
    return (f"{ARTIFACTS}/{found[0]} is of an older version, whose data sets lay in {ARTIFACTS}/NAME. They lie in "
            f"{DATA}/NAME now and are made anew; the old folders ({', '.join(found)}) may be deleted "
            f"(docs/old-names.md).")


@dataclass(frozen=True)
class HeadlinePaths:
    """What git keeps of the results under a recipe, rounded: ``metrics/<recipe>/``."""

    recipe: str

    @property
    def folder(self) -> Path:
        """The recipe's folder."""
        return METRICS / self.recipe

    def metrics(self, track: str) -> Path:
        """A few numbers per run of a track."""
        return self.folder / f"{track}.json"

    @property
    def curves(self) -> Path:
        """Folder of the learning curves, one table per track."""
        return self.folder / "curves"

    @property
    def confusion(self) -> Path:
        """Folder of actual and predicted classes, one table per run of the CLLD track."""
        return self.folder / "confusion"
