"""The commands `keycontrast judge`: blinded sheets for raters, and the results of the filled sheets."""

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

judge = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown",
             help="Human evaluation: blinded sheets for raters, and their results.")


@judge.command("sheets")
def write(runs: Annotated[list[str], typer.Argument(help="runs to compare; `hcl/14` is run `hcl` under seed 14")],
          out: Annotated[Path, typer.Option(help="new folder for the sheets and their key")],
          items: Annotated[int, typer.Option(min=1, help="most items, a seeded sample of those that all share")] = 100,
          raters: Annotated[int, typer.Option(min=1, help="raters, one sheet each; PGKPR had ten")] = 3,
          per_item: Annotated[int, typer.Option(min=1, help="raters of each item; all if there are fewer")] = 3,
          references: Annotated[bool, typer.Option("--references", help="judge the reference as a system")] = False,
          seed: Annotated[int, typer.Option(help="of sample and order")] = 13,
          ) -> None:
    """Write one blinded, shuffled sheet per rater, instructions, and the key that tells which run wrote what.

    Criteria and scale are those of the paper of the runs' track.

    Example: `keycontrast judge sheets hcl hcl-no-graph --out judging --items 50`
    """
    from pipeline.judgement import sheets

    sheets.write_sheets(runs, out, Console(), items, raters, per_item, references, seed)


@judge.command("read")
def read(folder: Annotated[Path, typer.Argument(help="folder that `judge sheets` wrote")],
         partial: Annotated[bool, typer.Option("--partial", help="read sheets that are not complete")] = False,
         weights: Annotated[Literal["none", "linear", "quadratic"], typer.Option(help="of Cohen's kappa")] = "none",
         ) -> None:
    """Read the filled sheets: mean per run, agreement of the raters, paired tests.

    Example: `keycontrast judge read judging`
    """
    from pipeline.judgement import results

    results.write_results(folder, Console(), partial, weights)
