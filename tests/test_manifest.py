"""The list of a data set's artifacts, on which the report depends."""

import hashlib
import json

import tiny_project

from pipeline.schemas import SCHEMAS
from stages.common.tables import Provenance, write_table
from stages.ingest.manifest import MANIFESTS, main, run


def make_artifacts(folder):
    rows = {"text_id": [0, 1], "text": ["one", "two"], "language": ["en", "en"]}
    write_table(folder / "texts.parquet", SCHEMAS["texts"], rows,
                Provenance("ingest@tiny", "0123", fallbacks=["none better"]))
    (folder / "pair_classifier").mkdir()
    (folder / "pair_classifier" / "config.json").write_text("{}")


def test_every_file_with_hash_and_every_table_with_rows_and_provenance(tmp_path):
    make_artifacts(tmp_path)
    made = run(tmp_path, [path for path in tmp_path.rglob("*") if path.is_file()])
    assert list(made) == ["pair_classifier/config.json", "texts.parquet"]
    assert made["pair_classifier/config.json"] == {"bytes": 2, "sha256": hashlib.sha256(b"{}").hexdigest()}
    assert made["texts.parquet"]["rows"] == 2
    assert made["texts.parquet"]["metadata"]["fallbacks"] == ["none better"]


def test_the_stage_leaves_out_what_a_killed_stage_had_not_finished(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    tiny_project.write_params(tmp_path)
    assert main(["tiny"]) == 1
    assert "artifacts/tiny: no artifacts there. Make them with `keycontrast run`." in capsys.readouterr().err
    (tmp_path / "artifacts" / "tiny").mkdir(parents=True)
    make_artifacts(tmp_path / "artifacts" / "tiny")
    (tmp_path / "artifacts" / "tiny" / ".edges.parquet.x.tmp").write_text("half")
    assert main(["tiny"]) == 0
    content = json.loads((MANIFESTS / "tiny.json").read_text())
    assert content["dataset"] == "tiny"
    assert list(content["artifacts"]) == ["pair_classifier/config.json", "texts.parquet"]
