"""Which params each stage depends on; ``dvc.yaml`` says the same, and a test compares the two."""

from typing import Any

from stages.params.root import Params
from stages.runtime.fingerprint import hash_values

# What decides the bytes of matrix products: in a training, whose own block says the precision, and anywhere else.
_TRAINING = ("runtime.threads", "runtime.deterministic", "runtime.tf32")
_COMPUTING = (*_TRAINING, "runtime.precision")
# ``{key}`` is the stage's instance: a data set, a model or a run.
STAGE_PARAMS: dict[str, tuple[str, ...]] = {
    "ingest": ("seed", "ingest", "datasets.{key}"),
    "annotate": ("annotate", "datasets.{key}.language"),
    "textrank": ("textrank", "datasets.{key}.language"),
    "yake": ("yake", "datasets.{key}.language"),
    "pair_classifier": ("seed", *_TRAINING, "encoder", "pair_classifier"),
    "attribution": (*_COMPUTING, "encoder", "attribution"),
    "word_vectors": ("seed", "word_vectors"),
    "psi": ("psi",),
    "s_tagger": ("seed", *_TRAINING, "s_tagger"),
    "keywords": ("keywords",),
    "side_by_side": ("seed", "side_by_side", "datasets.{key}.language"),
    "clusters": (),
    "graph": ("graph",),
    "node_vectors": (*_COMPUTING, "encoder", "node_vectors"),
    "train_hcl": ("seed", *_TRAINING, "encoder", "node_vectors", "train_hcl",
                  "models.hcl.{key}"),
    "generate_hcl": ("seed", *_COMPUTING, "generate_hcl", "runs.hcl.{key}"),
    "evaluate_hcl": ("seed", *_COMPUTING, "encoder", "evaluate_hcl", "runs.hcl.{key}"),
    "probe_hcl": ("seed", *_COMPUTING, "probe_hcl", "probes.hcl.{key}"),
    "paraphrase_items": ("paraphrase_items", "paraphrase_datasets.{key}"),
    "train_pgkpr": ("seed", *_TRAINING, "paraphrase_items.max_length", "train_pgkpr",
                    "models.pgkpr.{key}"),
    "generate_pgkpr": ("seed", *_COMPUTING, "generate_pgkpr", "runs.pgkpr.{key}"),
    "evaluate_pgkpr": ("seed", *_COMPUTING, "encoder", "paraphrase_items.max_length",
                       "evaluate_hcl", "evaluate_pgkpr", "runs.pgkpr.{key}"),
    "linear_floor": ("linear_floor",),
    "train_clld": ("seed", *_TRAINING, "encoder", "train_clld", "models.clld.{key}"),
    "confusing_pairs": ("confusing_pairs",),
    "evaluate_clld": ("seed", *_COMPUTING, "evaluate_hcl", "evaluate_clld",
                      "runs.clld.{key}"),
    "headlines": ("recipe", "models", "runs"),
    "compare": ("seed", "compare", "models", "runs"),
    "report": ("recipe", "seed", "datasets", "encoder", "train_pgkpr", "generate_pgkpr", "train_clld", "report",
               "models", "runs", "probes"),
}


def stage_values(params: Params, stage: str, key: str = "") -> dict[str, Any]:
    """Return the plain values of every param that stage instance ``stage@key`` depends on."""
    values: dict[str, Any] = {}
    tree = params.model_dump(mode="json")
    for name in STAGE_PARAMS[stage]:
        node: Any = tree
        # Instance names may hold dots, so the key is put in after the template is split.
        for part in name.split("."):
            node = node[key if part == "{key}" else part]
        values[name.replace("{key}", key)] = node
    return values


def stage_hash(params: Params, stage: str, key: str = "") -> str:
    """Return the hash of :func:`stage_values`, as stored in the metadata of the stage's artifacts."""
    return hash_values(stage_values(params, stage, key))
