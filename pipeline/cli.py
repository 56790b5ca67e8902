"""The commands of ``keycontrast`` for a project: its params, artifacts and models.

Each command imports what it needs, so that ``--help`` answers at once.
"""

import os
import sys
from itertools import tee
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from keycontrast import cli as library
from keycontrast.cells import json_text, printable
from keycontrast.cli import app, main
from keycontrast.errors import InputError
from stages.run.log import configure

__all__ = ["app", "main"]
_DIFFERENCE = 40     # lines of it that `use` prints
configure()

Dataset = Annotated[str | None, typer.Option(help="data set (default: the only one of params.yaml, or processed)")]
Hops = Annotated[int, typer.Option(min=1, help="edges from the keyword to the farthest nodes")]
Signed = Annotated[bool, typer.Option("--signed", help="HCL's keyword graph with signs, in place of the phrase graph")]
ModelSeed = Annotated[int | None, typer.Option(help="seed of the model (default: the first of its row)")]


@app.command()
def run(targets: Annotated[list[str] | None, typer.Argument(
        help="stages or instances, such as evaluate_hcl or train_hcl@hcl; everything if none is named")] = None,
        jobs: Annotated[int | None, typer.Option(
            min=1, metavar="N", help="stages that share each GPU (default: 1), or parallel stages without a GPU "
                                     "(default: 2)")] = None,
        force: Annotated[bool, typer.Option("--force", help="run even if nothing has changed, with all seeds")] = False,
        seed: Annotated[int | None, typer.Option(
            help="run the targets again for this seed only")] = None,
        only: Annotated[bool, typer.Option("--only", help="run only the targets, not the stages that they depend "
                                                          "on")] = False,
        save: Annotated[bool, typer.Option("--save", help="update dvc.lock and metrics even if the same inputs "
                                           "gave other bytes than the committed ones")] = False,
        ) -> None:
    """Bring all artifacts up to date, independent stages in parallel, and show the results.

    Stages that are up to date do not run. A killed training continues from its checkpoint. If you add a seed to a row,
    only that seed is trained. If a stage fails, only stages that depend on it do not run.

    Example: `keycontrast run evaluate_hcl@hcl`
    """
    from pipeline.run import reproduce_project

    if seed is not None and not targets:
        raise InputError("--seed: name the stages that are to work on it again, such as train_hcl@hcl.")
    if seed is not None and force:
        raise InputError("--seed and --force: the first runs one seed again, the second all; choose one.")
    if only and not targets:
        raise InputError("--only: name the stages that are to run, such as train_hcl@hcl.")
    done = reproduce_project(targets or [], Console(), jobs=jobs, force=force, seed=seed, only=only, save=save)
    raise typer.Exit(0 if done else 1)


@app.command()
def use(recipe: Annotated[str | None, typer.Argument(help="name of a recipe; without it, all are listed")] = None,
        data: Annotated[Path | None, typer.Option(
            help="folder of data that is not part of the project; replaces {data} in the recipe")] = None,
        changes: Annotated[list[str] | None, typer.Option(
            "--set", help="another value of a setting, such as encoder.source=bundled; may be repeated")] = None,
        model: Annotated[list[str] | None, typer.Option(
            help="use only this model of the recipe, what it starts from, and its runs; may be repeated")] = None,
        called: Annotated[str | None, typer.Option(
            "--as", metavar="NAME", help="name of the recipe in params.yaml, and of the folder metrics/NAME "
                                         "(default: RECIPE)")] = None,
        dry_run: Annotated[bool, typer.Option("--dry-run", help="show the difference and change nothing")] = False,
        ) -> None:
    """Write params.yaml from a recipe, after showing the difference.

    Artifacts of the former params stay; after going back to them, `keycontrast run` takes them from DVC's cache.

    Example: `keycontrast use sample --set textrank.damping=0.9 --dry-run`
    """
    from pipeline import recipes
    from pipeline.run import RUN_LOCK
    from stages.run.processes import exclusive

    if recipe is None:
        if dry_run or any((data, changes, model, called)):
            raise InputError("name a recipe; `keycontrast use` without options lists them.")
        if not (names := recipes.recipe_names()):
            raise InputError("recipes: no such folder, or none in it. Run this in the project's folder.")
        for name, title in names.items():
            typer.echo(f"{name:{max(map(len, names))}}  {printable(title)}")
        return
    if data is not None and not data.is_dir():
        raise InputError(f"--data {data}: no such folder. Name the one that holds the recipe's data.")
    change = recipes.plan(recipe, None if data is None else str(data), changes=changes or (), models=model or (),
                          called=called)
    lines = change.difference.splitlines() or [f"params.yaml already is recipe {recipe}."]
    typer.echo("\n".join(printable(line, keep="\t") for line in (lines if dry_run else lines[:_DIFFERENCE])))
    if len(lines) > _DIFFERENCE and not dry_run:
        typer.echo(f"... {len(lines) - _DIFFERENCE} more lines; `git diff params.yaml` shows them afterwards.")
    if dry_run:
        return
    with exclusive(RUN_LOCK, "keycontrast run"):
        recipes.apply(change)
    typer.echo("Now: keycontrast run")


