"""A trained run that answers a parent process: a line of JSON in, a line of JSON out, until standard input ends.

The parent is :func:`keycontrast.load`, which starts this in the project's folder. What it sends are lists of texts;
what it gets is first the run, then per list the lines of :func:`pipeline.predict.predict`, or what is wrong.
"""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TextIO

from pipeline.predict import predictor
from stages.common.settings import read_params
from stages.run.errors import InputError
from stages.run.log import configure
from stages.tracks.registry import track_of_run


def serve(asked: dict[str, Any], lines: Iterable[str], out: TextIO) -> None:
    """Load a run, and answer each of ``lines``, a list of texts, in turn.

    Args:
        asked: arguments of :func:`pipeline.predict.predictor`, or the folder of an ``exported`` classifier.
        lines: JSON.
        out: takes one line of JSON for the run, and one for each of ``lines``.
    """

    def answered(work: Callable[[], Any]) -> bool:
        try:
            found, done = {"answer": work()}, True
        except InputError as error:
            found, done = {"error": str(error)}, False
        out.write(json.dumps(found) + "\n")
        out.flush()
        return done

    made: list[Callable[[Iterable[str]], Iterator[dict[str, Any]]]] = []

    def loaded() -> dict[str, Any]:
        if "exported" in asked:
            from pipeline.exported_classifier import ExportedClassifier

            made.append(ExportedClassifier(Path(asked["exported"])))
            return {"track": "CLLD", "classifies": True}
        params = read_params()
        track = track_of_run(params, asked["run"])
        made.append(predictor(params, **asked))
        return {"track": track.title, "classifies": track.classifies}

    if answered(loaded):
        for line in lines:
            texts = json.loads(line)
            answered(lambda texts=texts: list(made[0](texts)))  # type: ignore[misc]


def main() -> None:
    """Serve the run that the first argument asks for, in JSON."""
    configure()
    # What libraries print must not stand among the answers.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    serve(json.loads(sys.argv[1]), sys.stdin, out)
