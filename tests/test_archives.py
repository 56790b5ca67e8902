"""Archives and encoders of others: bounded, whole, and nothing that runs code."""

import io
import json
import tarfile

import pytest
import yaml

from pipeline.packed.run import CONTENTS
from pipeline.unpack import _extracted, unpack
from stages.common.encoders import ALLOW_PICKLES, resolve_encoder
from stages.common.yaml_files import read_yaml
from stages.params import parse_params
from stages.run.errors import InputError
from tests.harness.cases import draw
from tests.harness.damage import damaged_value
from tests.harness.params import ROOT


def archive(file, members):
    with tarfile.open(file, "w:gz") as packed:
        for name, content in members.items():
            entry = tarfile.TarInfo(f"results/{name}")
            entry.size = len(content)
            packed.addfile(entry, io.BytesIO(content))
    return file


@pytest.mark.whole
def test_an_archive_that_unpacks_to_far_more_than_its_size_is_refused(tmp_path):
    file = archive(tmp_path / "bomb.tar.gz", {CONTENTS: b"{}", "zeros": bytes(200 * 2**20)})
    (tmp_path / "out").mkdir()
    with pytest.raises(InputError, match="bomb.tar.gz: unpacks to more than 20,000 files or"):
        _extracted(file, tmp_path / "out")
    many = archive(tmp_path / "many.tar.gz", {CONTENTS: b"{}", **{f"{number}": b"" for number in range(20_000)}})
    with pytest.raises(InputError, match="many.tar.gz: unpacks to more than 20,000 files"):
        _extracted(many, tmp_path / "out")
    assert not (tmp_path / "out" / "results" / "zeros").exists()


WHOLE = {"pack": {"models": {"hcl": {"seeds": [13], "encoder": None, "params_hash": {"13": "a"}}}, "runs": {},
                  "pack": "1", "params": {}}, "models": ["hcl"], "runs": {}, "tables": {},
         "jobs": {"train": {"state": "done"}},
         "machine": {"device": "cpu", "torch": "2"}, "overrides": {}}


def test_damaged_contents_are_one_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    params = parse_params(read_yaml(ROOT / "recipes" / "sample.yaml"), "recipe")
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params.plain()))
    whole = json.dumps(WHOLE).encode()
    for content in (b"", b"[]", b"null", b"\xff", whole[:40], *(
            json.dumps(damaged_value(WHOLE, draw(5, number))[0], default=str).encode() for number in range(25))):
        with pytest.raises(InputError, match="results.tar.gz: "):
            unpack(archive(tmp_path / "results.tar.gz", {CONTENTS: content}))


def test_a_pickle_is_read_only_if_its_maker_is_trusted(tmp_path, monkeypatch):
    for name in ("config.json", "vocab.txt", "pytorch_model.bin"):
        (tmp_path / name).write_text("{}")
    with pytest.raises(InputError, match=f"no weights as safetensors.* is a pickle.*set {ALLOW_PICKLES}=1"):
        resolve_encoder(f"path:{tmp_path}")
    monkeypatch.setenv(ALLOW_PICKLES, "1")
    assert resolve_encoder(f"path:{tmp_path}").location == tmp_path
