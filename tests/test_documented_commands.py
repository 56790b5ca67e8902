"""Each command in README.md and docs/ exists: options, recipes, stages, models, runs, modules.

test_whole_pipeline.py runs those that its tiny project supports.
"""

import argparse
import importlib.util
import re
import runpy
import sys

import pytest
import typer
import yaml
from documented_commands import PAGES, PLACEHOLDERS, commands_of
from source_imports import ROOT

from pipeline.cli import app
from pipeline.recipes import read_recipe, recipe_names

COMMANDS = [command for page in PAGES for command in commands_of(page)]
# A recipe that a page writes before it is used.
OWN_RECIPES = {"mine"}
# Its commands are those of an earlier commit, which it names.
EARLIER = "docs/results.md"
# What pages call their params by `use --as NAME`.
CALLED = {command.words[command.words.index("--as") + 1] for command in COMMANDS if "--as" in command.words}
KEYCONTRAST = typer.main.get_command(app)


def known_names():
    """Stages, and the data sets, models, runs and probes of all recipes and of the params that pages show."""
    names = {"datasets": {"mine"}, "models": set(), "runs": set(), "probes": set()}
    pages = "\n".join((ROOT / page).read_text(encoding="utf-8") for page in PAGES)
    shown = re.findall(r"```yaml\n(.*?)```", pages, re.DOTALL)
    texts = [path.read_text() for path in (ROOT / "recipes").glob("*.yaml")] + shown
    for content in filter(lambda content: isinstance(content, dict), map(yaml.safe_load, texts)):
        names["datasets"] |= {*(content.get("datasets") or ()), *(content.get("by_dataset") or ())}
        for block in ("models", "runs", "probes"):
            for track in (content.get(block) or {}).values():
                names[block] |= set(track or ())
        names["runs"] |= set((content.get("models") or {}).get("clld") or ())     # each of which is evaluated
    return names


NAMES = known_names()
STAGES = set(yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"])


def check_keycontrast(command):
    """Let the command line parse the arguments, and look the names in them up."""
    found, name, words = KEYCONTRAST, "", list(command.words[1:])
    while hasattr(found, "commands"):
        assert words and words[0] in found.commands, f"no command {words[:1]}"
        name, found = words[0], found.commands[words.pop(0)]
    try:
        values = found.make_context(name, words, parent=KEYCONTRAST.context_class(KEYCONTRAST)).params
    except Exception as error:
        # typer brings classes of its own for click's errors.
        if command.whole or type(error).__name__ != "MissingParameter":
            raise
        return
    if name == "use":
        check_recipe(values["recipe"], values["changes"] or ())
    for target in {"run": values.get("targets"), "stage": [values.get("name")]}.get(name) or ():
        check_stage(target)
    runs = {"predict": [values.get("run")], "sheets": values.get("runs")}.get(name, [])
    assert set(runs) <= NAMES["runs"] | PLACEHOLDERS
    models = {"export": [values.get("model")]}.get(name) or []
    assert set(models) <= NAMES["models"] | PLACEHOLDERS | {None}
    assert values.get("dataset") in NAMES["datasets"] | PLACEHOLDERS | {None}
    if name == "inspect" and values["path"] is not None and str(values["path"]) not in PLACEHOLDERS:
        check_artifact(values["path"].as_posix())


def check_recipe(name, changes):
    if name in {None, *OWN_RECIPES, *PLACEHOLDERS}:
        return
    assert name in recipe_names()
    read_recipe(name, "DIR", changes=[change for change in changes if change not in PLACEHOLDERS])


def check_stage(target):
    stage, _, key = target.partition("@")
    # A track or a row stands in capitals where any of them may.
    assert stage in STAGES | PLACEHOLDERS or stage.endswith("_TRACK"), f"no stage {stage}"
    assert key in {"", *PLACEHOLDERS}.union(*NAMES.values()), f"no instance {key}"


def check_artifact(path):
    """A file of artifacts/ must be an out of a stage, or lie in one."""
    outs = [name for entry in yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"].values()
            for kind in ("outs", "metrics", "plots") for item in entry.get("do", entry).get(kind, ())
            for name in ([item] if isinstance(item, str) else item)]
    patterns = ["([^/]+)".join(map(re.escape, re.split(r"\$\{\w+\}", out))) + "(?:/.*)?" for out in outs]
    found = [match for pattern in patterns if (match := re.fullmatch(pattern, path))]
    assert found, f"no stage makes {path}"
    assert all(key in set().union(*NAMES.values()) for match in found for key in match.groups())


class Parsed(Exception):
    """The arguments are right; nothing more is wanted."""


def check_python(command, monkeypatch):
    """Let the module's own parser take the arguments, and stop before any work."""
    assert command.words[1] == "-m", "python is shown with a module"
    module, arguments = command.words[2], list(command.words[3:])
    assert importlib.util.find_spec(module) is not None, f"no module {module}"
    parse = argparse.ArgumentParser.parse_args

    def parse_and_stop(self, given=None, *_):
        parse(self, arguments if given is None else given)
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_and_stop)
    monkeypatch.setattr(sys, "argv", [module, *arguments])
    for loaded in (module, f"{module}.__main__"):
        monkeypatch.delitem(sys.modules, loaded, raising=False)
    with pytest.raises(Parsed):
        runpy.run_module(module, run_name="__main__", alter_sys=False)
    if module == "benchmarks" and arguments[:1] != ["gpu"]:
        from benchmarks.__main__ import NAMES as benchmarks

        assert {word for word in arguments if not word.startswith("-")} <= set(benchmarks) | PLACEHOLDERS
    if module == "pipeline.results_document":
        assert arguments[0] in {*recipe_names(), *CALLED}


def check_dvc(command):
    from dvc.cli.parser import get_main_parser

    words = list(command.words[1:])
    if words[-1] == "-S" and not command.whole:
        words.append("seed=1")
    arguments = get_main_parser().parse_args(words)
    for target in getattr(arguments, "targets", None) or ():
        check_stage(target)


def check_make(command):
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {word for word in command.words[1:] if "=" not in word} <= set(targets)


def check(command, monkeypatch):
    if command.program == "python":
        check_python(command, monkeypatch)
    else:
        {"keycontrast": check_keycontrast, "dvc": check_dvc, "make": check_make}[command.program](command)


@pytest.mark.parametrize("page", [page for page in PAGES if page != EARLIER])
def test_documented_commands_exist_with_their_options_and_names(page, monkeypatch):
    for command in dict.fromkeys(commands_of(page)):
        try:
            with monkeypatch.context() as patch:
                check(command, patch)
        except (Exception, SystemExit) as error:
            raise AssertionError(f"{command.place}: {' '.join(command.words)}") from error
