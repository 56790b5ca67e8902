"""``keycontrast report``: where the page is, and a browser on it."""

import webbrowser

import pytest
from typer.testing import CliRunner

from keycontrast.errors import InputError
from pipeline.cli import app
from stages.common.paths import REPORT_PAGE


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """Addresses that a browser was asked to open."""
    monkeypatch.chdir(tmp_path)
    found = []
    monkeypatch.setattr(webbrowser, "open", lambda address: found.append(address) is None)
    return found


def page():
    REPORT_PAGE.parent.mkdir(parents=True)
    REPORT_PAGE.write_text("<p>here</p>")


def test_the_page_is_named_and_opened_on_request_alone(opened, tmp_path):
    page()
    shown = CliRunner().invoke(app, ["report"])
    assert (shown.exit_code, shown.output, opened) == (0, f"Report: {REPORT_PAGE}\n", [])
    assert CliRunner().invoke(app, ["report", "--open"]).exit_code == 0
    assert opened == [(tmp_path / REPORT_PAGE).as_uri()]


def test_without_a_page_the_command_that_makes_it_is_named(opened):
    error = CliRunner().invoke(app, ["report", "--open"]).exception
    assert isinstance(error, InputError) and "Make it with `keycontrast run`" in str(error) and opened == []
