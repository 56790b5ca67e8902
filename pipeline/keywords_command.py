"""The command ``keycontrast keywords``: keyphrases of texts without a project."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from stages.run.errors import InputError


def keywords(file: Annotated[str, typer.Argument(
                 metavar="FILE|-", help="CSV, TSV, JSONL or Parquet with a column of texts, or any other file with one "
                                        "text per line, plain or packed; - is standard input")],
             column: Annotated[str | None, typer.Option(help="of the texts in a table; text by default")] = None,
             top: Annotated[int, typer.Option(min=1, help="phrases per text at most")] = 10,
             method: Annotated[str | None, typer.Option(
                 help="tfidf (by default), pytextrank, positionrank, mihalcea, yake; embedrank is "
                      "best and slow")] = None,
             diversity: Annotated[float, typer.Option(
                 min=0.0, max=1.0, metavar="D", help="0 takes the best phrases; towards 1, those that differ from the "
                                                     "ones before them (maximal marginal relevance)")] = 0.0,
             min_count: Annotated[int, typer.Option(min=1, metavar="N", help="texts that must hold a phrase")] = 1,
             ngram_range: Annotated[tuple[int, int] | None, typer.Option(
                 metavar="MIN MAX", help="fewest and most words of a phrase, such as 1 3")] = None,
             as_csv: Annotated[bool, typer.Option("--csv", help="a row per phrase, as CSV")] = False,
             as_json: Annotated[bool, typer.Option("--jsonl", help="an object per text, as JSON lines")] = False,
             out: Annotated[Path | None, typer.Option(help="Parquet file to write, of schema phrases")] = None,
             encoding: Annotated[str, typer.Option(help="of the file")] = "utf-8",
             language: Annotated[str, typer.Option(help="of the texts: en or zh")] = "en") -> None:
    """List the keyphrases of texts, best first, without any recipe: of a file, or of standard input.

    Texts are numbered as they are read, from 1. What is common to all of them counts for less in the ranking.

    Example: `keycontrast keywords abstracts.csv --column abstract --top 5 --diversity 0.3`, or
    `cat notes.txt | keycontrast keywords - --csv > phrases.csv`
    """
    from pipeline import keyphrases
    from pipeline.phrase_choice import Choice

    if as_csv + as_json + (out is not None) > 1:
        raise InputError("--csv, --jsonl and --out are three forms of one answer; choose one.")
    if out is not None:
        keyphrases.check_parquet(out)
    chosen, choice = keyphrases.checked(method), Choice(top, diversity, min_count, ngram_range)
    texts = keyphrases.given(file, column, encoding, sys.stdin)
    found = keyphrases.ranked_texts(texts, chosen, choice, language)
    if out is not None:
        keyphrases.write_parquet(found, out, chosen)
    else:
        (keyphrases.print_csv if as_csv else keyphrases.print_json if as_json else keyphrases.print_texts)(
            found, sys.stdout)
