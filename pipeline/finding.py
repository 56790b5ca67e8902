"""Finding keywords in new texts as the stages of a data set find them in its own."""

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
import pyarrow as pa

from stages.artifacts.paths import DatasetPaths
from stages.artifacts.tables import read_table
from stages.keywords.schemas.words import WORD_VECTORS
from stages.runtime.errors import InputError
from stages.runtime.settings import Params, Values
from stages.tracks.track import Marker


class StageFinding:
    """Finds what stages find, see :class:`stages.tracks.track.Finding`.

    Args:
        params: in force; the data sets that are asked for must be among them.
    """

    def __init__(self, params: Params) -> None:
        self.params = params

    def annotated(self, dataset: str) -> Callable[[pa.Table], pa.Table]:
        """Return what gives the tokens of texts, as stage annotate does."""
        from stages.data.language.annotation import annotator

        return annotator(self.params.annotate.pipeline, self.params.datasets[dataset].language)

    def keywords(self, dataset: str) -> Callable[[Sequence[str]], list[tuple[str, str]]]:
        """Return what gives the keyword of each text and the method that found it, as stage keywords does.

        The training texts of ``dataset`` give the IDF that settles ties.

        Raises:
            InputError: the method scores a text beside its target.
        """
        from pipeline.explain import training_idf
        from stages.keywords.choice import choose_keywords
        from stages.keywords.methods import FOR_ANY_TEXT, METHODS

        params = self.params
        method = METHODS[params.keywords.method]
        if not method.ranks_new_texts:
            raise InputError(f"keywords.method is {method.name!r}, which scores a text beside its target; a new "
                             f"text's keyword is found by {' or '.join(FOR_ANY_TEXT)}. Give one with --keyword.")
        annotated, idf = self.annotated(dataset), training_idf(DatasetPaths(dataset))
        rank = method.ranker(getattr(params, method.name), params.datasets[dataset].language, idf)

        def found(texts: Sequence[str]) -> list[tuple[str, str]]:
            tokens = annotated(pa.table({"text_id": pa.array(range(len(texts)), pa.int64()), "text": list(texts)}))
            chosen = choose_keywords(tokens, rank(tokens).table, method.name, idf,
                                     params.keywords.kw_lemma).table.sort_by("text_id")
            return list(zip(chosen["keyword"].to_pylist(), chosen["method"].to_pylist(), strict=True))

        return found

    def marks(self, dataset: str, which: str, device: str) -> Marker:
        """Return what scores or marks words by attribution (``xx``), PSI (``psi_xx``) or the S-Tagger."""
        paths = DatasetPaths(dataset)
        if which == "xx":
            return _attribution(self.params, paths, device)
        if which == "psi_xx":
            return _importance(self.params, paths)
        return _tags(self.params, paths, device)


def _attribution(params: Params, paths: DatasetPaths, device: str) -> Marker:
    from stages.keywords.attribution import run
    from stages.keywords.saliency.scorers import load_scorer

    values = params.attribution.plain()

    def marks(texts: pa.Table, tokens: pa.Table) -> pa.ChunkedArray:
        # rows of a forward pass are filled with repeats: no more of them than there are texts
        scorer.size = min(size, texts.num_rows)
        found = run(_alone(texts), texts.to_pandas(), tokens, scorer, ["xx"])
        return pa.concat_tables([block.table for block in found])["score"]

    scorer = load_scorer(values, paths, params.encoder.source, device)
    size = scorer.size
    return marks


def _importance(params: Params, paths: DatasetPaths) -> Marker:
    from stages.keywords.importance.vectors import VectorTable
    from stages.keywords.psi import run

    vectors = VectorTable.from_arrow(read_table(paths.table("word_vectors"), WORD_VECTORS))
    settings: Any = Values({**dict(params.psi), "modes": ["xx"]})
    return lambda texts, tokens: pa.concat_tables(
        list(run(lambda: [tokens], _alone(texts), vectors, settings)))["primary"]


def _tags(params: Params, paths: DatasetPaths, device: str) -> Marker:
    from torch import nn

    from stages.keywords.tagging.sources import word_ids
    from stages.keywords.tagging.tagger import load_tagger, tag

    tagger, words = load_tagger(paths.s_tagger)
    nn.Module.to(tagger, device)

    def marks(texts: pa.Table, tokens: pa.Table) -> pa.ChunkedArray:
        rows = [word_ids([token.lower() for token in row], words) for row in tokens["token"].to_pylist()]
        size = min(params.s_tagger.batch_size, len(rows))
        return pa.chunked_array([[probability > 0.5 for probability in tag(tagger, rows, size)]], pa.list_(pa.bool_()))

    return marks


def _alone(texts: pa.Table) -> pd.DataFrame:
    """Return examples whose source is each text, beside itself."""
    ids = texts["text_id"].to_pylist()
    return pd.DataFrame({"source_id": ids, "reference_ids": [[number] for number in ids]})
