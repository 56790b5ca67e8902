"""The report in a real browser: what a reader finds and does there, on a wide window and on a phone."""

import csv
import io
import json
import re
from urllib.parse import quote, unquote

import pytest
from browser import Browser
from report_artifacts import ATTACK, CLOSING, IMAGE, ITEMS, SCRIPTS, TEXTS

from stages.common.paths import REPORT_PAGE
from stages.results.page.examples import segments

WIDE, PHONE = 1200, 360
TOO_WIDE = """[...document.querySelectorAll("main *")].filter((one) => !one.closest(".scroll")
    && one.getBoundingClientRect().right > document.documentElement.clientWidth + 1).map((one) => one.outerHTML)
    .slice(0, 3)"""


@pytest.fixture(scope="module")
def file(made_report):
    """The page of the small artifacts."""
    return made_report("hcl") / REPORT_PAGE


@pytest.fixture(scope="module")
def browser():
    with Browser() as running:
        yield running


@pytest.fixture(scope="module")
def both(made_report):
    """The page of small artifacts of both tracks."""
    return made_report("hcl", "pgkpr") / REPORT_PAGE


@pytest.fixture(scope="module")
def three(made_report):
    """The page of small artifacts of all tracks."""
    return made_report("hcl", "pgkpr", "clld") / REPORT_PAGE


@pytest.fixture(params=[WIDE, PHONE])
def page(browser, file, request):
    """The page at both widths; whatever a test does with it, nothing goes wrong in it and it does not grow too wide."""
    yield from opened(browser, file, request.param)


@pytest.fixture(params=[WIDE, PHONE])
def tracks(browser, both, request):
    """The same of the page of both tracks."""
    yield from opened(browser, both, request.param)


@pytest.fixture(params=[WIDE, PHONE])
def classes(browser, three, request):
    """The same of the page of all tracks."""
    yield from opened(browser, three, request.param)


def opened(browser, file, width):
    """What is folded is opened, but what a run or a pair of classes opens."""
    tab = browser.open(file, width)
    tab.evaluate("for (const fold of document.querySelectorAll('.fold')) fold.open = true")
    yield tab
    assert tab.problems() == []
    assert tab.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert tab.evaluate("window.attacked === undefined && !document.querySelector('img')")


def column_of(page, table, column):
    """Texts of one column of the table that has this caption, floors left out, small print left out."""
    return page.evaluate(f"""(() => {{
        const table = [...document.querySelectorAll("table")].find((one) =>
          one.caption?.textContent.startsWith({table!r}));
        return [...table.querySelectorAll("tbody.run tr")].map((row) => row.cells[{column}].firstChild.textContent);
    }})()""")


def test_nothing_goes_wrong_and_nothing_is_wider_than_the_window(page):
    assert page.texts("h1") == ["Keycontrast report"]
    # Wide tables scroll in their own box.
    assert page.evaluate(TOO_WIDE) == []
    assert page.texts(".raised summary") == ["Keyword contrast vanished"]


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
    assert [text.split("1 example")[0] for text in page.texts("[role=option]")] == ["sleep"]
    page.press("ArrowDown")
    assert page.evaluate("document.activeElement.getAttribute('aria-activedescendant')") == "graph-tiny-search-0"
    page.press("Enter")
    assert page.texts(".view h4") == ["sleep"] and page.texts("[role=option]") == []
    assert page.texts(".neighbours.positive h5") == ["1 positive neighbour"]
    assert page.texts(".neighbours.positive button") == ["belly fat3"]
    assert page.texts(".neighbours.negative button") == ["עברית1"]
    page.click(".neighbours.positive button")
    assert page.texts(".view h4") == ["belly fat"]
    # The keyboard goes on from where the reader is.
    assert page.evaluate("document.activeElement.textContent") == "belly fat"
    assert page.texts(".neighbours.negative bdi") == [ATTACK]
    page.click(".back")
    assert page.texts(".view h4") == ["sleep"]
    page.type(".combobox input", "no such keyword")
    assert "No keyword here contains “no such keyword”." in page.texts(".explorer [aria-live]")
    page.press("Escape")


