"""Files and folders that params name: every such param is known, and each makes stale the stages that read it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
import tiny_project
from pydantic import BaseModel

from pipeline.dag import open_repo
from pipeline.sources import check_sources
from stages.params import parse_params
from stages.params.root import Params
from stages.params.watched import BLOCKS, ROWS
from stages.run.errors import InputError

PRETRAINED = ("dialogpt", "t5", "t5_claps", "simctg")
EVALUATED = {"evaluate_hcl@hcl", "evaluate_pgkpr@pgkpr"}
# What may name a file or a folder, and the stages of the project below that read it.
READ_BY = {
    "datasets.source": {"ingest@tiny"},
    "encoder.source": {"pair_classifier@tiny", "attribution@tiny", "node_vectors@tiny", "train_hcl@hcl",
                       "train_clld@own", "linear_floor@questions", *(f"train_hcl@{name}" for name in PRETRAINED),
                       *EVALUATED},
    "ingest.neg_encoder": {"ingest@tiny"},
    "annotate.pipeline": {"annotate@tiny"},
    "embedrank.encoder": {"embedrank@tiny"},
    "word_vectors.source": {"word_vectors@tiny"},
    "evaluation.bertscore.encoder": EVALUATED,
    "evaluation.emb": EVALUATED,
    "models.hcl.init_from": {"train_hcl@hcl"},
    "models.pgkpr.init_from": {"train_pgkpr@pgkpr"},
    "models.clld.encoder": {"train_clld@own"}, "train_clld.distance.source": {"train_clld@own"},
    **{f"train_hcl.{name}.source": {f"train_hcl@{name}"} for name in PRETRAINED}}
# Texts of any kind that name none: names of rows, columns, methods, encodings; words; addresses; what is filled in.
NAMES_NO_FILE = {"artifacts.url", "cluster.scheduler_file", 
    "recipe", "cluster.address",
    *(f"datasets.{part}{name}" for part in ("files.", "splits.") for name in ("name", "layout", "columns", "encoding")),
    *(f"datasets.{name}" for name in ("layout", "columns", "ingest", "encoding", "language", "turn_mark", "watched")),
    "text_datasets.method", "keyword_datasets.method",
    *(f"paraphrase_datasets.{name}" for name in ("psi", "s_tags", "textrank")),
    "own_encoders.watched", *(f"watched.{name}" for name in BLOCKS), "textrank.focus", "keywords.method",
    "keywords.by_dataset", "train_hcl.architecture", "train_hcl.t5.prefix", "train_hcl.t5_claps.prefix",
    "generate_hcl.keyword", "probe_hcl.given",
    *(f"models.{track}.{name}" for track in ("hcl", "pgkpr") for name in ("dataset", "starts_from", "overrides")),
    "models.hcl.watched", *(f"models.clld.{name}" for name in ("dataset", "pairs", "pairs_of", "pairs_from", "watched",
                                                               "distances_from", "overrides")),
    *(f"runs.{track}.{name}" for track in ("hcl", "pgkpr") for name in ("model", "decode")), "runs.clld.model",
    "runs.clld.dataset", "probes.hcl.model", "report.remark_on_alarms"}


def blocks(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [block for inner in get_args(annotation) for block in blocks(inner)]


def holds_text(annotation: Any) -> bool:
    return annotation in (str, Any) or (get_origin(annotation) is not Literal
                                        and any(map(holds_text, get_args(annotation))))


def texts_of(model: type[BaseModel], place: str = "") -> Iterator[tuple[str, str]]:
    """Yield every param whose value is a text that the type does not list, and what is asked of it."""
    for name, field in model.model_fields.items():
        inner = blocks(field.annotation)
        for block in inner:
            yield from texts_of(block, f"{place}{name}.")
        if not inner and holds_text(field.annotation):
            yield f"{place}{name}", str(field.metadata)


def test_every_param_that_is_a_text_is_known_to_name_a_file_or_not():
    """A new one goes into READ_BY, with its place in `stages.params.watched`, or among those that name no file."""
    found = dict(texts_of(Params))
    assert found.keys() == READ_BY.keys() | NAMES_NO_FILE and not READ_BY.keys() & NAMES_NO_FILE
    with_path = {name for name, asked in found.items() if "path" in asked}
    assert len(with_path) >= 10 and with_path <= READ_BY.keys()


def outside(param: str) -> str:
    return f"path:elsewhere/{param}"


def params() -> dict[str, Any]:
    """Every param of READ_BY names a folder of its own."""
    given = tiny_project.params()
    tiny = {**given["datasets"]["tiny"], "source": "elsewhere/datasets.source",
            "ingest": {"neg_encoder": outside("ingest.neg_encoder")}}
    rows = {name: {"dataset": "tiny", "overrides": {
        "architecture": name, name: {"source": outside(f"train_hcl.{name}.source")}}} for name in PRETRAINED}
    return given | {
        "encoder": {"source": outside("encoder.source")}, "datasets": given["datasets"] | {"tiny": tiny},
        "annotate": {"pipeline": "elsewhere/annotate.pipeline"},
        "embedrank": {"encoder": outside("embedrank.encoder")}, "keywords": {"method": "embedrank"},
        "word_vectors": {"source": outside("word_vectors.source")},
        "evaluation": {"emb": outside("evaluation.emb"),
                       "bertscore": {"encoder": outside("evaluation.bertscore.encoder")}},
        "models": {"hcl": {"hcl": {"dataset": "tiny", "init_from": outside("models.hcl.init_from")}, **rows},
                   "pgkpr": {"pgkpr": {"dataset": "tiny", "init_from": outside("models.pgkpr.init_from")}},
                   "clld": {"own": {
                       "dataset": "questions", "encoder": outside("models.clld.encoder"), "contrast": "given",
                       "overrides": {"distance": {"source": outside("train_clld.distance.source")}}}}},
        "runs": {"hcl": {"hcl": {"model": "hcl"}}, "pgkpr": {"pgkpr": {"model": "pgkpr"}}}}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tiny_project.make(tmp_path_factory.mktemp("watched") / "project")
    tiny_project.write_params(folder, **params())
    for param in READ_BY:
        (folder / "elsewhere" / param).mkdir(parents=True)
        (folder / "elsewhere" / param / "file").write_text("as it was")
    with open_repo(folder) as repo:
        deps = [(stage.name, dep) for stage in repo.index.stages for dep in stage.deps
                if "elsewhere" in str(getattr(dep, "fs_path", ""))]
        for _, dep in deps:
            dep.save()
        yield folder, deps


def stale(deps: list[tuple[str, Any]]) -> set[str]:
    return {name for name, dep in deps if dep.status()}


@pytest.mark.parametrize("param", READ_BY)
def test_another_file_makes_stale_the_stages_that_read_it(project, param):
    folder, deps = project
    assert stale(deps) == set()
    (folder / "elsewhere" / param / "file").write_text("otherwise, and longer")
    try:
        assert stale(deps) == READ_BY[param]
    finally:
        (folder / "elsewhere" / param / "file").write_text("as it was")


def test_no_stage_watches_a_file_twice_and_what_stands_for_nothing_is_there(tmp_path):
    folder = tiny_project.make(tmp_path / "project")
    same = tiny_project.params()["encoder"]["source"]
    models = tiny_project.params()["models"] | {"clld": {"ct": {"dataset": "questions", "encoder": same}}}
    tiny_project.write_params(folder, evaluation={"bertscore": {"encoder": f"{same}/"}}, models=models,
                              runs={"hcl": {"hcl": {"model": "hcl"}}})
    with open_repo(folder) as repo:
        for stage in repo.index.stages:
            watched = [dep.fs_path for dep in stage.deps if not dep.fs_path.endswith("params.yaml")]
            assert len(watched) == len(set(watched)), stage.name
    for nothing in (*BLOCKS.values(), *ROWS.values()):
        assert (folder / nothing.nothing).exists()


def test_another_path_than_the_params_ask_for_is_refused():
    filled = parse_params(params(), "params").plain()
    assert filled["datasets"]["tiny"]["watched"] == "elsewhere/ingest.neg_encoder"
    assert filled["models"]["hcl"]["hcl"]["watched"] == ROWS["models.hcl", "watched"].nothing
    filled["datasets"]["tiny"]["watched"] = "nowhere"
    with pytest.raises(InputError, match=r"datasets\.tiny\.watched: is 'nowhere', and ingest\.neg_encoder asks for "):
        parse_params(filled, "params")
    filled["datasets"]["tiny"]["watched"] = "elsewhere/ingest.neg_encoder"
    filled["watched"]["emb"] = "nowhere"
    with pytest.raises(InputError, match="watched: must be .*elsewhere/evaluation.emb"):
        parse_params(filled, "params")


def test_what_does_not_exist_is_said_before_any_work(tmp_path):
    wanted = parse_params(params(), "params")
    with pytest.raises(InputError) as caught:
        check_sources(wanted, tmp_path)
    for place in ("datasets.tiny.source", "encoder.source", "datasets.tiny.ingest.neg_encoder", "annotate.pipeline",
                  "embedrank.encoder", "word_vectors.source", "evaluation.bertscore.encoder", "evaluation.emb",
                  "models.clld.own.encoder", "models.hcl.t5.source"):
        assert f"{place}: " in str(caught.value)
    (tmp_path / "elsewhere" / "evaluation.emb").mkdir(parents=True)
    with pytest.raises(InputError) as caught:
        check_sources(wanted, tmp_path)
    assert "evaluation.emb" not in str(caught.value) and "evaluation.bertscore" in str(caught.value)


def test_a_pipeline_is_a_folder_where_it_holds_a_slash():
    def pipeline(name: str) -> str:
        return parse_params(params() | {"annotate": {"pipeline": name}}, "params").watched.pipeline

    assert pipeline("./mine") == "./mine" and Path(pipeline("en_core_web_sm")).is_dir()
    assert pipeline("embedded") == pipeline("jieba") == BLOCKS["pipeline"].nothing
