"""Each command in README.md and docs/ exists: options, recipes, stages, targets of make, modules.

`make sample` runs the example in the help of each command.
"""

import argparse
import re
import runpy
import shlex
import sys

import pytest
import typer
import yaml
from documented_commands import PAGES, PLACEHOLDERS, Command, commands_of
from sample_run import examples_of
from source_imports import ROOT

from pipeline.cli import app
from pipeline.recipes import plan, recipe_names

# A recipe that a page writes before it is used, and what stands for any.
NO_RECIPE = {None, "mine", *PLACEHOLDERS}
# Its commands are those of an earlier commit, which it names.
EARLIER = "docs/results.md"
KEYCONTRAST = typer.main.get_command(app)
STAGES = set(yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"])


def check_keycontrast(command):
    """Let the command line parse the arguments, and look recipes and stages up."""
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
    if name == "use" and values["recipe"] not in NO_RECIPE:
        changes = [change for change in values["changes"] or () if change not in PLACEHOLDERS]
        assert values["recipe"] in recipe_names()
        plan(values["recipe"], "DIR", changes=changes)
    for target in (values.get("targets") if name == "run" else None) or ():
        check_stage(target)


def check_stage(target):
    stage = target.partition("@")[0]
    # A track or a row stands in capitals where any of them may.
    assert stage in STAGES | PLACEHOLDERS or stage.endswith("_TRACK"), f"no stage {stage}"


class Parsed(Exception):
    """The arguments are right; nothing more is wanted."""


def check_python(command, monkeypatch):
    """Let the own parser of a module, or of a file in tools, take the arguments, and stop before any work."""
    script = command.words[1].startswith("tools/")
    assert script or command.words[1] == "-m", "python is shown with a module or a file in tools"
    module, arguments = command.words[1 if script else 2], list(command.words[2 if script else 3:])
    parse = argparse.ArgumentParser.parse_args

    def parse_and_stop(self, given=None, *_):
        parse(self, arguments if given is None else given)
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_and_stop)
    monkeypatch.setattr(sys, "argv", [module, *arguments])
    for loaded in (module, f"{module}.__main__"):
        monkeypatch.delitem(sys.modules, loaded, raising=False)
    with pytest.raises(Parsed):
        if script:
            runpy.run_path(str(ROOT / module), run_name="__main__")
        else:
            runpy.run_module(module, run_name="__main__", alter_sys=False)
    if module == "benchmarks":
        from benchmarks.__main__ import NAMES, OF_THEIR_OWN

        assert set(arguments[:1]) <= OF_THEIR_OWN.keys() or {
            word for word in arguments if not word.startswith("-")} <= set(NAMES) | PLACEHOLDERS


def check_dvc(command):
    from dvc.cli.parser import get_main_parser

    words = list(command.words[1:])
    if words[-1] == "-S" and not command.whole:
        words.append("seed=1")
    for target in getattr(get_main_parser().parse_args(words), "targets", None) or ():
        check_stage(target)


def check(command, monkeypatch):
    if command.program == "python":
        check_python(command, monkeypatch)
    elif command.program == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert {word for word in command.words[1:] if "=" not in word} <= set(targets)
    else:
        {"keycontrast": check_keycontrast, "dvc": check_dvc}[command.program](command)


def test_every_help_has_one_example_that_is_parsed():
    examples = examples_of(KEYCONTRAST)
    assert len(examples) > 10 and [name for name, found in examples.items() if len(found) != 1] == []
    for name, (example,) in examples.items():
        assert example.startswith(f"keycontrast {name}")
        check_keycontrast(Command(name, tuple(shlex.split(example)), True))


@pytest.mark.parametrize("page", [page for page in PAGES if page != EARLIER])
def test_documented_commands_exist_with_their_options_and_names(page, monkeypatch):
    for command in dict.fromkeys(commands_of(page)):
        try:
            with monkeypatch.context() as patch:
                check(command, patch)
        except (Exception, SystemExit) as error:
            raise AssertionError(f"{command.place}: {' '.join(command.words)}") from error
