"""``keycontrast explain`` in a folder that is no project."""

from typer.testing import CliRunner

from pipeline.cli import app


def test_a_text_is_explained_with_the_defaults(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["explain", "My rice cooker burns the bottom layer.", "--svg", "why.svg"])
    assert done.exit_code == 0, done.output
    assert "No params.yaml here: the pipeline and the settings are the defaults." in " ".join(done.stdout.split())
    assert "rice cooker" in done.stdout and (tmp_path / "why.svg").exists()


def test_stop_words_and_a_threshold_leave_phrases_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words").write_text("rice\n", encoding="utf-8")
    text = "My rice cooker burns the bottom layer."
    shown = [CliRunner().invoke(app, ["explain", text, *options]).stdout
             for options in ((), ("--stop-words", "words"), ("--threshold", "9"))]
    assert ["rice cooker" in one.partition("Ranked phrases")[2] for one in shown] == [True, False, False]
    assert "cooker" in shown[1].partition("Ranked phrases")[2] and "No phrase was ranked" in shown[2]


def test_a_text_id_needs_a_project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["explain", "3"])
    assert done.exit_code == 1 and "no data set has a table tokens" in str(done.exception)
