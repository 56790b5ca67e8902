"""Rewriting new texts with a run of the HCL track."""

from typing import Any

import pandas as pd

from keycontrast.errors import InputError
from stages.common.schemas import NO_KEYWORD
from stages.run.log import logger
from stages.tracks.common.readable import readable_text
from stages.tracks.common.track import Asked, Finding
from stages.tracks.hcl.generate import given_keyword, load_rewriter, unseen_remark, with_keywords
from stages.tracks.hcl.track import HCL


class NewTexts:
    """Rewrites texts under their own keywords, random ones, or a given one."""

    def __init__(self, asked: Asked, finding: Finding, device: str) -> None:
        decode = asked.params.decoding(asked.run).plain()
        self._decode = {**decode, "samples": decode["samples"] if asked.samples is None else asked.samples}
        self._setting = decode["keyword"] if asked.keyword is None else f"given:{asked.keyword}"
        self._rewriter = load_rewriter(HCL.weights(asked), device)
        self._seed, self._done, self.batch_size = asked.params.seed, 0, int(decode["batch_size"])
        own = self._rewriter.uses_keyword and given_keyword(self._setting) is None
        if own and self._rewriter.condition == "target":
            raise InputError(f"run {asked.run}: its model was trained with the keyword of the target "
                             f"(keyword.condition: target), which a new text does not have. Give one by --keyword.")
        self._keywords = finding.keywords(self._rewriter.on.dataset, device) if own else None
        dataset = asked.params.models.hcl[asked.params.runs.hcl[asked.run].model].dataset
        self._language, self._written = asked.params.datasets[dataset].language, finding.written(dataset)
        remark = unseen_remark(self._setting, self._rewriter.keywords) if self._rewriter.uses_keyword else None
        if remark is not None:
            logger("predict").warning("%s", remark)

    def lines(self, texts: list[str]) -> list[dict[str, Any]]:
        """Return ``source``, ``prediction``, ``words``, and ``samples`` and keywords if there are any."""
        numbers = range(self._done, self._done + len(texts))    # texts are numbered on
        self._done += len(texts)
        chosen = self._keywords(texts) if self._keywords is not None else [(NO_KEYWORD, "given")] * len(texts)
        items = pd.DataFrame({"example_id": numbers, "source": texts, "keyword": [keyword for keyword, _ in chosen],
                              "unseen_text": texts, "references": [[] for _ in texts]})
        methods = [method for _, method in chosen]
        if self._setting != "own" and self._rewriter.uses_keyword:
            items = with_keywords(items, self._setting, self._rewriter.keywords, self._seed)
            methods = [self._setting.partition(":")[0]] * len(texts)
        decode = {**self._decode, "batch_size": len(texts)}
        rows = pd.concat(list(self._rewriter.rewrite(items, decode, self._seed)))
        lines = []
        for (_, same), method in zip(rows.groupby("example_id", sort=True), methods, strict=True):
            first, word = same.iloc[0], same["keyword"].iloc[0]
            texts = [readable_text(text, first["source"], self._written, self._language) for text in same["prediction"]]
            line = {"source": first["source"], "prediction": texts[0], "words": first["prediction"]}
            if self._rewriter.uses_keyword:
                line |= {"keyword": None if word == NO_KEYWORD else word, "keyword_from": method,
                         "keyword_in_graph": bool(first["keyword_known"])}
            lines.append(line | ({"samples": texts[1:]} if len(same) > 1 else {}))
        return lines
