"""The command line ``keycontrast``: keywords, graph and explain for plain texts; in a clone all commands."""

import csv
import gc
import io
import os
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TextIO

import typer
from rich.cells import cell_len, set_cell_size
from rich.console import Console

from keycontrast.cells import json_text, json_value, no_formula, printable
from keycontrast.errors import InputError, nearest, unwritten

if TYPE_CHECKING:
    import pyarrow as pa

    from keycontrast.texts import Given

app = typer.Typer(name="keycontrast", no_args_is_help=True, add_completion=False, rich_markup_mode="markdown",
                  pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]},
                  help="Keyphrases and keyword graphs of texts, and models trained on them in one pipeline.")
_PIPELINE = Path(__file__).resolve().parents[1] / "pipeline" / "cli.py"
_INTERRUPTED = 130
# By default the garbage collector visits all imported objects again and again, a tenth of a command's time.
_OBJECTS_BETWEEN_COLLECTIONS = 100_000
_MANY = 1024    # texts per process: with fewer, the start of another process costs more than it saves
_SHOWN, _COLUMN = 72, 26

File = Annotated[str, typer.Argument(
    metavar="FILE|-", help="CSV, TSV, JSON lines or Parquet with a column of texts, or any other file with one text "
                           "per line, also compressed; - is standard input")]
Column = Annotated[str | None, typer.Option(help="column of the texts in a table (default: text)")]
Encoding = Annotated[str, typer.Option(help="encoding of the file")]
Quoting = Annotated[str, typer.Option(help="of CSV and TSV: standard, or none if quotation marks are ordinary "
                                           "characters")]
Separator = Annotated[str | None, typer.Option(help="column separator of CSV and TSV (default: by the file name)")]
SkipEmpty = Annotated[bool, typer.Option("--skip-empty", help="leave out rows without a text, which are errors "
                                                              "otherwise")]
Language = Annotated[str, typer.Option(help="language of the texts: en or zh, or that of your own pipeline")]
Pipeline = Annotated[str, typer.Option(metavar="NAME", help="spaCy pipeline: embedded, an installed package, "
                                                            "or a folder with a slash in it")]
Method = Annotated[str, typer.Option(help="tfidf, pytextrank, positionrank, mihalcea, yake or embedrank (slowest, "
                                          "usually best)")]
Threshold = Annotated[float | None, typer.Option(help="minimum score of a phrase")]
StopWords = Annotated[Path | None, typer.Option(
    help="file of words that no phrase may contain, and of phrases to leave out, one per line")]
Candidates = Annotated[Path | None, typer.Option(
    help="file of phrases to rank instead of noun chunks, one per line")]
SeedWords = Annotated[str, typer.Option(
    metavar="WORDS", help="words or phrases, separated by commas, that pytextrank or embedrank prefers")]


def main() -> None:
    """Run the command line; bad input ends it with a message and status 1."""
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A pipe gets UTF-8 on every system; a terminal that cannot show a letter gets its number.
        sys.stdout.reconfigure(encoding=None if sys.stdout.isatty() else "utf-8", errors="backslashreplace")
    warnings.showwarning = _warned  # type: ignore[assignment]
    try:
        if _PIPELINE.is_file():
            import_module("pipeline.cli")  # adds its commands
        _call()
    except InputError as error:
        _fail(str(error))
    except BrokenPipeError:
        sys.exit(1)  # the reader of the output (`head`) has ended
    except SystemExit as end:
        if end.code == _INTERRUPTED:
            further = "; run the same command to continue" if sys.argv[1:2] == ["run"] else ""
            sys.stderr.write(f"keycontrast: interrupted{further}\n")
        raise
    except Exception as error:
        message = unwritten(error)
        if message is None:
            raise
        _fail(message)


def _call() -> None:
    """Run the command and write its whole output, perhaps to a full disk."""
    try:
        app()
    finally:
        # Freeing every object at the end takes a second. DuckDB complains of objects that are not freed.
        if "_duckdb" not in sys.modules:
            gc.freeze()
        try:
            sys.stdout.flush()
        except OSError:
            # Python would try again as it ends, and fail again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise


def _warned(message: Warning | str, category: type[Warning], *place: Any) -> None:
    """Print warnings about the input; others are for developers."""
    if category is UserWarning:
        sys.stderr.write(printable(f"keycontrast: {message}\n", keep="\n"))


