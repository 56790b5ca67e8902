"""YAML of a person: read within bounds, and refused in one line wherever PyYAML or Python would stumble."""

import pytest
import yaml

from keycontrast.errors import InputError
from stages.common.yaml_files import parse_yaml, read_yaml
from tests.harness.cases import draw
from tests.harness.params import damaged_params


@pytest.mark.parametrize(("text", "message"), [
    ("seed: 13\nseed: 99\n", r"'seed' is repeated; the first is in line 1.*line 2"),
    ("a: {b: 1, c: 2, 'b': 3}", "'b' is repeated"),
    ("a: 2024-13-45", "month must be in 1..12"), ("a: !!int zz", "invalid literal"),
    ("a: " + "9" * 5000, "4300 digits"),
    ("a: !!timestamp x", "not what it looks like"), ("a: !!bool x", "not what it looks like"),
    ("? [a]\n: b", "unhashable"), ("a: !!python/object:os.system x", "could not determine"), ("a: \x1b[2J", r"#x001b"),
    ("a: *b", "undefined alias")])
def test_what_is_no_sound_yaml_is_one_line_with_its_place(text, message):
    with pytest.raises(InputError, match=f"(?s)^here: .*{message}") as caught:
        parse_yaml(text, "here")
    assert "\n" not in str(caught.value) and "\x1b" not in str(caught.value)


def test_aliases_and_merges_are_read_as_before(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text("a: &a {x: 1, y: 2}\nb: *a\nc: {<<: *a, x: 3}\n")
    assert read_yaml(file) == yaml.safe_load(file.read_text())
    file.write_bytes(b"a: \xff\n")
    with pytest.raises(InputError, match="a.yaml: not valid YAML: byte 3 is not UTF-8"):
        read_yaml(file)


def test_damaged_params_are_taken_or_refused_with_a_message():
    verdicts = [damaged_params(draw(7, number)) for number in range(60)]
    assert [verdict for verdict in verdicts if verdict.fault] == []
