"""The commands ``keycontrast judge``: blind sheets for people, and what they come to."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

judge = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown",
                    help="Human evaluation: blinded sheets for raters, and what they say.")


@judge.command()
def sheets(runs: Annotated[list[str], typer.Argument(help="runs to be judged beside each other")],
           out: Annotated[Path, typer.Option(help="folder to write the sheets and their key into")],
           like: Annotated[str | None, typer.Option(help="hcl or pgkpr: that paper's items, raters and scale; by "
                                                         "default that of the runs")] = None,
           items: Annotated[int | None, typer.Option(min=1, help="items judged, a seeded sample; by default "
                                                                    "100, or all if the runs share fewer")] = None,
           raters: Annotated[int | None, typer.Option(min=1, help="raters, one sheet each")] = None,
           per_item: Annotated[int | None, typer.Option(min=1, help="raters of each item; all by default")] = None,
           scale: Annotated[str | None, typer.Option(help="lowest and highest score, such as 1-3")] = None,
           criteria: Annotated[str | None, typer.Option(help="comma-separated, such as fluency,diversity")] = None,
           references: Annotated[bool, typer.Option("--references", help="the reference is one more system")] = False,
           seed: Annotated[int | None, typer.Option(help="of sample and order; the project's by default")] = None,
           ) -> None:
    """Write one blinded, shuffled sheet per rater, instructions, and the key that tells which run wrote what.

    Example: `keycontrast judge sheets hcl hcl-no-graph --out judging --items 50`
    """
    from pipeline.judgement import command as judging

    judging.sheets(runs, out, Console(), like=like, items=items, raters=raters, per_item=per_item, scale=scale,
                   criteria=criteria, references=references, seed=seed)


@judge.command()
def read(folder: Annotated[Path, typer.Argument(help="folder that `judge sheets` wrote")],
         partial: Annotated[bool, typer.Option("--partial", help="take sheets that are not filled in whole")] = False,
         weights: Annotated[str, typer.Option(help="of Cohen's kappa: none, linear or quadratic")] = "none") -> None:
    """Read the filled sheets: mean per run, agreement of the raters, paired tests.

    Example: `keycontrast judge read judging`
    """
    from pipeline.judgement import command as judging

    judging.read(folder, Console(), partial=partial, weights=weights)
