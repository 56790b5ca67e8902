"""Rewriting or classifying new texts with a trained run: JSON lines out, one per text, as soon as it is done."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from keycontrast.errors import InputError
from pipeline.finding import StageFinding
from pipeline.remarks import standing, with_remarks
from stages.common.device import computing
from stages.common.seeds import seed_everything
from stages.common.settings import Params
from stages.run.log import logger
from stages.tracks.common.track import Asked, Predictor
from stages.tracks.registry import seed_of, track_of_run


def predict(params: Params, run: str, texts: Iterable[str], keyword: str | None = None, samples: int | None = None,
            batch_size: int | None = None, seed: int | None = None, n: int | None = None) -> Iterator[dict[str, Any]]:
    """Yield one plain dictionary per text: source, prediction(s), and for a model that reads keywords these.

    A rewriting run that is poor on its own items, and texts that its model cannot read whole, are warned of.

    Of a classifier: text, label, its probability, and the probabilities of all classes.

    Args:
        params: in force.
        run: a run of any track; one of the CLLD track classifies.
        texts: what to rewrite or to classify; read a batch at a time.
        keyword: takes the place of the texts' own keywords; None takes the run's setting. A model of the PGKPR track
            is told by it which words of the text are keywords, several parted by spaces.
        samples: further outputs per text, z drawn from the prior; None takes the run's setting. HCL alone has a z.
        batch_size: texts worked on together; None takes the run's setting.
        seed: of the run's model; None takes the first that it has.
        n: best outputs per text, by a beam of at least so many; None for the best alone. PGKPR's track has them.

    Raises:
        InputError: no such run, its model is not trained yet, or it cannot do what is asked.
    """
    yield from predictor(params, run, keyword, samples, batch_size, seed, n)(texts)


def predictor(params: Params, run: str, keyword: str | None = None, samples: int | None = None,
              batch_size: int | None = None, seed: int | None = None,
              n: int | None = None) -> Callable[[Iterable[str]], Iterator[dict[str, Any]]]:
    """Return :func:`predict` with the run loaded once, for texts that come again and again; arguments as there."""
    track = track_of_run(params, run)
    for name, value in (("keyword", keyword), ("samples", samples), ("n", n)):
        if name in track.unread and value:
            raise InputError(f"--{name}: run {run} is of the {track.title} track, whose models {track.unread[name]}; "
                             f"leave it out.")
    seed = seed_of(run, params.run_seeds(run), seed)
    seed_everything(params.seed, params.runtime.threads, params.runtime.deterministic, params.runtime.tf32)
    with computing(params.runtime) as device:
        loaded = track.predictor(Asked(params, run, seed, keyword, samples, n), StageFinding(params), device)
    if not track.classifies and (poor := standing(track, run, seed)) is not None:
        logger("predict").warning("%s", poor)
    return lambda texts: with_remarks(_lines(params, loaded, texts, batch_size or loaded.batch_size))


def _lines(params: Params, predictor: Predictor, texts: Iterable[str], size: int) -> Iterator[dict[str, Any]]:
    for batch in _batches(texts, size):
        with computing(params.runtime):  # left before each yield, for what the caller computes in between
            lines = predictor.lines(batch)
        yield from lines


def _batches(texts: Iterable[str], size: int) -> Iterator[list[str]]:
    source = iter(texts)
    while batch := list(islice(source, size)):
        yield batch


def print_lines(lines: Iterable[dict[str, Any]]) -> None:
    """Write each line as JSON to standard output, at once."""
    for line in lines:
        sys.stdout.write(json.dumps(line, ensure_ascii=False) + "\n")
        sys.stdout.flush()
