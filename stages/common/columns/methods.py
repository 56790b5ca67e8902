"""The table of each keyword method that has one."""

from stages.common.columns.phrases import ranked_by
from stages.common.columns.words import ATTRIBUTION, PSI
from stages.common.methods import METHODS

_OF_WORDS = {schema.name: schema for schema in (ATTRIBUTION, PSI)}
METHOD_TABLES = {method.name: ranked_by(method.name) if method.ranks_phrases else _OF_WORDS[method.name]
                 for method in METHODS.values() if method.names_keywords}