def test_the_map_shows_keywords_with_the_signs_of_their_edges_and_opens_them(page):
    graph = "document.querySelector('.explorer').map.graph"
    assert page.evaluate(f"{graph}.nodes().map((node) => {graph}.getNodeAttribute(node, 'label'))")[0] == "belly fat"
    assert sorted(page.evaluate(f"{graph}.mapEdges((edge, {{sign}}) => sign)")) == ["negative"] * 2 + ["positive"] * 5
    # Negative ones have a mark beside their colour.
    assert page.evaluate("""(() => {
        const {sigma} = document.querySelector(".explorer").map;
        const {negative, positive} = sigma.getSetting("edgeProgramClasses");
        return [negative, positive].map((one) =>
          one.prototype.getDefinition().FRAGMENT_SHADER_SOURCE.includes("discard"));
    })()""") == [True, False]
    place = page.evaluate("""(() => {
        const {graph, sigma} = document.querySelector(".explorer").map;
        document.querySelector(".graphmap .canvas").scrollIntoView({block: "center"});
        const box = document.querySelector(".graphmap .canvas").getBoundingClientRect();
        const node = graph.findNode((node, {label}) => label === "sleep");
        const {x, y} = sigma.graphToViewport(graph.getNodeAttributes(node));
        return [box.left + x, box.top + y];
    })()""")
    for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
        page.send("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], clickCount=1,
                  button="none" if kind == "mouseMoved" else "left")
    page.wait("document.querySelector('.view h4').textContent === 'sleep'")
    assert page.evaluate("document.querySelector('.explorer').map.sigma.getCamera().getState().ratio") < 0.5
    page.click(".zoom button", "Whole")
    assert page.evaluate("document.querySelector('.explorer').map.sigma.getCamera().getState().ratio") == 1