def _fail(message: str) -> NoReturn:
    sys.stderr.write(printable(f"keycontrast: {message}\n", keep="\n"))
    sys.exit(1)


def _say_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"keycontrast {version('keycontrast')}")
        raise typer.Exit


@app.callback()
def keycontrast(asked: Annotated[bool, typer.Option(
        "--version", callback=_say_version, is_eager=True, help="print the version")] = False) -> None:
    """Take the options that stand before a command; its help is that of ``app``."""


@app.command()
def keywords(file: File, column: Column = None,
             top: Annotated[int, typer.Option(min=1, help="phrases per text at most")] = 10,
             method: Method = "tfidf",
             compare: Annotated[str | None, typer.Option(
                 metavar="METHODS", help="several methods side by side, in place of --method, such as "
                                         "tfidf,pytextrank")] = None,
             diversity: Annotated[float, typer.Option(
                 min=0.0, max=1.0, metavar="D", help="0: the best phrases; up to 1: phrases that differ from those "
                                                     "before them (maximal marginal relevance)")] = 0.0,
             min_count: Annotated[int, typer.Option(min=1, metavar="N", help="keep phrases of at least N texts")] = 1,
             ngram_range: Annotated[tuple[int, int] | None, typer.Option(
                 metavar="MIN MAX", help="fewest and most words; 1 5 unless --candidates is given")] = None,
             threshold: Threshold = None, stop_words: StopWords = None, candidates: Candidates = None,
             seed_words: SeedWords = "",
             encoder: Annotated[str | None, typer.Option(
                 metavar="NAME", help="of embedrank: a folder, or a name on the Hugging Face hub")] = None,
             pipeline: Pipeline = "embedded",
             as_csv: Annotated[bool, typer.Option("--csv", help="a row per phrase, as CSV")] = False,
             as_json: Annotated[bool, typer.Option("--jsonl", help="an object per text, as JSON lines")] = False,
             out: Annotated[Path | None, typer.Option(help="Parquet file to write, a row per phrase")] = None,
             id_column: Annotated[str | None, typer.Option("--id", metavar="COLUMN",
                                                           help="column to copy to the output")] = None,
             encoding: Encoding = "utf-8", quoting: Quoting = "standard", separator: Separator = None,
             skip_empty: SkipEmpty = False, language: Language = "en") -> None:
    """List the keyphrases of texts, best first: of a file, or of standard input.

    The output numbers rows and lines from 0, errors from 1. tfidf and embedrank prefer phrases that few texts have.

    Example: `keycontrast keywords data/sample/abstracts.csv --column abstract --top 4`
    """
    if as_csv + as_json + (out is not None) > 1:
        raise InputError("--csv, --jsonl and --out are formats of the same output; choose one.")
    if out is not None and out.suffix != ".parquet":
        raise InputError(f"--out: {out} must end in .parquet; --csv and --jsonl write to standard output.")
    given = _given(file, column, id_column, encoding, quoting, separator, skip_empty)
    engine = _engine(method, language, len(given), stop_words, candidates, seed_words, encoding, diversity=diversity,
                     min_count=min_count, ngram_range=ngram_range, threshold=threshold, encoder=encoder,
                     pipeline=pipeline)
    texts = [row.text for row in given]
    if compare is None:
        ranked = engine.rank(texts, top)
        output = Ranked(given, ranked.table, ranked.skipped, id_column is not None)
    else:
        compared = engine.compare(_parted(compare), texts, top)
        output = Ranked(given, compared.table, next(iter(compared.phrases.values())).skipped, id_column is not None)
    if output.skipped:
        sys.stderr.write(f"keycontrast: {output.skipped} of {len(output.texts)} rows have no text and were left out\n")
    if out is not None:
        _write_parquet(output, out)
        sys.stdout.write(f"{out}: {output.table.num_rows} rows of {len(output.texts) - output.skipped} texts\n")
    else:
        (print_csv if as_csv else print_json if as_json else print_texts)(output, sys.stdout)