@app.command()
def inspect(path: Annotated[Path | None, typer.Argument(
                help="a table, JSON or CSV file, or a folder of artifacts; with --sql, the files to query")] = None,
            rows: Annotated[int | None, typer.Option(min=0, help="rows to show (default: 10; of a query 40)")] = None,
            schema: Annotated[bool, typer.Option(
                "--schema", help="also show the meaning of each column and the provenance of the table")] = False,
            sql: Annotated[str | None, typer.Option(
                help="query all artifacts with DuckDB: views are called keywords, sample.keywords and so on; `show all "
                     "tables` lists them; a given file is the view artifact")] = None,
            dataset: Annotated[str | None, typer.Option(
                help="with --sql: the data set whose views need no prefix")] = None,
            as_csv: Annotated[bool, typer.Option("--csv", help="with --sql: print the whole result as CSV")] = False,
            as_json: Annotated[bool, typer.Option(
                "--json", help="with --sql: print the whole result, one JSON object per line")] = False) -> None:
    """Show the first rows of an artifact, or query all artifacts.

    Example: `keycontrast inspect artifacts/data/sample/keywords --rows 3 --schema`
    """
    from pipeline import inspection
    from pipeline import sql as queries

    if sql is not None and (schema or (as_csv and as_json)):
        raise InputError("--schema goes without --sql; of --csv and --json choose one.")
    if sql is not None:
        queries.run(sql, path, dataset, "csv" if as_csv else "json" if as_json else "table", rows, Console())
    elif path is None:
        raise InputError("nothing to inspect. Name a file or folder, such as artifacts/data/sample/keywords, "
                         "or query with --sql.")
    elif dataset is not None or as_csv or as_json:
        raise InputError("--dataset, --csv and --json go with --sql.")
    else:
        inspection.show(path, Console(), 10 if rows is None else rows, schema)


@app.command()
def explain(text: Annotated[str, typer.Argument(help="a text id of the data set, or a text", metavar="TEXT_ID|TEXT")],
            dataset: Dataset = None,
            method: Annotated[str | None, typer.Option(
                help="in place of that of the params: a ranking that textrank.method can have, or "
                     "embedrank or yake")] = None,
            threshold: library.Threshold = None, stop_words: library.StopWords = None,
            as_text: Annotated[bool, typer.Option(
                "--text", help="treat a number as a text, not as an id")] = False) -> None:
    """Explain a text's keyword: tokens, tags, candidate graph, scores and the choice.

    A text id is read from the artifacts, a new text with the language pipeline of params.yaml.

    Example: `keycontrast explain "My rice cooker burns the bottom layer."`
    """
    from pipeline import explain as explaining

    explaining.show(text, dataset, method, as_text, Console(), threshold, library.lines_of(stop_words))


@app.command()
def graph(context: typer.Context,
          keyword: Annotated[str, typer.Argument(metavar="KEYWORD|FILE", help="a phrase of a data set's graph; or a "
                                                 "file of texts, whose graph is written to --out")],
          dataset: Dataset = None,
          neighbours: Annotated[int | None, typer.Option(
              min=1, help="neighbours of each sign (default: 16); of a file, of each phrase (default: 64)")] = None,
          hops: Hops = 1, signed: Signed = False,
          svg: Annotated[Path | None, typer.Option(
              help="of a data set: file of the drawing; .keycontrast/graphs/DATASET-KEYWORD.svg by default")] = None,
          out: Annotated[Path | None, typer.Option(help="of a file of texts: .graphml, .svg or .html to write")] = None,
          top: Annotated[int, typer.Option(min=1, help="of a file: phrases of each text that become nodes")] = 5,
          method: library.Method = "tfidf", threshold: library.Threshold = None, stop_words: library.StopWords = None,
          candidates: library.Candidates = None, seed_words: library.SeedWords = "",
          pipeline: library.Pipeline = "embedded", column: library.Column = None, encoding: library.Encoding = "utf-8",
          quoting: library.Quoting = "standard", separator: library.Separator = None,
          skip_empty: library.SkipEmpty = False, language: library.Language = "en") -> None:
    """Show a phrase in its graph, with neighbours and texts, and draw its neighbourhood; or write a file's graph.

    Example: `keycontrast graph dog --neighbours 8 --svg dog.svg`
    """
    if out is not None:
        if dataset is not None or hops != 1 or signed or svg is not None:
            raise InputError("--dataset, --hops, --signed and --svg go with a phrase of a data set; leave them out.")
        library.graph(keyword, out, column, top, method, neighbours or 64, threshold=threshold, stop_words=stop_words,
                      candidates=candidates, seed_words=seed_words, pipeline=pipeline, encoding=encoding,
                      quoting=quoting, separator=separator, skip_empty=skip_empty, language=language)
        return
    if len(os.fsencode(keyword)) < 256 and Path(keyword).is_file():  # longer ones are no name
        raise InputError(f"{keyword} is a file of texts. Name the file for its graph too: --out graph.graphml.")
    of_phrases = {"context", "keyword", "dataset", "neighbours", "hops", "signed", "svg", "out"}
    for name in context.params.keys() - of_phrases:
        source = context.get_parameter_source(name)
        if source is not None and source.name != "DEFAULT":  # whichever click typer brings
            raise InputError(f"--{name.replace('_', '-')} goes with a file of texts and --out; leave it out.")
    from pipeline import neighbourhood

    neighbourhood.show(keyword, dataset, signed, neighbours or 16, hops, svg, Console())


