"""How often texts meet in a keyword, by ranking: what the keyword graph of a data set can be made of.

Ranks the texts of a data set's tokens.parquet by every ranking of phrases, takes the keywords that keywords.parquet has
by whatever method, if it is there, and counts, over the training examples, how often input, output and negative share
their keyword, how many inputs share it with another, and how many keywords of validation and test inputs training has
seen (METHODS A.3).
"""

import argparse
import sys
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from stages.common.columns.items import EXAMPLES
from stages.common.columns.keywords import KEYWORDS
from stages.common.columns.tokens import TOKENS
from stages.common.example_texts import training_text_ids
from stages.common.paths import DatasetPaths
from stages.common.tables import read_frame, read_table
from stages.keywords.choice import choose_keywords
from stages.ranking import rank
from stages.ranking.selection import InverseFrequency
from stages.run.errors import InputError

SETTINGS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("mihalcea", {}), ("mihalcea", {"window": 5}), ("mihalcea", {"window": 10}),
    ("pytextrank", {}), ("pytextrank", {"chunks": "annotated"}), ("pytextrank", {"compat": "pytextrank"}),
    ("positionrank", {"chunks": "annotated"}))


def measure(dataset: str, language: str) -> pd.DataFrame:
    """Return one row of shares per ranking."""
    paths = DatasetPaths(dataset)
    tokens = read_table(paths.table("tokens"), TOKENS).sort_by("text_id")
    train = pa.array(training_text_ids(read_table(paths.table("examples"), EXAMPLES)))
    idf = InverseFrequency.over_tables([tokens.filter(pc.is_in(tokens["text_id"], train))])
    examples = read_frame(paths.table("examples"), EXAMPLES)
    rows = []
    for method, settings in SETTINGS:
        ranking = rank(tokens, method, idf=idf, language=language, **settings)
        chosen = choose_keywords(tokens, ranking, "textrank", idf).table.to_pandas().set_index("text_id")["keyword"]
        named = ", ".join([method, *(f"{key} {value}" for key, value in settings.items())])
        rows.append({"ranking": named, **shares(examples, chosen)})
    if paths.table("keywords").exists():
        stored = read_frame(paths.table("keywords"), KEYWORDS).set_index("text_id")
        named = f"keywords.parquet, by {stored['method'].mode().iloc[0]}"
        rows.append({"ranking": named, **shares(examples, stored["keyword"])})
    return pd.DataFrame(rows)


def shares(examples: pd.DataFrame, keyword: pd.Series) -> dict[str, float]:
    """Return the shares for one keyword per text (``keyword`` by text id)."""
    learned, rest = examples[examples["split"] == "train"], examples[examples["split"] != "train"]
    inputs, outputs, negatives = (learned[f"{role}_id"].map(keyword) for role in ("source", "target", "negative"))
    sizes = inputs.map(inputs.value_counts())
    seen = pd.concat([inputs, outputs, negatives]).dropna().unique()
    return {"k_x = k_y+": float((inputs == outputs).mean()), "k_y+ = k_y-": float((outputs == negatives).mean()),
            "inputs that share theirs": float((sizes > 1).mean()), "distinct": float(len(seen)),
            "seen in training": float(rest["source_id"].map(keyword).isin(seen).mean())}


def main(argv: list[str] | None = None) -> int:
    """Print the shares for the data set named in ``argv`` as a Markdown table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shared_keywords", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="example: python -m benchmarks.shared_keywords sample")
    parser.add_argument("dataset", help="data set with tokens.parquet and examples.parquet")
    parser.add_argument("--language", default="en")
    arguments = parser.parse_args(argv)
    try:
        found = measure(arguments.dataset, arguments.language)
    except InputError as error:
        sys.stderr.write(f"benchmarks.shared_keywords: {error}\n")
        return 1
    heads = list(found)
    lines = [f"| {' | '.join(heads)} |", f"| --- |{' ---: |' * (len(heads) - 1)}"]
    for row in found.itertuples(index=False):
        values = (f"{100 * value:.1f} %" if value <= 1 else f"{value:,.0f}" for value in row[1:])
        lines.append(f"| {row[0]} | {' | '.join(values)} |")
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
