"""All tables by name, for documents, inspection and tests; a stage imports the schemas that it reads and writes."""

from keycontrast.errors import InputError, nearest
from pipeline.judgement import JUDGEMENTS
from stages.common.methods import KEYWORDS, METHODS, SIDE_BY_SIDE
from stages.common.schemas import (
    ATTRIBUTION,
    CLUSTERS,
    EDGES,
    EXAMPLES,
    LABELLED_EXAMPLES,
    NODE_VECTORS,
    NODES,
    PHRASE_EDGES,
    PHRASE_NODES,
    PHRASE_TEXTS,
    PLAIN_EXAMPLES,
    PSI,
    REJECTED,
    S_TAGS,
    TEXT_VECTORS,
    TEXTS,
    WORD_VECTORS,
    TableSchema,
)
from stages.common.text_tables import TOKENS, ranked_by
from stages.results.comparison import BY_STRATUM, MCNEMAR, PAIRED
from stages.tracks.clld.schemas import (
    CALIBRATION,
    CLASS_PREDICTIONS,
    CLASS_SCORES,
    CLASSES,
    CONFUSING_PAIRS,
    CONFUSION,
    LABEL_DISTANCE,
    LABELLED_ITEMS,
    LINEAR_FLOOR,
    VALIDATION_CONFUSION,
)
from stages.tracks.common.schemas import ITEMS, PARAPHRASE_SCORES, PREDICTIONS, SCORES
from stages.tracks.common.track import Track
from stages.tracks.hcl.track import KEYWORD_SWAP, LATENT
from stages.tracks.pgkpr.items import PARAPHRASE_ITEMS, VOCABULARY

# In the order in which a text passes through them.
SCHEMAS: dict[str, TableSchema] = {schema.name: schema for schema in (
    EXAMPLES, LABELLED_EXAMPLES, PLAIN_EXAMPLES, TEXTS, REJECTED, TOKENS,
    *(ranked_by(method.name) for method in METHODS.values() if method.ranks_phrases),
    ATTRIBUTION, WORD_VECTORS, PSI, S_TAGS, SIDE_BY_SIDE, KEYWORDS, PHRASE_NODES, PHRASE_EDGES, PHRASE_TEXTS,
    CLUSTERS, NODES, EDGES, NODE_VECTORS, TEXT_VECTORS, PARAPHRASE_ITEMS, VOCABULARY, ITEMS, PREDICTIONS, SCORES,
    PARAPHRASE_SCORES, LINEAR_FLOOR, LABELLED_ITEMS, VALIDATION_CONFUSION, LABEL_DISTANCE, CONFUSING_PAIRS,
    CLASS_PREDICTIONS, CLASS_SCORES, CLASSES, CONFUSION, CALIBRATION, PAIRED, BY_STRATUM, MCNEMAR, LATENT,
    KEYWORD_SWAP, JUDGEMENTS)}


def schema_of(table: str, track: Track) -> TableSchema:
    """Return the schema of the table that ``track`` has in files called ``table``.

    Raises:
        InputError: there is none of that name.
    """
    known = {**SCHEMAS, **track.schemas}
    if table not in known:
        raise InputError(f"no table is called {table!r}; {nearest(table, known)}")
    return known[table]
