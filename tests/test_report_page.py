"""The report in a real browser: what a reader finds and does there, on a wide window and on a phone."""

import pytest
from browser import Browser
from report_artifacts import ATTACK, TEXTS

from stages.common.paths import REPORT_PAGE

WIDE, PHONE = 1440, 420
TOO_WIDE = """[...document.querySelectorAll("main *")].filter((one) => !one.closest(".scroll")
    && one.getBoundingClientRect().right > document.documentElement.clientWidth + 1).map((one) => one.outerHTML)
    .slice(0, 3)"""
# Labels that are wider than their boxes, boxes that lie on others or leave the map, and lines that cannot be seen.
UNREADABLE = """(() => {
    const map = [...document.querySelectorAll(".map")].find((one) => one.checkVisibility());
    const frame = map.getBoundingClientRect();
    const boxes = [...map.querySelectorAll("rect")].map((one) => one.getBoundingClientRect());
    const out = boxes.filter((one) => one.left < frame.left || one.right > frame.right || one.top < frame.top
        || one.bottom > frame.bottom);
    const over = boxes.filter((one, place) => boxes.slice(0, place).some((other) => one.left < other.right
        && other.left < one.right && one.top < other.bottom && other.top < one.bottom));
    const wide = [...map.querySelectorAll("text")].filter((one, place) =>
        one.getBoundingClientRect().width > boxes[place].width);
    const pale = [...map.querySelectorAll("line")].filter((one) => getComputedStyle(one).strokeOpacity < 0.5);
    return [boxes.length, out.length, over.length, wide.length, pale.length];
})()"""
IN_SIGHT = """[".sides .canvas", ".panel"].every((name) => {
    const box = document.querySelector(name).getBoundingClientRect();
    return box.top >= -1 && box.bottom <= innerHeight + 1;
})"""


@pytest.fixture(scope="module")
def file(made_report):
    """The page of the small artifacts."""
    return made_report("hcl") / REPORT_PAGE


@pytest.fixture(scope="module")
def browser():
    with Browser() as running:
        yield running


@pytest.fixture(params=[(WIDE, False), (PHONE, True)], ids=["wide", "phone"])
def page(browser, file, request):
    """The page in a wide light and in a narrow dark window, in which nothing may go wrong."""
    width, dark = request.param
    tab = browser.open(file, width, dark=dark)
    tab.evaluate("for (const fold of document.querySelectorAll('.fold')) fold.open = true")
    yield tab
    assert tab.problems() == []
    assert tab.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert tab.evaluate("window.attacked === undefined && !document.querySelector('img')")


def test_nothing_goes_wrong_and_nothing_is_wider_than_the_window(page):
    assert page.texts("h1") == ["Keycontrast report"]
    assert page.evaluate(TOO_WIDE) == []    # wide tables scroll in their own box
    levels = page.evaluate("[...document.querySelectorAll('h1, h2, h3, h4')].map((one) => Number(one.tagName[1]))")
    assert all(level <= before + 1 for before, level in zip(levels, levels[1:], strict=False))
    names = page.evaluate("[...document.querySelectorAll('[role=region], nav')].map((one) => one.ariaLabel)")
    assert len(set(names)) == len(names) and all(names)


def test_the_map_is_readable_and_a_choice_keeps_it_in_sight_with_the_neighbours(page):
    count, *unreadable = page.evaluate(UNREADABLE)
    assert count == 5 and unreadable == [0, 0, 0, 0]
    page.evaluate("scrollTo(0, 0)")
    page.evaluate("""[...document.querySelectorAll(".map g")].find((one) => one.checkVisibility()
        && one.textContent.startsWith("sleep")).dispatchEvent(new MouseEvent("click"))""")
    assert page.texts(".panel .chosen") == ["sleep is in 1 text"] and page.evaluate(IN_SIGHT)
    assert page.texts(".map g.chosen text") == ["sleep"]
    near = {text.split(":")[0] for text in page.texts(".map g.near")}
    assert near == {"sleep", "belly fat", "עברית"}
    assert page.evaluate("document.querySelectorAll('.map.wide line.near').length") == 2


def test_a_phrase_is_found_and_its_neighbours_are_followed(page):
    def search(text):
        page.type("input", text)
        page.press("Enter")

    assert page.texts(".panel .chosen") == ["belly fat is in 3 texts"]
    search("SLE")
    assert page.texts(".panel .chosen") == ["sleep is in 1 text"]
    assert page.texts(".neighbours button") == ["belly fat3", "עברית1"]
    page.click(".neighbours button")
    # The keyboard goes on from the place of the reader.
    assert page.evaluate("document.activeElement.textContent") == "belly fat is in 3 texts"
    assert page.texts(".neighbours bdi") == ["sleep", ATTACK, "author"]
    search("no such keyword")
    assert page.texts(".explorer [aria-live]") == ["No phrase here contains “no such keyword”."]


def test_texts_open_with_their_phrase_marked(page):
    page.click(".texts-of summary", "Its texts")
    assert page.texts(".texts-of p") == TEXTS[:3] and page.texts(".texts-of mark") == ["belly fat"] * 3
    # An attack, and emoji and line separators.
    for neighbour, text in (("sleep3", TEXTS[6]), ("עברית1", TEXTS[7])):
        page.click(".neighbours button", neighbour)
        page.click(".texts-of summary", "Its texts")
        shown, = page.texts(".texts-of p")
        assert shown.split() == text.split() and page.texts(".texts-of mark")[0].lower() in text.lower()
