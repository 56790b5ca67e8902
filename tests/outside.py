"""The wheel in an empty environment outside the clone, used as docs/python.md says; it must reach a package index.

    python -m tests.outside [PYTHON ...]

With each interpreter, or with this one, it builds the wheel, installs it with all that it needs, and runs the
document's examples.
"""

import re
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import indent

ROOT = Path(__file__).resolve().parents[1]
TEXTS = ["How do I lose belly fat in a week?", "What melts belly fat, and how fast?", "Bread dough must rise."]
# Guarded, since workers import the program anew.
PROGRAM = """
from pathlib import Path
import keycontrast

def main():
    texts = {texts!r}
    text, nlp = texts[0], keycontrast.load_pipeline()
    Path("corpus.txt").write_text("\\n".join(texts))
{examples}
    assert phrases[0][0].text == texts[0][phrases[0][0].start:phrases[0][0].end] == "belly fat", phrases[0]
    assert graph.networkx().number_of_nodes() and Path("graph.graphml").exists()
    assert [phrase.text for phrase in nlp(text)._.phrases][0] == "belly fat"
    assert "site-packages" in keycontrast.__file__, keycontrast.__file__


if __name__ == "__main__":
    main()
"""
def examples() -> str:
    """Return the Python statements of the document."""
    document = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    return "\n".join(re.findall(r"```python\n(.*?)```", document, flags=re.DOTALL)).replace("    ...\n", "    pass\n")


def run(*command: str | Path, place: Path) -> str:
    """Run a command and return what it printed; one that fails ends the whole with what it said."""
    started = time.perf_counter()
    done = subprocess.run(command, cwd=place, capture_output=True, text=True)
    shown = " ".join(str(word) for word in command)[:100].split("\n")[0]
    sys.stdout.write(f"{time.perf_counter() - started:6.1f} s  {shown}\n")
    sys.stdout.flush()
    if done.returncode:
        sys.exit(f"{done.stdout}{done.stderr}\nfailed with {done.returncode}: {shown}")
    return done.stdout


def use(python_of_machine: str) -> None:
    """Do it all with one interpreter, in a folder that is removed afterwards."""
    with TemporaryDirectory(prefix="keycontrast-outside-") as name:
        folder, place = Path(name), Path(name) / "elsewhere"
        place.mkdir()
        quiet, pinned = ("--quiet", "--disable-pip-version-check"), ("-c", ROOT / "constraints.txt")
        run(sys.executable, "-m", "pip", "wheel", *quiet, "--no-deps", "-w", folder / "dist", ROOT, place=place)
        run(python_of_machine, "-m", "venv", folder / "env", place=place)
        python = folder / "env" / "bin" / "python"
        (wheel,) = (folder / "dist").iterdir()
        run(Path(sys.executable).with_name("uv"), "pip", "install", "--quiet", "--python", python, *pinned, wheel,
            place=place)
        (place / "many.txt").write_text("\n".join(" ".join(TEXTS) + f" Number {number}." for number in range(200)))
        assert "belly fat" in run(python.with_name("keycontrast"), "keywords", "many.txt", place=place)
        heavy = ("torch", "dvc", "prefect", "gensim", "distributed", "stages", "pipeline", "models")
        program = f"import importlib.util as u; print([one for one in {heavy} if u.find_spec(one)])"
        assert run(python, "-c", program, place=place) == "[]\n"
        (place / "program.py").write_text(PROGRAM.format(texts=TEXTS, examples=indent(examples(), "    ")))
        run(python, "program.py", place=place)
        command = python.with_name("keycontrast")
        (place / "texts.txt").write_text("\n".join(TEXTS))
        listed = run(command, "keywords", "texts.txt", "--diversity", "0.5", "--ngram-range", "1", "2", place=place)
        assert "belly fat" in listed, listed


if __name__ == "__main__":
    for name in sys.argv[1:] or [sys.executable]:
        use(name)
