"""What UD English EWT does with tokens that spaCy's English rules do otherwise.

Only regular expressions and special cases, so that the rules are stored with the pipeline and any spaCy can
load them.
"""

from spacy.lang.en import English
from spacy.symbols import ORTH
from spacy.tokenizer import Tokenizer
from spacy.util import compile_infix_regex, compile_prefix_regex, compile_suffix_regex

# Runs such as "!!!", "?!" or "=====" are one token each.
RUNS = [r"[!?][.!?]+", r"={2,}", r"\*{2,}", r"_{2,}", r"#{2,}", r"<{2,}", r">{2,}", r"~{2,}"]
# ".?" as well, but not after a capital ("the U.S.?").
SUFFIX_RUNS = [*RUNS, r"(?<![A-Z.])\.[!?]+"]
CLOCK = r"(?<=:[0-9][0-9])(?:[AaPp][Mm])"

# Words of two parts that stay whole: "e-mail", "non-human", "pre-owned".
WHOLE_BEFORE_HYPHEN = ["e", "non", "co", "re", "pre", "post", "ex", "anti", "semi", "multi", "mid", "pro", "mis"]

ABBREVIATIONS = ["Lt.", "Ft.", "Capt.", "Attn.", "Mon.", "Tue.", "Tues.", "Wed.", "Thu.", "Thur.",
                 "Thurs.", "Fri.", "ext.", "Ext."]  # fmt: skip
# spaCy reads these as "we'd" and "i'd".
NOT_CONTRACTED = ["Wed", "wed", "id", "Id"]
SPLIT = {"and/or": ["and", "/", "or"], "):": [")", ":"], "wanna": ["wan", "na"], "Wanna": ["Wan", "na"]}


def add_treebank_rules(tokenizer: Tokenizer) -> None:
    """Change the rules of an English tokenizer, in place, towards those of the treebank."""
    defaults = English.Defaults
    prefixes, suffixes = list(defaults.prefixes or []), list(defaults.suffixes or [])
    tokenizer.prefix_search = compile_prefix_regex([*RUNS, *prefixes]).search
    tokenizer.suffix_search = compile_suffix_regex([*SUFFIX_RUNS, CLOCK, *suffixes]).search
    tokenizer.infix_finditer = compile_infix_regex(_infixes(list(defaults.infixes or []))).finditer
    # spaCy's special cases give the "did" of "didn't" the norm "do", and so on. Norms are features of the tagger:
    # they must be those of the bare words that it is trained on, or it takes this "did" for a present tense.
    tokenizer.rules = {word: [{ORTH: part[ORTH]} for part in parts] for word, parts in (tokenizer.rules or {}).items()}
    for word in [*ABBREVIATIONS, *NOT_CONTRACTED]:
        tokenizer.add_special_case(word, [{ORTH: word}])
    for word, parts in SPLIT.items():
        tokenizer.add_special_case(word, [{ORTH: part} for part in parts])


def _infixes(infixes: list[str]) -> list[str]:
    """Return infix rules that leave some hyphenated words and telephone numbers whole."""
    whole = "".join(rf"(?<!\b[{word[0]}{word[0].upper()}]{word[1:]})" for word in WHOLE_BEFORE_HYPHEN)
    telephone = r"(?!(?<=[0-9]{3}-)[0-9]{4}\b)(?!(?<=[0-9]{3}-)[0-9]{3}-[0-9]{4}\b)"
    return [
        rule + telephone if rule.startswith("(?<=[0-9])[") else whole + rule if "(?:-" in rule else rule
        for rule in infixes
    ]