@app.command()
def graph(file: File, out: Annotated[Path, typer.Option(
        help="file to write: .graphml, or a picture, .svg or .html")], column: Column = None,
          top: Annotated[int, typer.Option(min=1, help="phrases of each text that become nodes")] = 5,
          method: Method = "tfidf",
          neighbours: Annotated[int, typer.Option(min=1, help="strongest edges of each phrase that are kept")] = 64,
          threshold: Threshold = None, stop_words: StopWords = None, candidates: Candidates = None,
          seed_words: SeedWords = "", pipeline: Pipeline = "embedded",
          encoding: Encoding = "utf-8", quoting: Quoting = "standard", separator: Separator = None,
          skip_empty: SkipEmpty = False, language: Language = "en") -> None:
    """Write the graph of the phrases of texts, with an edge between phrases that share a text, and print its size.

    Example: `keycontrast graph data/sample/abstracts.csv --column abstract --out abstracts.graphml`
    """
    if out.suffix not in (".graphml", ".svg", ".html"):
        raise InputError(f"--out: {out} must end in .graphml, .svg or .html.")
    from keycontrast.files import atomic_file
    from keycontrast.graph import keyword_graph

    given = [row.text for row in _given(file, column, None, encoding, quoting, separator, skip_empty)]
    engine = _engine(method, language, len(given), stop_words, candidates, seed_words, encoding, threshold=threshold,
                     pipeline=pipeline)
    network = keyword_graph(given, top, keywords=engine, neighbours=neighbours)
    if out.suffix == ".graphml":
        network.graphml(out)
    else:
        with atomic_file(out) as temporary:
            temporary.write_text(network.svg() if out.suffix == ".svg" else network.html(), encoding="utf-8")
    sys.stdout.write(f"{out}: {network}\n")


@app.command()
def explain(text: Annotated[str, typer.Argument(help="a text")], method: Annotated[str, typer.Option(
        help="tfidf, pytextrank, positionrank, mihalcea, yake or embedrank")] = "pytextrank",
            candidates: Candidates = None, seed_words: SeedWords = "", pipeline: Pipeline = "embedded",
            language: Language = "en", threshold: Threshold = None, stop_words: StopWords = None) -> None:
    """Explain a text's keyword: tokens, tags, candidate graph, scores and the choice.

    Example: `keycontrast explain "My rice cooker burns the bottom layer."`
    """
    from keycontrast.explain import explain as explained
    from keycontrast.explain import print_explanation

    engine = _engine(method, language, 1, stop_words, candidates, seed_words, "utf-8", threshold=threshold,
                     pipeline=pipeline)
    tokens, ranking, choice = engine.ranking_input(text, 5)
    print_explanation(explained(tokens, ranking, method=method, choice=choice), Console())


@dataclass(frozen=True)
class Ranked:
    """Texts as read, the table of their phrases (of ``Phrases`` or ``Comparison``), and the rows without a text."""

    texts: "Sequence[Given]"
    table: "pa.Table"
    skipped: int
    has_ids: bool

    def __iter__(self) -> "Iterator[tuple[int, Given, list[dict[str, Any]]]]":
        """Yield number, text and phrases of each text that is not skipped."""
        phrases_of: list[list[dict[str, Any]]] = [[] for _ in self.texts]
        for row in self.table.to_pylist():
            if "phrase" in row:
                row["phrase"] = " ".join(row["phrase"].split())
            phrases_of[row.pop("row")].append(row)
        pairs = enumerate(zip(self.texts, phrases_of, strict=True))
        return ((number, given, phrases) for number, (given, phrases) in pairs
                if given.text is not None)


def _given(file: str, *settings: Any) -> "list[Given]":
    """Return the texts of ``file``, or those on standard input, one a line, if it is ``-``."""
    from keycontrast.texts import FileOptions, Given, file_texts, stream_lines

    options = FileOptions(*settings)
    if file != "-":
        return list(file_texts(Path(file), options))
    if sys.stdin.isatty():
        raise InputError("standard input is this terminal. Pipe texts into the command, one a line, or name a file.")
    if options.column is not None or options.id_column is not None:
        name = "--column" if options.column is not None else "--id"
        raise InputError(f"{name}: standard input is read line by line and has no columns; leave it out, or name a "
                         "table (.csv, .tsv, .jsonl, .parquet).")
    if options.quoting != "standard" or options.separator is not None:
        raise InputError("--quoting and --separator: standard input is read line by line; leave them out, or name a "
                         "table (.csv, .tsv).")
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding=options.encoding)
    texts = [Given(None, text) for text in stream_lines(sys.stdin)]
    if all(given.text is None for given in texts):
        raise InputError("standard input: there is no text. It should have one per line.")
    return texts


