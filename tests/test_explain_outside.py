"""``keycontrast explain`` in a folder that is no project."""

from typer.testing import CliRunner

from pipeline.cli import app


def test_a_text_is_explained_with_the_defaults(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["explain", "My rice cooker burns the bottom layer.", "--svg", "why.svg"])
    assert done.exit_code == 0, done.output
    assert "No params.yaml here: the pipeline and the settings are the defaults." in " ".join(done.stdout.split())
    assert "rice cooker" in done.stdout and (tmp_path / "why.svg").exists()


def test_a_text_id_needs_a_project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["explain", "3"])
    assert done.exit_code == 1 and "no data set has a table tokens" in str(done.exception)
