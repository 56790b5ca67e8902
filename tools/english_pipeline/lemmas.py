"""Lemma tables learnt from a treebank, in the form that spaCy's rule lemmatizer reads.

For each part of speech: a list of endings to rewrite, the longest first, and the words that this list gets
wrong. Applied to words never seen, the list acts as a small decision tree over endings.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from spacy.lookups import Lookups

from tools.english_pipeline.corpus import Sentence

LONGEST_ENDING = 6
LEAST_GAIN = 2  # an ending gets its own rule if the rule corrects at least this many more words than it breaks
INFLECTED = ("ADJ", "ADV", "NOUN", "VERB")  # the open classes; all others are looked up
NAMES = "PROPN"  # keep their case, so no rule (they see lower case only) may apply to them
SIBILANTS = ("s", "x", "z", "ch", "sh")

Rules = list[list[str]]
Edit = tuple[str, str]


def learn_lemma_tables(sentences: Iterable[Sentence]) -> Lookups:
    """Return the tables ``lemma_rules``, ``lemma_exc`` and an empty ``lemma_index``."""
    counts: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    for sentence in sentences:
        for word in sentence.words:
            # Names are compared with the form as written: that is what spaCy returns without an exception.
            form = word.form if word.pos == NAMES else word.form.lower()
            counts[word.pos][(form, word.lemma)] += 1
    rules: dict[str, Rules] = {}
    exceptions: dict[str, dict[str, list[str]]] = {}
    for pos in sorted(counts):
        if pos == NAMES:
            exceptions[pos.lower()] = _name_exceptions(counts[pos])
        else:
            rules[pos.lower()], exceptions[pos.lower()] = _learn_class(counts[pos], pos)
    lookups = Lookups()
    lookups.add_table("lemma_rules", rules)
    lookups.add_table("lemma_exc", exceptions)
    lookups.add_table("lemma_index", {})
    return lookups


def apply_rules(rules: Rules, form: str) -> str:
    """Return what spaCy's rule lemmatizer makes of a lower-cased form that is no exception."""
    lemmas = [form[: len(form) - len(old)] + new for old, new in rules if form.endswith(old)]
    # spaCy prefers results that are no plain word ("co-worker"), then the first rule that fits.
    lemmas.sort(key=str.isalpha)
    return next(filter(None, lemmas), form)


def _learn_class(counts: Counter[tuple[str, str]], pos: str) -> tuple[Rules, dict[str, list[str]]]:
    """Return rules and exceptions for one part of speech."""
    best = _best_lemmas(counts)
    lesson = {form: lemma.lower() for form, lemma in best.items() if form.isalpha() and lemma.isalpha()}
    for lemma in sorted(set(lesson.values())):
        for form in _regular_forms(lemma, pos):
            lesson.setdefault(form, lemma)
    rules = _learn_rules(lesson) if pos in INFLECTED else [["", ""]]
    known = {**lesson, **best} if pos in INFLECTED else best
    wrong = {form: [lemma] for form, lemma in sorted(known.items()) if apply_rules(rules, form) != lemma}
    return rules, wrong


def _best_lemmas(counts: Counter[tuple[str, str]]) -> dict[str, str]:
    """Return the most frequent lemma of each form; a tie goes to the lemma that sorts first."""
    best: dict[str, str] = {}
    for (form, lemma), _ in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        best.setdefault(form, lemma)
    return best


def _name_exceptions(counts: Counter[tuple[str, str]]) -> dict[str, list[str]]:
    """Return lemmas for lower-cased names, where that is right more often than the name as written."""
    as_written: Counter[str] = Counter()
    folded: Counter[tuple[str, str]] = Counter()
    for (form, lemma), count in counts.items():
        folded[(form.lower(), lemma)] += count
        as_written[form.lower()] += count if form == lemma else 0
    return {form: [lemma] for form, lemma in sorted(_best_lemmas(folded).items())
            if folded[(form, lemma)] > as_written[form]}


def _regular_forms(lemma: str, pos: str) -> Iterator[str]:
    """Yield regular inflections of a lemma, so that a verb seen as "time" teaches "timed" as well."""
    if pos not in ("NOUN", "VERB") or len(lemma) < 3:
        return
    falling_y = lemma.endswith("y") and lemma[-2] not in "aeiou"
    stem = lemma[:-1] + "i" if falling_y else lemma.removesuffix("e")
    yield stem + "es" if falling_y or lemma.endswith(SIBILANTS) else lemma + "s"
    if pos == "VERB":
        yield stem + "ed"
        yield (lemma.removesuffix("e") if not lemma.endswith(("ee", "oe", "ye", "ie")) else lemma) + "ing"


def _learn_rules(lesson: dict[str, str]) -> Rules:
    """Return rewriting rules for endings, longer endings first, that fit the distinct words in ``lesson``."""
    edits: dict[str, Counter[Edit]] = defaultdict(Counter)
    for form, lemma in lesson.items():
        old, new = _edit(form, lemma)
        for length in range(len(old), min(LONGEST_ENDING, len(form)) + 1):
            edits[form[len(form) - length :]][(old, new)] += 1
    chosen: dict[str, Edit] = {"": ("", "")}  # unknown words are their own lemma
    for ending in sorted(edits, key=lambda text: (len(text), text)):
        shorter = next(ending[cut:] for cut in range(len(ending) + 1) if ending[cut:] in chosen)
        edit, count = min(edits[ending].items(), key=lambda item: (-item[1], item[0]))
        if count - edits[ending][chosen[shorter]] >= LEAST_GAIN:
            chosen[ending] = edit
    ordered = sorted(chosen.items(), key=lambda item: (-len(item[0]), item[0]))
    return [[ending, ending[: len(ending) - len(old)] + new] for ending, (old, new) in ordered]


def _edit(form: str, lemma: str) -> Edit:
    """Return the ending to cut and the ending to put, after the longest common beginning."""
    shared = 0
    while shared < min(len(form), len(lemma)) and form[shared] == lemma[shared]:
        shared += 1
    return form[shared:], lemma[shared:]
