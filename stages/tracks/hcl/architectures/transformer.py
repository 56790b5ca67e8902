"""The plain Transformer of the PGKPR track, on the items of the HCL track."""

from stages.tracks.hcl.word_rewriters import of_words
from stages.tracks.pgkpr.architectures.transformer import ARCHITECTURE as TRANSFORMER

ARCHITECTURE = of_words(TRANSFORMER, "transformer", __name__)