def lines_of(file: Path | None, encoding: str = "utf-8") -> list[str]:
    """Return the lines of a file of words; none without a file."""
    from keycontrast.texts import FileOptions, file_texts

    if file is None:
        return []
    return [given.text.strip() for given in file_texts(file, FileOptions(encoding=encoding)) if given.text is not None]


def _parted(names: str) -> list[str]:
    return [name.strip() for name in names.split(",") if name.strip()]


def _engine(method: str, language: str, texts: int, stop_words: Path | None, candidates: Path | None, seed_words: str,
            encoding: str, **options: Any) -> Any:
    """Return the ranking for options that several commands have."""
    from keycontrast.keywords import METHODS, Keywords

    if method not in METHODS:
        raise InputError(f"--method: no ranking is called {method!r}; {nearest(method, METHODS)}")
    workers = min(os.cpu_count() or 1, -(-texts // _MANY))
    return Keywords(method, language, workers=workers, on_null="skip",  # type: ignore[arg-type]
                    stop_words=lines_of(stop_words, encoding),
                    candidates=None if candidates is None else lines_of(candidates, encoding),
                    seed_words=_parted(seed_words), **options)


def print_texts(ranked: Ranked, stream: TextIO) -> None:
    """Write the beginning of each text, and below it its phrases with scores, or a column of keywords per method."""
    methods = [] if "score" in ranked.table.column_names else ranked.table.column_names[2:]
    if methods:
        stream.write(f"{'':8}{''.join(f'{name:{_COLUMN}}' for name in methods).rstrip()}\n")
    for number, given, phrases in ranked:
        line = printable(" ".join(str(given.text).split()))
        stream.write(f"{number}  {line if len(line) <= _SHOWN else line[:_SHOWN - 1] + '…'}\n")
        for phrase in phrases:
            cells = "".join(_fitting(printable(phrase[name] or "-")) for name in methods)
            stream.write(f"{phrase['rank']:6}  {cells.rstrip()}\n" if methods else
                         f"{phrase['score']:12.4g}  {printable(phrase['phrase'])}\n")
        if not phrases:
            stream.write(f"{'':14}(no phrase)\n")


def _fitting(text: str) -> str:
    """Return a cell of a column; a text that is cut ends with a mark."""
    shown = text if cell_len(text) <= _COLUMN - 2 else set_cell_size(text, _COLUMN - 3) + "…"
    return set_cell_size(shown, _COLUMN)


def print_csv(ranked: Ranked, stream: TextIO) -> None:
    """Write a row per phrase as CSV, with nothing in it that a spreadsheet would take for a formula."""
    writer = csv.writer(stream, lineterminator="\n")
    ids = ["id"] if ranked.has_ids else []
    writer.writerow(["row", *ids, *ranked.table.column_names[1:]])
    for number, given, phrases in ranked:
        own = [_cell(json_value(given.id))] if ids else []
        for phrase in phrases:
            writer.writerow([number, *own, *map(_cell, phrase.values())])


def _cell(value: Any) -> Any:
    value = json_text(value) if isinstance(value, dict | list) else value
    if not isinstance(value, str) or re.fullmatch(r"-\d+(\.\d+)?", value):  # no formula; ids stay as they are
        return value
    return no_formula(printable(value))


def print_json(ranked: Ranked, stream: TextIO) -> None:
    """Write one JSON object per text, those without a phrase too."""
    for number, given, phrases in ranked:
        own = {"id": json_value(given.id)} if ranked.has_ids else {}
        stream.write(json_text({"row": number, **own, "phrases": phrases}) + "\n")


def _write_parquet(ranked: Ranked, path: Path) -> None:
    """Write the table of phrases, whole or not at all."""
    import pyarrow.parquet as pq

    from keycontrast.files import atomic_file
    from keycontrast.keywords import id_column, with_ids

    ids = [json_text(given.id) if isinstance(given.id, dict | list) else given.id for given in ranked.texts]
    table = with_ids(ranked.table, id_column(ids) if ranked.has_ids else None)
    with atomic_file(path) as temporary:
        pq.write_table(table, temporary, write_page_checksum=True)
