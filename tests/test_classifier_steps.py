"""Which rows of CLLD are set against which."""

from types import SimpleNamespace

from stages.results.page.answers import steps

ROWS = {"ct": ("none", "first", {}), "two": ("two_views", "both", {}), "cl": ("uniform", "first", {"t": 1}),
        "sharp": ("uniform", "first", {"t": 0.05}), "both": ("uniform", "both", {"t": 1}),
        "ald": ("adaptive", "first", {"t": 1}), "sim": ("simcse", "first", {"t": 0.05}),
        "short-ct": ("none", "first", {}, 32), "short-ald": ("adaptive", "first", {"t": 1}, 32),
        "bert-cl": ("uniform", "first", {"t": 1}, 128, "bundled")}


def test_steps_compare_like_with_like():
    systems = [SimpleNamespace(name=name, settings={
        "kind": kind, "row": name, "ce_views": views, "contrast": contrast, "distance": {},
        "max_length": further[0] if further else 128, "encoder": further[1] if further[1:] else "textcnn"})
        for name, (kind, views, contrast, *further) in ROWS.items()]
    block = SimpleNamespace(systems=systems)
    found = {}
    for question, system, base in steps(block):
        found.setdefault(question, []).append((system.name, base.name))
    assert found == {
        "Does the contrast help?": [("cl", "ct"), ("sharp", "ct")],
        "Does the label distance help beyond it?": [("ald", "cl")],
        "Do both together help?": [("ald", "ct"), ("short-ald", "short-ct")],
        "Does another contrast help?": [("sim", "ct")],
        "Does a second view help without a contrast?": [("two", "ct")],
        "Does the contrast help beyond a second view?": [("cl", "two"), ("sharp", "two"), ("both", "two")],
        "Do both together help beyond a second view?": [("ald", "two")]}