@app.command()
def export(target: Annotated[Path, typer.Argument(
               metavar="FILE|FOLDER", help="the .graphml file to write; a folder with --model or --texts")],
           dataset: Dataset = None,
           keyword: Annotated[str | None, typer.Option(help="only the part of the graph around this keyword")] = None,
           hops: Hops = 1, signed: Signed = False,
           model: Annotated[str | None, typer.Option(
               help="a trained model in place of the graph: a classifier for AutoModelForSequenceClassification, or "
                    "an HCL or PGKPR model for others to start from")] = None,
           seed: ModelSeed = None,
           licence: Annotated[str | None, typer.Option(
               "--license", metavar="ID", help="with --model or --texts: stated in the card, such as mit")] = None,
           texts: Annotated[bool, typer.Option(
               "--texts", help="a data set in place of its graph: its items with their texts, and a card")] = False,
           ) -> None:
    """Write a graph, a data set or a trained model, for use in other programs.

    A graph is GraphML, for networkx, Gephi, igraph or Cytoscape. A classifier with an encoder, DialoGPT, SimCTG, T5 or
    T5-CLAPS loads with transformers. An HCL model is written without its frozen encoder, a PGKPR model in half
    precision; other rows start from them by `init: FOLDER`. A data set is a Parquet file per split for
    `datasets.load_dataset`. Data sets and models have a card as on the Hugging Face hub.

    Example: `keycontrast export dog.graphml --dataset sample --keyword dog --hops 2`
    """
    from pipeline.export import export_data_set, export_graph, export_model
    from stages.common.settings import read_params

    of_a_graph = not (keyword is None and hops == 1 and not signed)
    if texts and (model is not None or seed is not None or of_a_graph):
        raise InputError("--texts writes a data set; leave out --model, --seed, --keyword, --hops and --signed.")
    if model is not None and (dataset is not None or of_a_graph):
        raise InputError("--model writes a model; leave out --dataset, --keyword, --hops and --signed.")
    if not texts and model is None and (seed is not None or licence is not None):
        raise InputError("--seed and --license go with --model or --texts; leave them out.")
    if keyword is None and hops != 1:
        raise InputError("--hops goes with --keyword; leave it out, or name a keyword.")
    if texts:
        export_data_set(read_params(), target, dataset, licence, Console())
    elif model is not None:
        export_model(read_params(), model, target, Console(), seed, licence)
    else:
        export_graph(target, dataset, signed, keyword, hops, Console())


