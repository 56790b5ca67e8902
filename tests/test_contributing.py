"""What contributors and hosted CI are told to run is there."""

import re
import shlex

import yaml
from source_imports import ROOT

MAKE = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def test_hosted_ci_runs_what_ci_runs():
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))["jobs"]
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert ".ci/run" in commands and (ROOT / ".ci" / "run").exists()
    assert {word for command in commands if command.startswith("make ") for word in command.split()[1:]} <= MAKE
    oldest = jobs["test"]["strategy"]["matrix"]["python"][0]
    assert f'requires-python = ">={oldest}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_hooks_are_programs_of_the_environment():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"][0]["hooks"]
    for hook in hooks:
        words = shlex.split(hook["entry"])
        assert words[0].startswith(".venv/bin/"), hook
        if "-m" in words:
            assert (ROOT / (words[words.index("-m") + 1].replace(".", "/") + ".py")).exists()


def test_the_commands_of_the_page_are_there():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\bmake ([a-z-]+)", page)) <= MAKE
    assert all((ROOT / (name.replace(".", "/") + ".py")).exists() for name in re.findall(r"python -m ([\w.]+)", page))
