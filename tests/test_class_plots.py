"""Pictures of classifiers: matrices in shades, their names and notes, and calibration."""

import re
from xml.etree import ElementTree as ET

import numpy as np
import pandas as pd
import pytest

from stages.results.page.class_plots import calibration_plot, confusion_plot, distance_plot

CLASSES = ["alt.atheism", "<script>alert('x')</script>", "עברית & \x00\x1b control", "", "talk.religion.misc"]


def counts():
    found = np.diag([8, 5, 3, 0, 10]).astype(np.int64)
    found[0, 4], found[4, 0], found[1, 2] = 6, 2, 1
    return found


def elements(plot, name):
    return [one for one in ET.fromstring(plot.svg).iter() if one.tag.endswith(name)]


def text_of(plot):
    return ["".join(one.itertext()) for one in elements(plot, "text")]


def test_confusions_say_themselves_the_most_frequent_first():
    plot = confusion_plot("run", CLASSES, counts())
    assert plot.name == "confusion--run" and "Confusions of run" in plot.title
    assert list(plot.notes.items()) == [
        ("cell-0-4", "alt.atheism taken for talk.religion.misc: 6 of 14 texts"),
        ("cell-4-0", "talk.religion.misc taken for alt.atheism: 2 of 12 texts"),
        ("cell-1-2", f"{CLASSES[1]} taken for {CLASSES[2]}: 1 of 6 texts")]
    assert plot.description.startswith("74.3\u00a0% right; most confused: alt.atheism taken for")
    inline = str(plot.inline)
    for place, note in plot.notes.items():
        assert f'data-part="{place}" data-hint="' in inline
        assert note.split("<")[0] in inline
    assert "<script" not in inline and "&lt;script&gt;alert(&#39;x&#39;)" in inline


def test_small_matrices_have_their_numbers_in_the_cells():
    texts = text_of(confusion_plot("run", CLASSES, counts()))
    assert [text for text in texts if text.isdigit()] == ["8", "6", "5", "1", "3", "2", "10"]
    many = np.eye(13, dtype=np.int64) * 3
    assert not [text for text in text_of(confusion_plot("run", [f"class {n}" for n in range(13)], many))
                if text.isdigit()]


def test_any_class_name_gives_a_file_that_can_be_read():
    long = "a.class.whose.name.does.not.come.to.an.end"
    names = [*CLASSES, long]
    matrix = np.eye(6, dtype=np.int64)
    texts = text_of(confusion_plot("run", names, matrix))
    assert texts.count("alt.atheism") == 2 and texts.count("<script>alert('x')</scrip…") == 2
    assert texts.count("(blank)") == 2 and texts.count("a.class.whose.name.does.n…") == 2
    assert all(len(text) <= 40 for text in texts) and any("\ufffd" in text for text in texts)
    for plot in (distance_plot("run", names, np.eye(6) + 1), confusion_plot("run", ["one"], np.array([[3]]))):
        assert plot.png.startswith(b"\x89PNG") and ET.fromstring(plot.svg) is not None


def opacities(plot, colour):
    found = [re.search(r"fill: ([^;]+)(?:; opacity: ([\d.]+))?", one.get("style", "")) for one in
             elements(plot, "path")]
    return [float(one[2] or 1) for one in found if one and one[1] == colour]


def test_the_further_apart_the_darker():
    distances = np.ones((4, 4))
    distances[0, 1] = distances[1, 0] = 5.0
    distances[2, 3] = 3.0
    plot = distance_plot("run", list("abcd"), distances)
    assert list(plot.notes.values()) == ["a and b: 5.00", "b and a: 5.00", "c and d: 3.00"]
    assert "from 1 to 5; furthest apart: a and b: 5.00" in plot.description
    assert {"5.00", "3.00", "1", "5"} <= set(text_of(plot))
    shades = opacities(plot, "#1b1f24")
    # Three cells, and the strip that says what shades mean.
    assert sorted(shades)[-1] == 1.0 and shades.count(1.0) == 3 and 0.5 in shades
    flat = distance_plot("run", list("abcd"), np.ones((4, 4)))
    assert "furthest apart: none" in flat.description and flat.notes == {}
    # A literal count may be below no bound, and asymmetric.
    assert "from 1 to 300" in distance_plot("run", list("ab"), np.array([[300.0, 1.0], [7.0, 2.0]])).description


def test_matrices_of_52_classes_stay_small():
    random = np.random.default_rng(0)
    names = [f"class-{number:02d}" for number in range(52)]
    matrix = np.diag(random.integers(1, 60, 52)) + (random.random((52, 52)) < 0.05)
    for plot in (confusion_plot("run", names, matrix.astype(np.int64)),
                 distance_plot("run", names, np.full((52, 52), 5.0) - 4 * np.eye(52))):
        assert len(plot.svg) < 90_000 and len(plot.notes) <= 40
        assert set(names) <= set(text_of(plot)) and 700 < plot.width < 1100


def test_calibration_leaves_out_empty_bins():
    bins = pd.DataFrame({"bin": [1, 2, 3], "from": [0.0, 1 / 3, 2 / 3], "to": [1 / 3, 2 / 3, 1.0], "texts": [0, 4, 6],
                         "confidence": [None, 0.5, 0.9], "accuracy": [None, 0.25, 1.0]})
    plot = calibration_plot("run", bins)
    assert plot.description == ("0.33 to 0.67: 4 texts, 25.0\u00a0% right at 50.0\u00a0% on average; 0.67 to 1.00: 6 "
                                "texts, 100.0\u00a0% right at 90.0\u00a0% on average")
    assert "share right" in text_of(plot)
    assert calibration_plot("run", bins[:1]).description == "no texts"


@pytest.mark.parametrize("count", [2, 12, 20, 52])
def test_names_have_room(count):
    """The edges hold the longest name that is shown, whatever its letters."""
    plot = confusion_plot("run", ["漢" * 25] * count, np.eye(count, dtype=np.int64))
    name = next(one for one in elements(plot, "text") if "漢" in "".join(one.itertext())
                and "rotate(-90" not in one.get("transform", ""))
    end = float(name.get("x") or re.search(r"translate\(([\d.]+)", name.get("transform", ""))[1])
    assert "text-anchor: end" in name.get("style", "") and end > 25 * (8.0 if count <= 30 else 6.5)
