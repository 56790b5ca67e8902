"""The command line ``keycontrast``; ``python -m pipeline`` is the same.

Prefect, DVC and torch are imported by the commands that need them: ``--help`` answers at once.
"""

import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from stages.runtime.errors import InputError
from stages.runtime.log import configure

app = typer.Typer(name="keycontrast", no_args_is_help=True, add_completion=False, rich_markup_mode="markdown",
                  pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]},
                  help="Keyword artifacts, keyword graphs and contrastive text models in one reproducible pipeline.")
_INTERRUPTED = 130


def main() -> None:
    """Run the command line; what a person can mend is said without a traceback, with status 1."""
    configure()
    try:
        app()
    except InputError as error:
        sys.stderr.write(f"keycontrast: {error}\n")
        sys.exit(1)
    except SystemExit as end:
        # Typer turns an interrupt into this status, without a word.
        if end.code == _INTERRUPTED:
            sys.stderr.write("keycontrast: interrupted; the same command goes on from here\n")
        raise


@app.command()
def run(targets: Annotated[list[str] | None, typer.Argument(
        help="stages or instances, such as evaluate_hcl or train_hcl@hcl; everything if none is named")] = None,
        ) -> None:
    """Bring all artifacts up to date, independent stages side by side.

    What is up to date is left alone; a training that was killed goes on from its checkpoint. A stage that
    fails stops what depends on it, and nothing else.

    Example: `keycontrast run`, or only one row of the results: `keycontrast run evaluate_hcl@hcl`
    """
    from pipeline.environment import RUN_LOCK, settle_environment
    from pipeline.reproduction import check_sources
    from stages.params import load_params
    from stages.runtime.guard import die_with, exclusive, watched_ancestors

    started = time.monotonic()
    params = load_params()
    check_sources(params)
    settle_environment(Path())
    die_with(watched_ancestors())
    with exclusive(RUN_LOCK, "keycontrast run"):
        from pipeline.reproduction import reproduce_targets

        succeeded = reproduce_targets(params, targets or [], Console(), started)
    raise typer.Exit(0 if succeeded else 1)


@app.command()
def use(recipe: Annotated[str | None, typer.Argument(help="name of a recipe; without it, all are listed")] = None,
        data: Annotated[Path | None, typer.Option(
            help="folder of data that does not ship with the project, put in place of {data} in the recipe")] = None,
        dry_run: Annotated[bool, typer.Option("--dry-run", help="show the difference and change nothing")] = False,
        ) -> None:
    """Write params.yaml from a recipe, after showing the difference.

    Folders of data sets, models and runs that the recipe does not name are removed if DVC's cache holds
    them; going back to a recipe brings them back from there.

    Example: `keycontrast use cpu-hcl-qqp --data ../data`
    """
    from pipeline import recipes
    from pipeline.environment import RUN_LOCK, settle_environment
    from stages.runtime.guard import exclusive

    if recipe is None:
        for name, title in recipes.recipe_names().items():
            typer.echo(f"{name:20}  {title}")
        return
    change = recipes.plan(recipe, None if data is None else str(data))
    typer.echo(change.difference or f"params.yaml already is recipe {recipe}.")
    if dry_run:
        return
    settle_environment(Path())
    with exclusive(RUN_LOCK, "keycontrast run"):
        for note in recipes.apply(change):
            typer.echo(note)
    typer.echo("Now: keycontrast run")


@app.command()
def stage(name: Annotated[str, typer.Argument(help="stage@key for one instance, stage for all of them")],
          force: Annotated[bool, typer.Option("--force", help="also if nothing has changed")] = False) -> None:
    """Run one stage alone, by `dvc repro --single-item`; what it reads is taken as it is.

    Example: `keycontrast stage train_hcl@hcl --force`
    """
    from pipeline.environment import RUN_LOCK, settle_environment
    from pipeline.reproduction import repeat_stage
    from stages.params import load_params
    from stages.runtime.guard import die_with, exclusive, watched_ancestors

    load_params()
    settle_environment(Path())
    die_with(watched_ancestors())
    with exclusive(RUN_LOCK, "keycontrast run"):
        succeeded = repeat_stage(name, force, Console())
    raise typer.Exit(0 if succeeded else 1)


@app.command()
def inspect(path: Annotated[Path, typer.Argument(help="a table, JSON or CSV file, or a folder of artifacts")],
            rows: Annotated[int, typer.Option(min=0, help="rows to show")] = 5,
            text: Annotated[bool | None, typer.Option(
                "--text/--ids", help="show texts or their ids; texts by default, where they lie beside")] = None,
            ) -> None:
    """Show an artifact: columns with their meaning, counts, nulls, provenance, first rows.

    Example: `keycontrast inspect artifacts/sample/keywords.parquet --rows 10 --text`
    """
    from pipeline.inspection import show

    show(path, Console(), rows, text)


@app.command()
def predict(run: Annotated[str, typer.Argument(help="a run of params.yaml")],
            text: Annotated[str | None, typer.Argument(help="a sentence; without it, lines of standard input")] = None,
            file: Annotated[Path | None, typer.Option(help="file with one text per line")] = None,
            keyword: Annotated[str | None, typer.Option(help="use this in place of each text's own keyword")] = None,
            samples: Annotated[int | None, typer.Option(min=0, help="further outputs per text, z drawn")] = None,
            batch_size: Annotated[int | None, typer.Option(min=1, help="texts rewritten together")] = None) -> None:
    """Rewrite texts with a trained run; one line of JSON per text, with the keyword that was used.

    Example: `keycontrast predict hcl "How do I keep my starter alive?" --keyword oven`
    """
    from pipeline import predict as prediction
    from stages.params import load_params

    params = load_params()
    # Whoever types, or pipes line by line, waits for each answer.
    size = batch_size or (None if file is not None else 1)
    texts = prediction.texts_from(text, file, sys.stdin)
    prediction.print_lines(prediction.predict(params, run, texts, keyword, samples, size))


@app.command()
def doctor() -> None:
    """Check versions, language pipeline, encoder, DVC, disk, memory and device; name every problem at once.

    Example: `keycontrast doctor`
    """
    from pipeline.doctor import diagnose, report
    from pipeline.environment import settle_environment

    settle_environment(Path())
    findings = diagnose()
    report(findings, Console())
    raise typer.Exit(1 if any(finding.problem for finding in findings) else 0)
