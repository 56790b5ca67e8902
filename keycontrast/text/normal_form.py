"""The normal form of keywords, by which two phrases are the same node (METHODS A.2)."""


def normal_form(phrase: str) -> str:
    """Return ``phrase`` in lower case with single spaces; words are not lemmatised."""
    return " ".join(phrase.lower().split())
