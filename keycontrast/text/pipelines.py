"""Loading spaCy pipelines by name, and their description."""

import hashlib
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

import spacy
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.util import get_installed_models, is_package

from keycontrast.errors import InputError, nearest
from keycontrast.text.tokens import NOUNS

# In a clone it lies where it is trained; setup.py puts it below this package in a wheel.
_IN_CLONE = Path(__file__).resolve().parents[2] / "data" / "language" / "en_ewt"
EMBEDDED_FOLDER = _IN_CLONE if _IN_CLONE.exists() else Path(__file__).resolve().parents[1] / "en_ewt"


def load_pipeline(name: str = "embedded") -> Language:
    """Load a pipeline by name, fit for TextRank: with parts of speech, lemmas and noun chunks.

        >>> nlp = load_pipeline()
        >>> _ = nlp.add_pipe("keycontrast_textrank")
        >>> [phrase.text for phrase in nlp("My rice cooker burns the bottom layer.")._.phrases]
        ['rice cooker', 'layer']

    Args:
        name: ``embedded``, an installed spaCy package, or the folder of a pipeline, with a slash in it.

    Raises:
        InputError: there is no such pipeline, it does not load, or it lacks parts of speech or lemmas.
    """
    source = _locate(name)
    try:
        nlp = spacy.load(source)
    # a broken folder; settings or factories that this spaCy lacks; a package that is no pipeline
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise InputError(f"language pipeline {name!r} does not load: {error}") from error
    if not any("token.dep" in nlp.get_pipe_meta(pipe).assigns for pipe in nlp.pipe_names):
        # spaCy's own needs a dependency parser. (Its stubs promise spans; what it reads are these triples.)
        nlp.vocab.get_noun_chunks = noun_chunks  # type: ignore[assignment]
    check_annotation(nlp, name, ("POS", "LEMMA"))
    return nlp


def _locate(name: str) -> str | Path:
    """Return the argument of ``spacy.load`` for ``name``."""
    if name == "embedded":
        if not (EMBEDDED_FOLDER / "config.cfg").is_file():
            raise InputError(f"the embedded English pipeline is missing from {EMBEDDED_FOLDER}; restore that "
                             f"folder, or train it: python -m tools.english_pipeline.train --treebank DIR --out "
                             f"data/language/en_ewt")
        return EMBEDDED_FOLDER
    if "/" in name and Path(name).is_dir():
        return Path(name)
    if is_package(name):
        return name
    if Path(name).is_dir():
        raise InputError(f"language pipeline {name!r} is a folder; write ./{name}")
    hint = nearest(name, ["embedded", "jieba", *get_installed_models()])
    raise InputError(f"language pipeline {name!r} is neither an installed spaCy package nor a folder; {hint}")


def check_annotation(nlp: Language, name: str, needed: Sequence[str]) -> None:
    """Refuse a pipeline that lacks an annotation (POS, LEMMA), without which keywords would be wrong in silence."""
    doc = nlp("Dogs bark.")
    missing = [layer for layer, attribute in (("parts of speech", "POS"), ("lemmas", "LEMMA"))
               if attribute in needed and not doc.has_annotation(attribute)]
    if missing:
        raise InputError(f"language pipeline {name!r} gives no {' and no '.join(missing)} (its components: "
                         f"{', '.join(nlp.pipe_names) or 'none'}); use 'embedded' or a pipeline with a tagger and a "
                         f"lemmatizer.")


def noun_chunks(doclike: Doc | Span) -> Iterator[tuple[int, int, int]]:
    """Yield first token, token after the last and label of each longest run of nouns and proper nouns."""
    label = doclike.vocab.strings.add("NP")
    for inside, run in groupby(doclike, key=lambda token: token.pos_ in NOUNS):
        if inside:
            tokens = list(run)
            yield tokens[0].i, tokens[-1].i + 1, label


def hash_folder(folder: Path) -> str:
    """Return the sha256 over relative names, sizes and bytes of all files in ``folder``."""
    digest = hashlib.sha256()
    files = [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    for path in sorted(files, key=lambda path: path.relative_to(folder).as_posix()):
        digest.update(f"{path.relative_to(folder).as_posix()}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
