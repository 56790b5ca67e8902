"""The page that raters read first."""

from pipeline.judgement.design import Design

INSTRUCTIONS = "instructions.md"
# The papers name their criteria and do not define them: the wording is ours.
_MEANINGS = {
    "fluency": "Is the output well formed: grammatical, natural, complete? Leave aside what it says.",
    "meaningfulness": "Does the output make sense beside its source: does it stay on the topic and say something "
                      "sensible?",
    "differential": "Does the output find words of its own? A copy of the source, or nearly one, gets the lowest "
                    "score.",
    "accuracy": "Does the output say what the source says, nothing left out and nothing added?",
    "diversity": "How much does the wording differ from the source: other words, another order, another build?",
}


def instructions(design: Design, rows: dict[str, int], criteria_text: dict[str, str] | None = None) -> str:
    """Return the page of instructions as Markdown.

    Args:
        design: criteria and scale.
        rows: number of rows of each rater's sheet.
        criteria_text: what criteria mean, in place of or beside those known here.
    """
    meanings = _MEANINGS | (criteria_text or {})
    middle = "" if len(design.points) < 3 else ", and the points between lie evenly"
    lines = ["# Instructions for raters", "",
             "Each row of your sheet shows a source and an output that somebody, or something, wrote for it. Outputs "
             "for the same source stand below each other, in a random order that differs from item to item. Judge "
             "each by itself, and do not talk about them with other raters before all sheets are in.", "",
             f"Fill in every empty cell with a whole number from {design.low} to {design.high}: {design.low} is worst, "
             f"{design.high} is best{middle}.", ""]
    lines += [f"- **{name}**: {meanings.get(name, 'as you were told.')}" for name in design.criteria]
    lines += ["", "Change nothing else: `item` and `position` tell which row is which. You may sort whole rows and "
              "hide columns. Where a source or an output begins with an apostrophe and a sign, the apostrophe only "
              "keeps the spreadsheet from computing it. `(no output)` means that there was none: judge it as such.", "",
              "Save the sheet under its own name as **CSV UTF-8** (in LibreOffice: Text CSV, character set UTF-8).", "",
              "| sheet | rows |", "| --- | ---: |"]
    lines += [f"| `{rater}.csv` | {count} |" for rater, count in rows.items()]
    return "\n".join(lines) + "\n"
