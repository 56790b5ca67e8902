"""Every path of data and artifacts, relative to the project; a test compares ``dvc.yaml`` with this module."""

from collections.abc import Collection
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
    """Return the name in results of a model or run under one of its seeds: ``hcl/14``, or ``hcl`` if it has one."""
    return name if len(seeds) == 1 else f"{name}/{seed}"


def row_name(name: str) -> str:
    """Return the name in the params for a name in results: ``hcl`` for ``hcl/14``."""
    return name.partition("/")[0]


# Tables that one stage writes together share a folder.
_INSIDE = {**dict.fromkeys(("examples", "texts", "rejected"), "items"),
           **dict.fromkeys(("clusters", "nodes", "edges"), "graph"),
           **dict.fromkeys(("phrase_nodes", "phrase_edges", "phrase_texts"), "graph/phrases"),
           **dict.fromkeys(("node_vectors", "text_vectors"), "vectors")}


class DatasetPaths:
    """The artifacts of one data set, below ``artifacts/data/<name>/``."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.folder = DATA / name
        self.pair_classifier = self.folder / "pair_classifier"
        self.character_encoder = self.folder / "character_encoder"
        self.s_tagger = self.folder / "s_tagger"
        self.pos_frequency = self.folder / "pos_frequency"

    def table(self, kind: str) -> Path:
        """Return the folder of the table ``kind``, the name of its schema."""
        return self.folder / _INSIDE.get(kind, "") / kind

    def metrics(self, stage: str) -> Path:
        """Return the file of the counts that a data stage reports as DVC metrics."""
        return self.folder / "metrics" / f"{stage}.json"


MODELS, RUNS, PREDICTED, PROBES, CONFUSED = (
    ARTIFACTS / name for name in ("models", "runs", "predictions", "probes", "confusing_pairs"))


class ModelPaths:
    """A trained model, below ``artifacts/models/<name>/<seed>/``."""

    def __init__(self, name: str, seed: int) -> None:
        self.name, self.seed = name, seed
        self.folder = MODELS / name / str(seed)
        self.weights = self.folder / "model"  # Hugging Face layout
        self.history = self.folder / "history.csv"  # a row per epoch
        self.metrics = self.folder / "metrics.json"  # best epoch, validation values and alarms
        # Items as plain texts, so that a run reads the model's folder alone.
        self.items = self.folder / "items.parquet"
        # Of PGKPR: the evaluated pairs as words with tags and keyword scores, and the vocabulary.
        self.paraphrase_items = self.folder / "paraphrase_items.parquet"
        self.vocabulary = self.folder / "vocabulary.parquet"
        # Pairs of classes that a CLLD model confuses, which another stage writes.
        self.confusing_pairs = CONFUSED / name / str(seed) / "confusing_pairs.parquet"

    def table(self, kind: str) -> Path:
        """Return the file of ``validation_confusion`` or ``label_distance`` of a CLLD model."""
        return self.folder / f"{kind}.parquet"


class ProbePaths:
    """The results of probing a model, below ``artifacts/probes/<name>/``."""

    def __init__(self, name: str) -> None:
        self.folder = PROBES / name
        self.metrics = self.folder / "metrics.json"
        self.figures = self.folder / "figures"

    def table(self, kind: str) -> Path:
        """Return the file of ``latent`` or ``keyword_swap``."""
        return self.folder / f"{kind}.parquet"


class RunPaths:
    """A row of a results table under one seed of its model: ``artifacts/runs/<name>/<seed>/`` and its predictions."""

    def __init__(self, name: str, seed: int) -> None:
        self.name, self.seed = name, seed
        self.folder = RUNS / name / str(seed)
        # Generated texts or classes, one row per example, in a folder of its own since another stage writes it.
        self.predictions = PREDICTED / name / str(seed) / "predictions.parquet"
        # Corpus metrics of the run and of the trivial baselines, and the scores of each example.
        self.metrics = self.folder / "metrics.json"
        self.scores = self.folder / "scores.parquet"

    def generated(self, kind: str) -> Path:
        """Return the file of a generated table: ``predictions`` or ``likelihoods``."""
        return self.predictions.with_name(f"{kind}.parquet")

    def table(self, kind: str) -> Path:
        """Return the file of ``classes``, ``confusion`` or ``calibration`` of a CLLD run."""
        return self.folder / f"{kind}.parquet"


def manifest_path(recipe: str, kind: str, name: str) -> Path:
    """Return the file that lists the artifacts of ``name``; ``kind`` is ``data``, ``runs`` or ``probes``."""
    return MANIFESTS / recipe / kind / f"{name}.json"


def corpus_page(dataset: str) -> Path:
    """Return the page of a data set's keywords and graph."""
    return ARTIFACTS / "corpus_pages" / f"{dataset}.html"


class HeadlinePaths:
    """The rounded results under a recipe that git tracks, below ``metrics/<recipe>/``."""

    def __init__(self, recipe: str) -> None:
        self.folder = METRICS / recipe
        self.curves = self.folder / "curves"  # a table per track
        self.confusion = self.folder / "confusion"  # a table per CLLD run

    def metrics(self, track: str) -> Path:
        """Return the file with a few numbers per run of a track."""
        return self.folder / f"{track}.json"
