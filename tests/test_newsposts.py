"""What is taken off the posts of newsgroups (``ng_strip``)."""

import pytest
from ingest_rows import dataset, ingested

from stages.ingest.params import Ingest
from stages.ingest.parsing import strip_post
from stages.ingest.rows import RawRow

HEAD = "From: ann@example.org (Ann)\nSubject: Re: brakes\nLines: 9\n"
QUOTED = "In article <123@example.org> bob@example.org writes:\n> They squeak.\nBC> And they smoke.\n"
OWN = "Mine do too.\n\nTry new pads > old pads."
SIGNATURE = "\n-- \nAnn, somewhere\nann@example.org\n"
POST = f"{HEAD}\n{QUOTED}\n{OWN}\n{SIGNATURE}"


def test_headers_end_at_the_first_blank_line():
    assert strip_post(POST, "headers") == f"{QUOTED}\n{OWN}\n{SIGNATURE}"
    assert strip_post(POST.replace("\n", "\r\n"), "headers").startswith("In article")
    assert strip_post("No header here.\n\nA second paragraph.", "headers").startswith("No header")


def test_quotations_and_the_signature_go_too():
    assert strip_post(POST, "headers_footers_quotes").strip() == OWN
    boxed = f"{HEAD}\n{OWN}\n=======\nAnn, somewhere\n=======\n"
    assert strip_post(boxed, "headers_footers_quotes").strip() == OWN
    far_above = f"{HEAD}\nAbove.\n-----\n" + "A line of the text.\n" * 30
    assert "Above." in strip_post(far_above, "headers_footers_quotes")


@pytest.mark.parametrize(("post", "left"), [
    (HEAD + "\n \n", HEAD + "\n \n"), (f"{HEAD}\n> Only quoted.\n", "> Only quoted.\n"),
    (f"{HEAD}\n--\nOnly a signature\n", "--\nOnly a signature\n")])
def test_nothing_is_taken_off_that_would_leave_nothing(post, left):
    assert strip_post(post, "headers_footers_quotes") == left


def test_the_stage_strips_texts_and_shows_refused_rows_as_they_were(tmp_path):
    rows = [RawRow("f", number, {"text": f"{HEAD}\nPost {number}.", "label": "ab"[number % 2]})
            for number in range(1, 41)]
    rows.append(RawRow("f", 41, {"text": f"{HEAD}\nPost 41.", "label": None}))
    data = dataset(layout="labelled", columns={"text": "text", "label": "label"})
    made = ingested(rows, data, Ingest(ng_strip="headers", max_rejected=0.5), 1, tmp_path)
    assert made.texts["text"].tolist()[:2] == ["Post 1.", "Post 2."]
    assert "From: ann@example.org" in made.rejected["raw"][0]
