"""All tables by name, for documents, inspection and tests; a stage imports the schemas that it reads and writes."""

from pipeline import judgement
from stages.common import methods, text_tables
from stages.common import schemas as common
from stages.common.schemas import TableSchema
from stages.results import comparison
from stages.tracks.clld import tables as clld
from stages.tracks.common import schemas as tracks
from stages.tracks.pgkpr import items as pgkpr

# In the order in which a text passes through them.
SCHEMAS: dict[str, TableSchema] = {schema.name: schema for schema in (
    common.EXAMPLES, common.LABELLED_EXAMPLES, common.PLAIN_EXAMPLES, common.TEXTS, common.REJECTED, text_tables.TOKENS,
    *(text_tables.ranked_by(method.name) for method in methods.METHODS.values() if method.ranks_phrases),
    common.ATTRIBUTION, common.WORD_VECTORS, common.PSI, common.S_TAGS, methods.KEYWORD_COMPARISON, methods.KEYWORDS,
    common.PHRASE_NODES, common.PHRASE_EDGES, common.PHRASE_TEXTS, common.CLUSTERS, common.NODES, common.EDGES,
    common.NODE_VECTORS, common.TEXT_VECTORS, pgkpr.PARAPHRASE_ITEMS, pgkpr.VOCABULARY, tracks.ITEMS,
    tracks.PREDICTIONS, tracks.LIKELIHOODS, tracks.SCORES, tracks.PARAPHRASE_SCORES, clld.LINEAR_BASELINE,
    clld.LABELLED_ITEMS, clld.VALIDATION_CONFUSION, clld.LABEL_DISTANCE, clld.CONFUSING_PAIRS, clld.CLASS_PREDICTIONS,
    clld.CLASS_SCORES, clld.CLASSES, clld.CONFUSION, clld.CALIBRATION, comparison.PAIRED, comparison.BY_STRATUM,
    comparison.MCNEMAR, tracks.LATENT, tracks.KEYWORD_SWAP, judgement.JUDGEMENTS)}
