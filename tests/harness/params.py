"""Damaged params, recipes and changes (`--set`): each is taken, or refused with a message for a person."""

import random
import re
import tempfile
from pathlib import Path

import yaml

from keycontrast.errors import InputError
from pipeline import recipes
from stages.common.settings import read_params, stage_hash, stage_params
from stages.common.yaml_files import read_yaml
from stages.params import load_params, parse_params, with_what_dvc_reads
from tests.harness.cases import Verdict
from tests.harness.damage import TOKENS, damaged_bytes, damaged_value

ROOT = Path(__file__).resolve().parents[2]
_NO_TEXT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_LONGEST = 20_000


def bad_message(message: str) -> str:
    """Return what is wrong with a message for a person."""
    if not message.strip():
        return "the message is empty"
    if found := _NO_TEXT.search(message):
        return f"the message holds the control character {found[0]!a}: {message[:200]!a}"
    return f"the message has {len(message):,} characters" if len(message) > _LONGEST else ""


def damaged_params(chance: random.Random) -> Verdict:
    """Damage a recipe, as text or as values, or change it, and read it as the commands do."""
    recipe = chance.choice(sorted((ROOT / "recipes").glob("*.yaml")))
    way = chance.choice(["text", "values", "written", "set"])
    with tempfile.TemporaryDirectory() as folder:
        file, said = Path(folder) / "params.yaml", ""
        try:
            if way == "set":
                content = read_yaml(recipe)
                place, node = [], content
                while isinstance(node, dict) and node:
                    place.append(chance.choice(list(node)))
                    node = node[place[-1]]
                named = ".".join(map(str, place[:chance.randrange(1, len(place) + 1)]))
                said = f"--set {named}={chance.choice(TOKENS)}"
                (Path(folder) / "recipes").mkdir()
                (Path(folder) / "recipes" / recipe.name).write_bytes(recipe.read_bytes())
                recipes.plan(recipe.stem, folder, Path(folder), [said.removeprefix("--set ")])
                return Verdict(f"{recipe.stem}: {said!a}")
            if way == "text":
                file.write_bytes(damaged_bytes(recipe.read_bytes(), chance))
                said = "damaged text"
            else:
                content = read_yaml(recipe)
                if way == "written":
                    content = parse_params(content, recipe.name).plain()
                changed, said = damaged_value(content, chance)
                file.write_text(yaml.safe_dump(changed, allow_unicode=False), encoding="utf-8")
            params = load_params(file)
            plain = read_params(file)
            for stage, key in [("report", ""), *(("ingest", name) for name in params.datasets)]:
                stage_params(plain, stage, key)
                stage_hash(plain, stage, key)
            text = recipes.params_text(with_what_dvc_reads(read_yaml(file))[0], file.read_text(encoding="utf-8"))
            file.write_text(text, encoding="utf-8")
            if load_params(file) != params:
                return Verdict(f"{recipe.stem}, {way}: {said}", "written out and read again it is another")
        except InputError as error:
            return Verdict(f"{recipe.stem}, {way}: {said}", bad_message(str(error)))
        except Exception as error:  # noqa: BLE001 - the very fault that is looked for
            return Verdict(f"{recipe.stem}, {way}: {said}", f"{type(error).__name__}: {str(error)[:300]}")
    return Verdict(f"{recipe.stem}, {way}: {said}")
