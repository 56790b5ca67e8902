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


class Trained:
    """A trained run, from :func:`load`; ends with its process, :meth:`close` or its ``with`` block.

    Attributes:
        run: its name in the project's ``params.yaml``.
        project: the project's folder.
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


def load(project: str | Path, run: str, *, seed: int | None = None, keyword: str | None = None,
         n: int | None = None, samples: int | None = None, batch_size: int | None = None) -> Trained:
    """Load a trained classifier or paraphraser from the folder of a project.

    .. code-block:: python

        with load("my-project", "pgkpr") as model:
            model.paraphrase(["How do I learn to play the guitar?"])
        load("my-project", "ct-clald").classify(["How do I learn to play the guitar?"])

    The run lives in a process of its own, which stands in that folder: the current folder of this process does not
    matter, nor do its modules, and several runs can be loaded at once.

    Args:
        project: folder with ``params.yaml`` and the artifacts of a run.
        run: a run of ``params.yaml``, of any track.
        seed: of the run's model; None takes the first that it has.
        keyword: takes the place of the texts' own keywords; for PGKPR words of the text, parted by spaces.
        n: best outputs per text; PGKPR's track.
        samples: further outputs per text, z drawn from the prior; HCL.
        batch_size: texts worked on together; None takes the run's setting.

    Raises:
        InputError: no project is there, it has no such run, the run is not trained, or it cannot do what is asked.
    """
    folder = Path(project).resolve()
    if not (folder / "params.yaml").is_file():
        raise InputError(f"{folder}: no params.yaml there, hence no project. Name the folder in which `keycontrast "
                         f"run` was called.")
    return Trained(folder, {"run": run, "seed": seed, "keyword": keyword, "n": n, "samples": samples,
                            "batch_size": batch_size})