@app.command()
def predict(run: Annotated[str, typer.Argument(help="a run of params.yaml")],
            texts: Annotated[list[str] | None, typer.Argument(
                metavar="[TEXT]...", help="sentences; without any, lines of standard input")] = None,
            file: Annotated[Path | None, typer.Option(
                help="CSV, TSV, JSONL or Parquet with a column of texts, or a file with one text per line; also "
                     "packed: .gz, .bz2, .xz, .zst")] = None,
            column: library.Column = None, encoding: library.Encoding = "utf-8",
            quoting: library.Quoting = "standard", separator: library.Separator = None,
            skip_empty: library.SkipEmpty = False,
            keyword: Annotated[str | None, typer.Option(help="use this in place of each text's own keyword; for PGKPR "
                                                             "and IANet, words of the text between spaces")] = None,
            n: Annotated[int | None, typer.Option("--n", min=1, metavar="N", help="the N best outputs per text, by a "
                                                  "beam of at least N; PGKPR's track")] = None,
            samples: Annotated[int | None, typer.Option(min=0, help="additional outputs, z sampled (HCL)")] = None,
            batch_size: Annotated[int | None, typer.Option(min=1, help="texts per batch")] = None,
            seed: ModelSeed = None) -> None:
    """Rewrite or classify texts with a trained run; one line of JSON per text.

    `row` is the number of the row or line, from 0. A paraphraser's line has the keyword that was used, `prediction`
    in usual spelling and `words` as the model wrote it; a classifier's line has the probability of each class.
    `unknown_words` and `cut_words` of the PGKPR track are words of the text that the model cannot read. A warning says
    if a run scores below copying the source.

    Example: `keycontrast predict hcl "Two dogs play in the snow." --keyword ball`
    """
    from keycontrast.texts import FileOptions, texts_from
    from pipeline import predict as prediction
    from stages.common.settings import read_params

    params = read_params()
    size = batch_size or (None if file is not None else 1)  # an answer as soon as a line is read
    settings: Any = column, None, encoding, quoting, separator, skip_empty  # FileOptions checks them
    given, numbered = tee(texts_from(texts or [], file, sys.stdin, FileOptions(*settings)))
    predicted = prediction.predict(params, run, (text for _, text in given), keyword, samples, size, seed, n)
    for line in predicted:
        sys.stdout.write(json_text({"row": next(numbered)[0], **line}) + "\n")
        sys.stdout.flush()


judge = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown",
             help="Human evaluation: blinded sheets for raters, and their results.")
app.add_typer(judge, name="judge")


@judge.command("sheets")
def judge_sheets(
        runs: Annotated[list[str], typer.Argument(help="runs to compare; `hcl/14` is run `hcl` under seed 14")],
        out: Annotated[Path, typer.Option(help="new folder for the sheets and their key")],
        items: Annotated[int, typer.Option(min=1, help="items at most, sampled from those that all runs share")] = 100,
        raters: Annotated[int, typer.Option(min=1, help="raters, one sheet each; PGKPR had ten")] = 3,
        per_item: Annotated[int, typer.Option(min=1, help="raters of each item; all if there are fewer")] = 3,
        references: Annotated[bool, typer.Option("--references", help="judge the reference as a system")] = False,
        seed: Annotated[int, typer.Option(help="seed of the sample and the order")] = 13) -> None:
    """Write one blinded, shuffled sheet per rater, instructions, and the key that tells which run wrote what.

    Criteria and scale are those of the paper of the runs' track.

    Example: `keycontrast judge sheets hcl hcl-no-graph --out judging --items 50`
    """
    from pipeline.judgement import write_sheets

    write_sheets(runs, out, Console(), items, raters, per_item, references, seed)


@judge.command("read")
def judge_read(
        folder: Annotated[Path, typer.Argument(help="folder that `judge sheets` wrote")],
        partial: Annotated[bool, typer.Option("--partial", help="accept incomplete sheets")] = False) -> None:
    """Read the filled sheets: mean per run, agreement of the raters, paired tests.

    Example: `keycontrast judge read judging`
    """
    from pipeline.judgement import write_results

    write_results(folder, Console(), partial)


@app.command()
def verify() -> None:
    """Compare the bytes of all artifacts with the hashes in dvc.lock.

    Example: `keycontrast verify`
    """
    from pipeline.records import show_verified

    raise typer.Exit(0 if show_verified(Console()) else 1)


@app.command()
def report(show: Annotated[bool, typer.Option("--open", help="open the page in a browser")] = False) -> None:
    """Print the path of the report page that `keycontrast run` wrote, or open the page.

    Example: `keycontrast report`
    """
    import webbrowser

    from stages.common.paths import REPORT_PAGE

    if not REPORT_PAGE.exists():
        raise InputError(f"{REPORT_PAGE}: there is no page yet. Make it with `keycontrast run`.")
    typer.echo(f"Report: {REPORT_PAGE}")
    if show and not webbrowser.open(REPORT_PAGE.resolve().as_uri()):
        raise InputError(f"no browser could be opened. Open {REPORT_PAGE} in one, or name one in BROWSER.")


@app.command()
def doctor() -> None:
    """Check versions, language pipeline, encoder, DVC, disk, memory and device; name every problem at once.

    Example: `keycontrast doctor`
    """
    from pipeline.doctor import diagnose
    from pipeline.doctor import report as report_findings

    findings = diagnose()
    report_findings(findings, Console())
    raise typer.Exit(1 if any(finding.remedy for finding in findings) else 0)
