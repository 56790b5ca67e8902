"""Trained classifiers and paraphrasers of a project's folder, in a process of their own."""

import json
import subprocess
import sys
import weakref
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from keycontrast._code import ROOT
from keycontrast.ranking import InputError

_PROGRAM = "import sys; sys.path.insert(0, sys.argv.pop(1)); from pipeline.serving import main; main()"
_ENDS_IN = 10.0  # seconds
_RUNS = Path("artifacts", "runs")


class Trained:
    """A trained run, from :func:`load`; ends with its process, :meth:`close` or its ``with`` block.

    Attributes:
        run: its name in the project's ``params.yaml``; of an exported classifier, its folder's.
        project: the project's folder, or that of an exported classifier.
        track: ``HCL``, ``PGKPR`` or ``CLLD``.
        classifies: whether it names classes of texts and does not rewrite them.
    """

    def __init__(self, project: Path, asked: dict[str, Any]) -> None:
        self.project, self.run = project, str(asked["run"])
        # -P: the project's folder does not go before installed packages; what is ours goes before both.
        self._process = subprocess.Popen([sys.executable, "-P", "-c", _PROGRAM, str(ROOT), json.dumps(asked)],
                                         cwd=project, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                         encoding="utf-8")
        self._end = weakref.finalize(self, _ended, self._process)
        try:
            found = self._answer()
        except InputError:
            self.close()
            raise
        self.track, self.classifies = str(found["track"]), bool(found["classifies"])

    def predict(self, texts: Iterable[str]) -> list[dict[str, Any]]:
        """Return one dictionary per text, the lines of ``keycontrast predict``.

        Of a classifier: ``text``, ``label``, ``probability``, ``probabilities``; of a rewriter ``source``,
        ``prediction``, ``words``, and what else its track tells.

        Raises:
            InputError: texts that are no strings, or that the run cannot read.
        """
        if isinstance(texts, str):
            raise InputError("predict takes several texts; put one into a list: predict([text]).")
        given = list(texts)
        for place, text in enumerate(given):
            if not isinstance(text, str):
                raise InputError(f"text {place} is of type {type(text).__name__}, not str.")
        if self._process.stdin is None or self._process.stdin.closed:
            raise InputError(f"run {self.run} is closed; load it again.")
        try:
            self._process.stdin.write(json.dumps(given) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise self._lost() from error
        found: list[dict[str, Any]] = self._answer()
        return found

    def classify(self, texts: Iterable[str]) -> list[str]:
        """Return the label of each text.

        Raises:
            InputError: the run rewrites texts; or as :meth:`predict`.
        """
        if not self.classifies:
            raise InputError(f"run {self.run} is of the {self.track} track and rewrites texts; call paraphrase or "
                             f"predict.")
        return [str(line["label"]) for line in self.predict(texts)]

    def paraphrase(self, texts: Iterable[str]) -> list[str]:
        """Return another sentence for each text, written as people write.

        Raises:
            InputError: the run classifies texts; or as :meth:`predict`.
        """
        if self.classifies:
            raise InputError(f"run {self.run} is of the {self.track} track and classifies texts; call classify or "
                             f"predict.")
        return [str(line["prediction"]) for line in self.predict(texts)]

    def close(self) -> None:
        """End the process of the run, and free its memory."""
        self._end()

    def __enter__(self) -> "Trained":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def _lost(self) -> Exception:
        lost: Exception = InputError(f"the process of run {self.run} ended (status {self._process.wait()}), most often "
                                     f"for want of memory; standard error says why.")
        return lost

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._lost()
        found = json.loads(line)
        if "error" in found:
            raise InputError(found["error"])
        return found["answer"]


def _ended(process: "subprocess.Popen[str]") -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(BrokenPipeError):  # of what a process that died has not read
                stream.close()
    try:
        process.wait(_ENDS_IN)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def load(folder: str | Path, run: str | None = None, *, seed: int | None = None, keyword: str | None = None,
         n: int | None = None, samples: int | None = None, batch_size: int | None = None) -> Trained:
    """Load a trained classifier or paraphraser from the folder of a project, of a run, or of an exported classifier.

    .. code-block:: python

        with load("my-project", "pgkpr") as model:      # or load("my-project/artifacts/runs/pgkpr")
            model.paraphrase(["How do I learn to play the guitar?"])
        load("my-project", "ct-clald").classify(["How do I learn to play the guitar?"])
        load("my-classifier").classify(texts)           # of `keycontrast export my-classifier --model ct-clald`

    The run lives in a process of its own, which stands in the project's folder: the current folder of this process does
    not matter, nor do its modules, and several runs can be loaded at once.

    Args:
        folder: with ``params.yaml`` and the artifacts of a run; or ``artifacts/runs/NAME`` there, with or without the
            folder of a seed; or a classifier that ``keycontrast export`` has written, which takes no other argument.
        run: a run of ``params.yaml``, of any track; a run's folder says it.
        seed: of the run's model; None takes the one whose folder is named, or the first that it has.
        keyword: takes the place of the texts' own keywords; for PGKPR words of the text, parted by spaces.
        n: best outputs per text; PGKPR's track.
        samples: further outputs per text, z drawn from the prior; HCL.
        batch_size: texts worked on together; None takes the run's setting.

    Raises:
        InputError: nothing of this is there, the project has no such run, the run is not trained, or it cannot do what
            is asked.
    """
    place = Path(folder).resolve()
    asked: dict[str, Any] = {"run": run, "seed": seed, "keyword": keyword, "n": n, "samples": samples,
                             "batch_size": batch_size}
    if _is_exported(place):
        if given := [name for name, value in asked.items() if value is not None]:
            raise InputError(f"{given[0]}: {place} is an exported model, which has none; leave it out.")
        return Trained(place, {"run": place.name, "exported": str(place)})
    project, named = _project_of(place)
    if named and run not in (None, named[0]):
        raise InputError(f"run: {run!r}, and {place} is the folder of run {named[0]}; leave one out.")
    if len(named) > 1 and seed not in (None, int(named[1])):
        raise InputError(f"seed: {seed}, and {place} is the folder of seed {named[1]}; leave one out.")
    if not named and run is None:
        known = sorted(path.name for path in (project / _RUNS).glob("*") if path.is_dir())
        raise InputError(f"{project}: a project; say which run: load({str(project)!r}, NAME). It has computed "
                         f"{', '.join(known) or 'none'}.")
    asked |= {"run": named[0] if named else run, "seed": int(named[1]) if len(named) > 1 else seed}
    return Trained(project, asked)


def _is_exported(folder: Path) -> bool:
    """Return whether a folder holds a model of the library; one of a project has a note of its origin beside it."""
    return (folder / "config.json").is_file() and not (folder / "trained_on.json").exists()


def _project_of(folder: Path) -> tuple[Path, list[str]]:
    """Return the project that a folder is or is a run of, and name and seed of that run as far as the folder says them.

    Raises:
        InputError: it is neither.
    """
    if (folder / "params.yaml").is_file():
        return folder, []
    for number, project in enumerate(folder.parents):
        parts = folder.relative_to(project).parts
        if parts[:2] == _RUNS.parts and number in (2, 3) and (project / "params.yaml").is_file() and (
                number == 2 or parts[3].isdecimal()):
            return project, list(parts[2:])
    raise InputError(f"{folder}: no params.yaml there, hence no project, nor is it artifacts/runs/NAME of one or a "
                     f"classifier that `keycontrast export` has written. Name the folder in which `keycontrast run` "
                     f"was called.")
