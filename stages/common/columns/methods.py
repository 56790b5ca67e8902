"""The table of each keyword method that has one."""

from stages.common.methods import METHODS
from stages.common.schemas import ATTRIBUTION, PSI
from stages.common.text_tables import ranked_by

_OF_WORDS = {schema.name: schema for schema in (ATTRIBUTION, PSI)}
METHOD_TABLES = {method.name: ranked_by(method.name) if method.ranks_phrases else _OF_WORDS[method.name]
                 for method in METHODS.values() if method.names_keywords}
