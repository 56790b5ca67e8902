"""The list of a data set's artifacts, on which the report depends."""

import hashlib
import json

import tiny_project

from pipeline.schemas import SCHEMAS
from stages.common.manifest import main
from stages.common.paths import DatasetPaths, manifest_path
from stages.common.tables import Provenance, write_table


def test_every_file_with_hash_and_every_table_with_rows_and_what_a_kill_left_out(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    tiny_project.write_params(tmp_path)
    assert main(["tiny"]) == 1
    assert "artifacts/data/tiny: no artifacts there. Make them with `keycontrast run`." in capsys.readouterr().err
    paths = DatasetPaths("tiny")
    rows = {"text_id": [0, 1], "text": ["one", "two"], "language": ["en", "en"]}
    write_table(paths.table("texts"), SCHEMAS["texts"], rows, Provenance("ingest@tiny", "0", fallbacks=["none better"]))
    paths.pair_classifier.mkdir()
    (paths.pair_classifier / "config.json").write_text("{}")
    (paths.folder / ".edges.parquet.x.tmp").write_text("half")
    assert main(["tiny"]) == 0
    content = json.loads(manifest_path("sample", "data", "tiny").read_text())
    made = content["artifacts"]
    assert content["name"] == "tiny"
    assert list(made) == ["artifacts/data/tiny/items/texts/part-00000.parquet",
                          "artifacts/data/tiny/pair_classifier/config.json"]
    assert made["artifacts/data/tiny/pair_classifier/config.json"] == {
        "bytes": 2, "sha256": hashlib.sha256(b"{}").hexdigest()}
    assert made["artifacts/data/tiny/items/texts/part-00000.parquet"]["rows"] == 2
    assert made["artifacts/data/tiny/items/texts/part-00000.parquet"]["metadata"]["fallbacks"] == ["none better"]
