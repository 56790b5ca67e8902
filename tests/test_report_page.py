"""The report in a real browser: what a reader finds and does there, on a wide window and on a phone."""

import re

import pytest
from browser import Browser
from report_artifacts import ATTACK, TEXTS

from stages.common.paths import REPORT_PAGE

WIDE, PHONE = 1200, 360
TOO_WIDE = """[...document.querySelectorAll("main *")].filter((one) => !one.closest(".scroll")
    && one.getBoundingClientRect().right > document.documentElement.clientWidth + 1).map((one) => one.outerHTML)
    .slice(0, 3)"""
AT_SLEEP = """(() => {
    const {graph, sigma} = document.querySelector(".explorer").map;
    document.querySelector(".graphmap .canvas").scrollIntoView({block: "center"});
    const box = document.querySelector(".graphmap .canvas").getBoundingClientRect();
    const node = graph.findNode((node, {label}) => label === "sleep");
    const {x, y} = sigma.graphToViewport(graph.getNodeAttributes(node));
    return {x: box.left + x, y: box.top + y};
})()"""


@pytest.fixture(scope="module")
def file(made_report):
    """The page of the small artifacts."""
    return made_report("hcl") / REPORT_PAGE


@pytest.fixture(scope="module")
def browser():
    with Browser() as running:
        yield running


@pytest.fixture(params=[WIDE, PHONE])
def page(browser, file, request):
    """The page at both widths; whatever a test does with it, nothing goes wrong in it and it does not grow too wide."""
    yield from opened(browser, file, request.param)


def opened(browser, file, width):
    """What is folded is opened, but what a run or a pair of classes opens."""
    tab = browser.open(file, width)
    tab.evaluate("for (const fold of document.querySelectorAll('.fold')) fold.open = true")
    yield tab
    assert tab.problems() == []
    assert tab.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert tab.evaluate("window.attacked === undefined && !document.querySelector('img')")


def test_nothing_goes_wrong_and_nothing_is_wider_than_the_window(page):
    assert page.texts("h1") == ["Keycontrast report"]
    # Wide tables scroll in their own box.
    assert page.evaluate(TOO_WIDE) == []


def test_problems_are_noticed(browser, tmp_path):
    """The page above is free of problems only if this one is not."""
    broken = tmp_path / "broken.html"
    broken.write_text("""<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'nonce-a'">
        <script nonce="a">console.error("told"); setTimeout(() => { throw new Error("thrown"); })</script>
        <script>window.attacked = true</script><img src="https://example.org/x.png">""")
    tab = browser.open(broken, WIDE)
    tab.wait("true")
    told = " ".join(tab.problems())
    for problem in ("told", "thrown", "script-src", "img-src"):
        assert problem in told
    assert tab.evaluate("window.attacked === undefined")


def test_a_keyword_is_found_followed_and_left_again(page):
    page.type(".combobox input", "SLE")
    assert [text.split("1 text")[0] for text in page.texts("[role=option]")] == ["sleep"]
    page.press("ArrowDown")
    assert page.evaluate("document.activeElement.getAttribute('aria-activedescendant')") == "graph-tiny-search-0"
    page.press("Enter")
    assert page.texts(".view h4") == ["sleep"] and page.texts("[role=option]") == []
    assert page.texts(".neighbours h5") == ["2 neighbours"]
    assert page.texts(".neighbours button") == ["belly fat3", "עברית1"]
    page.click(".neighbours button")
    assert page.texts(".view h4") == ["belly fat"]
    # The keyboard goes on from where the reader is.
    assert page.evaluate("document.activeElement.textContent") == "belly fat"
    assert page.texts(".neighbours bdi") == ["sleep", ATTACK, "author"]
    page.click(".back")
    assert page.texts(".view h4") == ["sleep"]
    page.type(".combobox input", "no such keyword")
    assert "No phrase here contains “no such keyword”." in page.texts(".explorer [aria-live]")
    page.press("Escape")


def test_the_map_shows_phrases_with_their_edges_and_opens_them(page):
    graph = "document.querySelector('.explorer').map.graph"
    assert page.evaluate(f"{graph}.nodes().map((node) => {graph}.getNodeAttribute(node, 'label'))")[0] == "belly fat"
    assert page.evaluate(f"{graph}.size") == 5
    place = page.evaluate(AT_SLEEP)
    for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
        page.send("Input.dispatchMouseEvent", type=kind, **place, clickCount=1,
                  button="none" if kind == "mouseMoved" else "left")
    page.wait("document.querySelector('.view h4').textContent === 'sleep'")
    assert page.evaluate("document.querySelector('.explorer').map.sigma.getCamera().getState().ratio") < 0.5
    page.click(".zoom button", "Whole")
    assert page.evaluate("document.querySelector('.explorer').map.sigma.getCamera().getState().ratio") == 1


def test_a_browser_that_cannot_draw_the_map_has_the_rest(browser, file, tmp_path):
    """As where WebGL is switched off: the library itself fails."""
    text = file.read_text(encoding="utf-8")
    without = tmp_path / "without.html"
    without.write_text(re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text).replace(
        "<head>", "<head><script>delete window.WebGLRenderingContext</script>"), encoding="utf-8")
    tab = browser.open(without, WIDE)
    assert "cannot draw the map" in tab.texts(".explorer > p.small")[-1]
    tab.type(".combobox input", "SLE")
    tab.press("Enter")
    assert tab.texts(".view h4") == ["sleep"]


def test_texts_open_with_their_phrase_marked(page):
    assert page.texts(".explorer article") == []
    page.click("button.open", "Open 3 texts")
    assert page.texts(".explorer article h5") == ["Text 0", "Text 1", "Text 2"]
    assert page.texts(".explorer article p") == TEXTS[:3] and page.texts(".explorer article mark") == ["belly fat"] * 3
    page.click("button.open", "Close 3 texts")
    assert page.texts(".explorer article") == []
    # An attack, and emoji and line separators.
    for neighbour, text in (("sleep3", TEXTS[6]), ("עברית1", TEXTS[7])):
        page.click(".neighbours button", neighbour)
        page.click("button.open", "Open 1 text")
        shown, = page.texts(".explorer article p")
        assert shown.split() == text.split() and page.texts(".explorer article mark")[0].lower() in text.lower()