def test_a_finger_passes_over_the_map_and_a_tap_opens_a_keyword(browser, file):
    tab = browser.open(file, PHONE)
    tab.send("Emulation.setTouchEmulationEnabled", enabled=True)
    tab.evaluate("document.querySelector('.graphmap .canvas').scrollIntoView({block: 'center'})")
    x, y, height = tab.evaluate("""(() => {
        const box = document.querySelector(".graphmap .canvas").getBoundingClientRect();
        return [box.left + 20, box.top + box.height / 2, scrollY];
    })()""")
    tab.send("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
    for way in range(0, 201, 20):
        tab.send("Input.dispatchTouchEvent", type="touchMove", touchPoints=[{"x": x, "y": y - way}])
    tab.send("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    tab.wait(f"scrollY > {height} + 100")
    assert tab.texts(".view h4") == ["belly fat"] and tab.problems() == []
    tab = browser.open(file, PHONE)
    tab.send("Emulation.setTouchEmulationEnabled", enabled=True)
    tab.evaluate("document.querySelector('.graphmap .canvas').scrollIntoView({block: 'center'})")
    place = tab.evaluate("""(() => {
        const {graph, sigma} = document.querySelector(".explorer").map;
        const box = document.querySelector(".graphmap .canvas").getBoundingClientRect();
        const node = graph.findNode((node, {label}) => label === "sleep");
        const {x, y} = sigma.graphToViewport(graph.getNodeAttributes(node));
        return {x: box.left + x, y: box.top + y};
    })()""")
    tab.send("Input.dispatchTouchEvent", type="touchStart", touchPoints=[place])
    tab.send("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    tab.wait("document.querySelector('.view h4').textContent === 'sleep'")
    assert tab.problems() == []


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
    assert tab.texts(".view h4") == ["sleep"] and len(tab.texts(".generations article")) == 0


def test_neighbours_in_the_picture_lead_on(page):
    assert page.texts(".radial text.middle") == ["belly fat"]
    assert len(page.texts(".radial g.positive")) == 2 and len(page.texts(".radial g.negative")) == 1
    page.click(".radial g.positive circle")
    assert page.texts(".view h4") == ["sleep"]
    page.evaluate("document.querySelector('.radial g.negative').focus()")
    page.press("Enter")
    assert page.texts(".view h4") == ["עברית"]


def test_example_texts_open_with_their_keywords_marked(page):
    assert page.texts(".explorer article") == []
    page.click("button.open", "Open 2 example texts")
    assert page.texts(".explorer article h5") == ["Example 0", "Example 4"]
    assert page.texts(".explorer article:first-child dd") == TEXTS[:3]
    assert page.texts(".explorer article:first-child mark") == ["belly fat"] * 3
    # The negative's keyword is an attack, the target's stands among emoji and line separators.
    assert page.texts(".explorer article:nth-child(2) mark") == ["belly fat", "עברית", ATTACK]
    assert IMAGE in page.texts(".explorer article:nth-child(2) dd")[1]
    page.click("button.open", "Close 2 example texts")
    assert page.texts(".explorer article") == []


def test_generations_are_found_filtered_and_paged(page):
    status = ".generations .status"
    assert page.texts(status)[0].startswith(f"1 to 12 of {ITEMS} items; by their own BLEU-2, full is ahead in")
    page.click(".pages button", "Next")
    page.click(".pages button", "Next")
    assert page.texts(status)[0].startswith(f"25 to {ITEMS} of {ITEMS} items; ")
    assert page.evaluate("document.querySelectorAll('.pages button')[1].disabled")
    page.click(".pages button", "Previous")
    assert page.texts(status)[0].startswith(f"13 to 24 of {ITEMS} items; ")
    page.click(".tick input")
    assert page.texts(status)[0].startswith(f"1 to {ITEMS // 3} of {ITEMS // 3} items; ")
    assert set(page.texts(".generations .output dd")) == {f"wrote {ATTACK} the author", "(empty)"}
    page.click(".tick input")
    page.type(".generations input[type=search]", "</SCRIPT><!--")
    assert page.texts(status)[0].startswith(f"1 to {ITEMS // 3} of {ITEMS // 3} items; ")
    assert CLOSING in page.texts(".generations article dd")[0]
    page.type(".generations input[type=search]", "nowhere")
    assert "No item matches" in page.texts(status)[0] and page.texts(".generations article") == []


def test_generations_mark_keywords_and_new_words(page):
    first = ".generations article:first-child"
    assert page.texts(f"{first} .output dd") == ["lose Belly  Fat now"] * 2
    assert page.texts(f"{first} .output mark") == ["Belly  Fat"] * 2
    assert page.texts(f"{first} .scores") == ["0.25 · 0.25 · 0.25", "0.20 · 0.20 · 0.20"]
    assert page.texts(f"{first} ins") == []
    page.choose(".controls label:nth-child(4) select", "source")
    assert page.texts(f"{first} ins") == ["now", "now"]
    page.choose(".controls label:nth-child(4) select", "pair")
    assert page.texts(f"{first} ins") == []
    page.choose(".controls label:nth-child(5) select", "behind")
    assert page.texts(".generations article h5")[0].startswith("Example 6 ")


def test_marks_follow_the_rules_of_the_static_page(page):
    """The scripts mark what stages/results/page/examples.py marks."""
    static = {text: [part.text for part in segments(text, [word]) if part.marked]
              for text, word in ((TEXTS[0], "belly fat"), (TEXTS[3], ATTACK), (TEXTS[6], "sleep"))}
    for place, text in enumerate((TEXTS[0], TEXTS[3], TEXTS[6]), 1):
        article = f".generations article:nth-child({place}) .texts > div:first-child"
        assert page.texts(f"{article} dd") == [text]
        assert page.texts(f"{article} mark") == static[text]
    assert page.texts(".generations article:nth-child(3) .texts > div:nth-child(2) dd") == [TEXTS[7]]
    assert SCRIPTS in TEXTS[7]


def test_tables_are_sorted_by_their_headings(page):
    caption = "As HCL reports them"
    assert column_of(page, caption, 1) == ["0.500", "0.400"]
    heading = "table.results th button.sort"
    page.click(heading, "BLEU-1 ↑")
    assert page.evaluate("document.querySelector('th[aria-sort]').getAttribute('aria-sort')") == "descending"
    assert column_of(page, caption, 1) == ["0.500", "0.400"]
    page.click(heading, "BLEU-1 ↑")
    assert column_of(page, caption, 1) == ["0.400", "0.500"]
    assert page.evaluate("document.querySelector('th[aria-sort]').getAttribute('aria-sort')") == "ascending"
    # Floors stay where they are, in a body of their own.
    assert page.texts("table.results tbody:first-of-type th")[:2] == ["nearest", "copy"]
    page.click(heading, "BLEU-1 ↑")
    assert column_of(page, caption, 1) == ["0.500", "0.400"]
    assert not page.evaluate("!!document.querySelector('[aria-sort]')")


def test_metrics_are_explained_where_they_stand(page):
    page.click("table.results th button.sort", "BLEU-1 ↑")
    explained, = page.texts(".hint")
    assert re.match("Mean over items of sentence BLEU with all weight on n-grams of length 1.*Higher is", explained)
    page.press("Escape")
    assert page.texts(".hint") == []
    page.evaluate("document.querySelectorAll('table.results th button.sort')[2].focus({focusVisible: true})")
    assert "length 2" in page.texts(".hint")[0]


def test_intervals_can_be_hidden_and_differences_chosen(page):
    assert "0.450 to 0.550" in page.texts(".results td small")
    page.click(".switch input")
    assert "0.450 to 0.550" not in page.texts(".results td small")
    assert page.texts(".differences tbody th") == ["plain", "floor copy"]
    page.choose(".choice select", "1")
    assert page.texts(".differences tbody th") == ["plain"]
    assert page.texts(".differences caption strong") == ["source BLEU-4"]


def test_dark_and_light(page, browser, file):
    colour = "getComputedStyle(document.body).backgroundColor"
    light, dark = "rgb(253, 253, 252)", "rgb(21, 24, 28)"
    assert page.evaluate(colour) == light and page.texts("#theme") == ["Dark"]
    page.click("#theme")
    assert page.evaluate(colour) == dark and page.texts("#theme") == ["Light"]
    again = browser.open(file, WIDE)        # it remembers
    assert again.evaluate(colour) == dark
    again.click("#theme")
    assert again.evaluate(colour) == light
    again.evaluate("localStorage.clear()")
    system = browser.open(file, WIDE, dark=True)
    assert system.evaluate(colour) == dark and system.problems() == []


def test_curves_and_points_can_be_switched_off(page):
    page.evaluate("document.querySelector('.curves').scrollIntoView()")
    lines = "[...document.querySelectorAll('[data-part=series-1]')].filter((one) => one.getClientRects().length).length"
    before = page.evaluate(lines)
    assert before > 4
    page.click(".curves .legend button", "plain")
    assert page.evaluate(lines) == 0
    page.click(".curves .legend button", "plain")
    assert page.evaluate(lines) == before
    page.click(".latent .legend button", "negative")
    assert page.evaluate("document.querySelector('.map g.negative').getClientRects().length") == 0
    page.click(".map g.impostor_keyword path")
    assert page.texts(".hint")[0].endswith(ATTACK)
    assert page.evaluate("document.querySelectorAll('.map .same').length") == 5


def test_both_tracks_fit_and_are_told_apart(tracks):
    assert tracks.evaluate(TOO_WIDE) == []
    assert tracks.texts(".contents > ul > li > a") == ["Corpus", "Summary", "HCL", "PGKPR", "What ran"]
    assert tracks.texts("main .method > h2") == ["HCL", "PGKPR"]


@pytest.mark.whole
def test_three_tracks_fit_and_are_told_apart(classes):
    assert classes.evaluate(TOO_WIDE) == []
    assert classes.texts("main .method > h2") == ["HCL", "PGKPR", "CLLD"]
    classes.evaluate("for (const one of document.querySelectorAll('.classifier')) one.open = true")
    assert classes.evaluate(TOO_WIDE) == []


def test_a_run_opens_its_most_confused_pairs_with_texts(classes):
    """Its first run is open, its pairs are closed; whatever texts and classes hold stays text."""
    classes.evaluate("document.querySelector('.classifier').scrollIntoView()")
    assert classes.texts(".confused[open]") == []
    classes.click(".classifier[open] .confused summary")
    shown = classes.texts(".confused[open] article p")
    assert len(shown) == 6 and any(ATTACK in text for text in shown) and any(IMAGE in text for text in shown)
    assert classes.texts(".confused[open] article h6 bdi")[:2] == ["alt.atheism", "talk.religion.misc"]
    classes.click(".classifier[open] .confused summary")
    assert classes.texts(".confused[open]") == []


def test_cells_say_what_they_are(classes):
    cell = ".classifier[open] .matrix [data-part='cell-2-4'] path"
    classes.evaluate(f"document.querySelector({cell!r}).scrollIntoView({{block: 'center', inline: 'center'}})")
    classes.click(cell)
    assert re.fullmatch(r"alt\.atheism taken for talk\.religion\.misc: \d+ of 15 texts", classes.texts(".hint")[0])


def test_matrices_keep_a_size_that_can_be_read(classes):
    width, natural = classes.evaluate("""(() => {
        const matrix = document.querySelector(".classifier[open] .matrix");
        return [matrix.getBoundingClientRect().width, parseFloat(matrix.style.getPropertyValue("--natural"))];
    })()""")
    assert 0.8 * natural < width <= natural + 1 and natural > 350
    # The colours are the page's own, light or dark.
    fill = "getComputedStyle(document.querySelector('.matrix [data-part] path')).fill"
    light = classes.evaluate(fill)
    classes.click("#theme")
    assert classes.evaluate(fill) != light
    classes.click("#theme")
    classes.evaluate("localStorage.clear()")


def test_classes_are_sorted_by_their_headings(classes):
    table = ".classifier[open] table.results"
    before = classes.texts(f"{table} tbody th")
    classes.click(f"{table} th button.sort", "F1")
    scores = classes.evaluate(f"""[...document.querySelectorAll("{table} tbody tr")]
        .map((row) => row.cells[5].textContent)""")
    assert scores[-1] == "–" and scores[:-1] == sorted(scores[:-1], reverse=True)
    classes.click(f"{table} th button.sort", "F1")
    classes.click(f"{table} th button.sort", "F1")
    assert classes.texts(f"{table} tbody th") == before


def test_every_keyword_of_a_source_is_marked(tracks):
    first = "[data-source=generations-pgkpr-0] article:first-child"
    assert tracks.texts(f"{first} h5") == ["Example 0 · keywords are good workouts lose belly fat"]
    assert tracks.texts(f"{first} .texts > div:first-child mark") == ["are", "good", "workouts", "lose", "belly", "fat"]
    assert tracks.texts(f"{first} .output mark") == ["lose", "belly", "fat"] * 6
    # On the other track a keyword of two words stays one.
    assert tracks.texts("[data-source=generations-hcl-0] article:first-child .texts > div:first-child mark") == [
        "belly fat"]


def test_cases_read_on_any_width(tracks):
    item = ".cases tbody:first-of-type"
    assert tracks.texts(f"{item} th")[:4] == ["sourceexample 6", "TSs, part 1", "TSs, part 2", "reference"]
    assert tracks.texts(f"{item} tr:nth-child(3) .tag") == ["[VBP]", "[JJ]", "[NNS]", "[VB]", "[NN]", "[NN]"]
    below = tracks.evaluate(f"""(() => {{
        const row = document.querySelector("{item} tr:nth-child(2)");
        const [name, text] = [...row.cells].map((cell) => cell.getBoundingClientRect());
        return text.top >= name.bottom - 1;
    }})()""")
    narrow = tracks.evaluate("innerWidth") == PHONE
    assert below == narrow
    # On a phone nothing of it has to be scrolled for.
    assert tracks.evaluate("(({scrollWidth, clientWidth}) => scrollWidth <= clientWidth)"
                           "(document.querySelector('.cases').parentElement)")


def test_contents_lead_to_every_section(page):
    for target in page.evaluate("[...document.querySelectorAll('.contents a')].map((one) => one.hash.slice(1))"):
        page.evaluate(f"document.querySelector('.contents a[href=\"#{target}\"]').click()")
        top = page.evaluate(f"document.getElementById({target!r}).getBoundingClientRect().top")
        # The last ones may lie below the top where the page ends.
        bottom = page.evaluate("Math.abs(scrollY + innerHeight - document.documentElement.scrollHeight) < 2")
        assert -1 <= top < 120 or bottom, target


def test_everything_can_be_reached_by_keyboard(page):
    assert page.evaluate("""[...document.querySelectorAll("button, select, input, a[href], summary, .scroll")]
        .filter((one) => one.tabIndex < 0).length""") == 0
    page.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    # Every control has a name.
    assert page.evaluate("""[...document.querySelectorAll("button, select, input")].filter((one) =>
        !one.textContent.trim() && !one.labels?.length && !one.ariaLabel).length""") == 0


def test_page_prints_without_its_controls(page):
    page.send("Emulation.setEmulatedMedia", media="print", features=[])
    assert page.texts(".contents, .controls, .bar, #theme, .pages") == []
    assert page.texts("h2") == ["Corpus", "What helps, and how sure that is", "HCL", "What ran"]
    # The table stands for the map.
    assert page.texts(".graphmap") == []
    page.evaluate("document.querySelector('.stand-in').open = false; dispatchEvent(new Event('beforeprint'))")
    assert page.texts(".stand-in tbody th")[0] == "belly fat"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.texts(".stand-in tbody th") == []
    page.send("Emulation.setEmulatedMedia", media="screen", features=[])


def test_a_missing_browser_is_told_with_what_to_do(monkeypatch):
    import browser as driver

    monkeypatch.setattr(driver, "PROGRAMS", ("no-such-browser",))
    monkeypatch.delenv("KEYCONTRAST_BROWSER", raising=False)
    with pytest.raises(RuntimeError, match="apt-get install chromium.*KEYCONTRAST_BROWSER.*pytest --ignore"):
        driver.program()


# -- finding one's way ------------------------------------------------------------------------------------------

def test_details_are_folded_until_somebody_wants_them(browser, three):
    for width, screens in ((WIDE, 12), (PHONE, 18)):
        tab = browser.open(three, width)
        assert tab.evaluate("document.documentElement.scrollHeight / innerHeight") < screens
        assert tab.texts(".curves") == [] and tab.texts("#hcl-training") == ["Training"]
        tab.click("#unfold", "Unfold all")
        assert len(tab.texts(".curves")) == 3 and tab.texts("#unfold") == ["Fold all"]
        tab.click("#unfold")
        assert tab.texts(".curves") == [] and tab.problems() == []


def test_the_contents_mark_where_the_reader_is(browser, three):
    tab = browser.open(three, WIDE)
    here = ".contents [aria-current]"
    assert tab.texts(here) == ["Corpus"]
    # The parts of one method at a time: no title stands there twice.
    assert tab.texts(".contents ul ul a") == []
    tab.click(".contents a", "PGKPR")
    tab.wait(f"document.querySelector('{here}').hash === '#pgkpr'")
    titles = tab.texts(".contents ul ul a")
    assert "PGKPR: Generations" in titles and len(titles) == len(set(titles)) == 6
    tab.evaluate("document.querySelector('.contents a[href=\"#pgkpr-training\"]').click()")
    tab.wait(f"document.querySelector('{here}').hash === '#pgkpr-training'")
    # What it leads to is not left folded.
    assert len(tab.texts(".curves")) == 1


def test_an_address_opens_what_is_folded_over_it(browser, file, tmp_path):
    tab = browser.open(file, WIDE)
    tab.evaluate("location.hash = '#model-plain'")
    tab.wait("!!document.querySelector('#model-plain').checkVisibility()")
    assert tab.texts("#model-plain") == ["plain"]


@pytest.mark.parametrize("width", [WIDE, PHONE])
def test_whatever_can_be_pressed_is_large_enough_and_tables_have_captions(browser, three, width):
    tab = browser.open(three, width)
    tab.evaluate("for (const fold of document.querySelectorAll('main details')) fold.open = true")
    assert tab.evaluate("""[...document.querySelectorAll("a[href], button, input, select, summary")]
        .filter((one) => one.checkVisibility() && !one.closest(".skip")).filter((one) => {
          const box = one.getBoundingClientRect();
          return box.width < 24 || box.height < 24;
        }).map((one) => one.outerHTML)""") == []
    assert tab.evaluate("[...document.querySelectorAll('table')].filter((one) => !one.caption).length") == 0


# -- taking things along ----------------------------------------------------------------------------------------

SAVED = """(async () => {
    const made = URL.createObjectURL;
    const saved = new Promise((done) => { URL.createObjectURL = (blob) => { done(blob.text()); return made(blob); }; });
    document.querySelector(%r).click();
    return await saved;
})()"""


def saved(tab, selector):
    """Rows of the CSV that a button saves; it begins with the mark by which programs of tables know UTF-8."""
    text = tab.evaluate(f"({SAVED % selector}).then((text) => encodeURIComponent(text))")
    return list(csv.reader(io.StringIO(unquote(text), newline="")))


def test_every_table_can_be_saved(browser, three):
    tab = browser.open(three, WIDE)
    assert tab.evaluate("""[...document.querySelectorAll("main table")]
        .filter((one) => !one.querySelector("button.download")).length""") == 0
    table = saved(tab, ".digest .download")
    assert table[0] == ["group", "system", "what it is", "value", "value (small print)", "difference",
                        "difference (small print)", "in words"]
    plain = next(row for row in table if row[1] == "plain")
    # Numbers as they were before they were rounded; an interval is a text, whatever it begins with.
    assert plain[0].startswith("HCL · tiny, test split") and plain[3:7] == ["0.4", "0.350 to 0.450", "-0.1",
                                                                           "'-0.150 to -0.050"]
    tops = saved(tab, ".tops .download")
    assert tops[1][0] == "belly fat (3)" and tops[1][1] == f"{ATTACK} (1)"
    assert tab.problems() == []


def test_what_a_program_of_tables_would_take_for_a_formula_is_saved_as_text(browser, file):
    tab = browser.open(file, WIDE)
    tab.evaluate("""(() => {
        const cells = document.querySelector(".tops tbody tr").cells;
        ["=HYPERLINK(1)", "+cmd", "@x", "-1.5", "a \\"b\\", c"].forEach((text, place) => {
          cells[place].textContent = text;
        });
    })()""")
    assert saved(tab, ".tops .download")[1] == ["'=HYPERLINK(1)", "'+cmd", "'@x", "-1.5", 'a "b", c']


def test_generations_are_saved_as_they_are_filtered(page):
    page.type(".generations input[type=search]", "</SCRIPT><!--")
    table = saved(page, ".generations .controls button")
    assert len(table) == 1 + ITEMS // 3
    assert table[0][:7] == ["example", "keyword", "in the training graph", "source", "references", "negative",
                            "output of full"]
    assert table[1][3] == TEXTS[6] and IMAGE in table[1][4]


def test_two_runs_are_compared_output_by_output(page):
    status = ".generations .status"
    page.choose(".controls label:nth-child(6) select", "behind")
    assert "No item matches" in page.texts(status)[0]
    page.choose(".controls label:nth-child(6) select", "ahead")
    assert page.texts(status) == [f"1 to 12 of {ITEMS} items; by their own BLEU-2, full is ahead in {ITEMS}, plain in "
                                  "0, and 0 are even"]
    page.choose(".controls label:nth-child(6) select", "unseen")
    assert page.texts(status)[0].startswith(f"1 to {ITEMS // 3} of {ITEMS // 3} items; ")


def test_an_address_shows_what_its_sender_saw(browser, file):
    tab = browser.open(file, WIDE)
    tab.click(".start button", "sleep")
    tab.evaluate("for (const fold of document.querySelectorAll('.fold')) fold.open = true")
    assert tab.evaluate("location.hash") == "#map-tiny?keyword=sleep"
    tab.choose(".controls label:nth-child(3) select", "0")
    tab.choose(".controls label:nth-child(6) select", "unseen")
    address = tab.evaluate("location.hash")
    assert address == "#shown-generations-hcl-0?second=full&only=unseen"
    again = browser.open(file, WIDE)
    again.evaluate(f"location.hash = {address!r}")
    again.wait("document.querySelector('.generations').checkVisibility()")
    assert again.texts(".generations .status")[0].startswith(f"1 to {ITEMS // 3} of {ITEMS // 3} items")
    again.evaluate(f"location.hash = '#map-tiny?keyword={quote(ATTACK)}'")
    again.wait(f"document.querySelector('.view h4').textContent === {json.dumps(ATTACK)}")
    again.evaluate("location.hash = '#map-tiny?keyword=nobody'")
    assert again.problems() == [] and again.evaluate("window.attacked === undefined")


def test_two_classifiers_are_compared_text_by_text(browser, three):
    tab = browser.open(three, WIDE)
    tab.evaluate("location.hash = '#compare-mistakes-clld-0'")
    tab.wait("document.querySelector('.mistakes').checkVisibility()")
    data = json.loads(tab.evaluate("document.getElementById('mistakes-clld-0').textContent"))
    first, second = (data["runs"].index(name) for name in ("ct/13", "clald"))
    tab.choose(".mistakes label:nth-child(3) select", str(second))
    for kind, holds in (("first", lambda one, other: one is None and other is not None),
                        ("second", lambda one, other: one is not None and other is None),
                        ("both", lambda one, other: one is not None and other is not None)):
        tab.choose(".mistakes label:nth-child(4) select", kind)
        count = sum(holds(item[3][first], item[3][second]) for item in data["items"])
        of_texts = f"of {count} text{'' if count == 1 else 's'}; of all, ct/13 alone is right in "
        assert of_texts in tab.texts(".mistakes .status")[0] if count else not tab.texts(".mistakes article")
        table = saved(tab, ".mistakes .controls button")
        assert table[0][:5] == ["example", "class", "text", "said by ct/13", "probability of ct/13"]
        assert len(table) == 1 + count
    assert tab.evaluate("location.hash") == "#shown-mistakes-clld-0?second=clald&only=both"
    assert tab.problems() == [] and tab.evaluate("window.attacked === undefined")
