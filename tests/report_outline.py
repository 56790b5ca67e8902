"""What tests read from the page: its tags, ids, links, sections, and the rows of its tables."""

import re
from html.parser import HTMLParser


class Outline(HTMLParser):
    """Checks that tags close in order, and collects ids, links, and the text of each table row."""

    VOID = {"meta", "link", "br", "img", "input"}
    CDATA_CONTENT_ELEMENTS = ("script", "style")

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.links, self.rows, self.tags = [], [], [], [], set()
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.tags.add(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        if "id" in values:
            self.ids.append(values["id"])
        for name in ("href", "src", "xlink:href", "aria-labelledby", "data-choice", "data-source", "data-in"):
            if name in values:
                self.links.append((name, values[name]))
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th") and self.rows:
            self.rows[-1].append([values.get("class") or "", ""])

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if {"td", "th"} & set(self.open) and self.rows and self.rows[-1]:
            self.rows[-1][-1][1] += data


def row_of(page, name, first_column):
    """Cells by heading of row ``name`` in the table that has the column ``first_column``."""
    headings = None
    for row in Outline(page).rows:
        texts = [text.strip() for _, text in row]
        if "system" in texts[:1]:
            headings = texts
        elif headings and first_column in headings and texts[:1] == [name]:
            return {heading: tuple(cell) for heading, cell in zip(headings, row, strict=True)}
    raise AssertionError(f"no row {name} with a column {first_column}")


def assert_sound(page):
    """Tags close, ids are unique, links lead to a place in the page, and nothing comes from outside."""
    outline = Outline(page)
    assert len(outline.ids) == len(set(outline.ids))
    for name, target in outline.links:
        if name == "aria-labelledby" or name.startswith("data-"):
            assert target in outline.ids
        elif target.startswith("#"):
            assert target[1:] in outline.ids
        else:
            # The empty icon, which keeps browsers from asking for one; and shades of a matrix.
            assert target == "data:," or target.startswith("data:image/png;base64,")
    assert "http" not in re.sub(r'xmlns(:xlink)?="[^"]+"', "", page).replace("http-equiv", "").replace(
        '"http://www.w3.org/2000/svg"', "")


def part(page, section):
    """The text of the page's section of that name."""
    start = page.index(f'<section aria-labelledby="{section}"')
    return page[start:page.index("</section>", start)]


def track(page, key):
    """All sections of a track."""
    return "".join(re.findall(f'<section aria-labelledby="{key}-.*?</section>', page, re.DOTALL))


def rows(text, start="<table"):
    """Cells of the first table in ``text``; with ``<tbody>``, without its headings."""
    table = text[text.index(start):text.index("</table>")] + ("</table>" if start == "<table" else "")
    return [[cell.strip() for _, cell in row] for row in Outline(table).rows]
