"""Params of annotation."""

from pydantic import Field

from stages.common.params import Block

# The embedded pipeline of English.
ENGLISH = "data/language/en_ewt"


class Annotate(Block):
    """Tokens, lemmas, parts of speech."""

    pipeline: str = Field("embedded", description="embedded (English; jieba for Chinese), jieba, an installed spaCy "
                                                  "package, or path: the folder `path`")
    path: str = Field(ENGLISH, description="a folder that spaCy has written; for the embedded pipeline, its own folder")
    clean: bool = Field(True, description="leave out markup, formulas, footnote marks, emoji and invisible characters "
                                           "before a text is read; offsets stay those of the text as given")
    chunk: int = Field(4096, ge=1, description="texts per chunk, after which spaCy's memory and caches are emptied; "
                                               "the same bytes for any number of workers")
