"""The pytextrank package, run as it is on documents rebuilt from a token table."""

import os
from contextlib import redirect_stdout
from pathlib import Path

import pyarrow as pa

from stages.data.language.tokens import rebuild_docs

# On import the package looks for its own git repository and prints the folder where it found none.
with Path(os.devnull).open("w") as _silence, redirect_stdout(_silence):
    from pytextrank import BaseTextRankFactory


def pytextrank_phrases(tokens: pa.Table, phrases: int) -> list[list[str]]:
    """Return the first ``phrases`` phrases of each row of ``tokens``, in the package's order."""
    component = BaseTextRankFactory()
    return [[phrase.text for phrase in component(doc)._.phrases[:phrases]] if len(doc) else []
            for _, doc in rebuild_docs(tokens)]
