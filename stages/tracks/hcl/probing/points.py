"""Points of the latent space: inputs, outputs, negatives and keywords of some items (HCL Figure 3)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from models.hcl.hcl import HclOutput
from models.hcl.model import HclModel
from stages.tracks.hcl.batches import TripleBatches
from stages.tracks.hcl.decoding import Paraphraser
from stages.tracks.hcl.lookup import UnseenKeywords

KINDS = ("input", "positive", "negative", "output_keyword", "impostor_keyword")
_CHUNK = 32
_NO_LATENT = "the model has no latent variable"
_NO_KEYWORD = "the model has no keyword"
_UNTRAINED = "the map P from keywords to the latent space is trained by the Mahalanobis contrast, which is off"


@dataclass(frozen=True)
class LatentPoints:
    """What a model makes of some items.

    Attributes:
        points: columns ``example_id``, ``kind``, ``text`` and ``vector`` (array of width dz), one row per point.
        pairs: one row per item: ``example_id``; ``kl_positive`` and ``kl_negative``, KL(q(z|x,y) || p(z|x,u)) for y+
            and y- as the contrast has them; ``level_output`` and ``level_impostor``, Mahalanobis distances of the
            two keywords to q(z|x,y+). NaN where there is no such thing.
        left_out: why kinds are missing altogether.
    """

    points: pd.DataFrame
    pairs: pd.DataFrame
    left_out: dict[str, str]


def node_columns(paraphraser: Paraphraser, items: pd.DataFrame) -> dict[str, np.ndarray]:
    """Return the node ids (n,) of each item's keywords by the names that training gives them; -1 for no node."""
    return {f"{role}_node": paraphraser.nodes.ids(items[column]) for role, column in (
        ("input", "keyword"), ("output", "target_keyword"), ("negative", "negative_keyword"))}


def left_out(model: HclModel) -> dict[str, str]:
    """Return which kinds of points ``model`` cannot have, and why."""
    config = model.config
    if not config.latent.enabled:
        return dict.fromkeys(KINDS, _NO_LATENT)
    if "mahalanobis" in config.contrasts_used:
        return {}
    return dict.fromkeys(KINDS[3:], _UNTRAINED if config.uses_keyword else _NO_KEYWORD)


def has_impostor(model: HclModel, output_nodes: np.ndarray, negative_nodes: np.ndarray) -> np.ndarray:
    """Return whether the model finds an impostor for each item (n,), given node ids, -1 for none."""
    nodes = (torch.from_numpy(ids).to(model.device) for ids in (output_nodes, negative_nodes))
    return model.impostors(*nodes)[2].cpu().numpy()


@torch.no_grad()
def latent_points(paraphraser: Paraphraser, items: pd.DataFrame) -> LatentPoints:
    """Return the points of ``items`` in evaluation mode.

    An item has a negative point if it has a negative, an output keyword if that is a node, and an impostor if the
    model finds one; several negatives count by their first.

    Args:
        paraphraser: the model.
        items: rows of table ``items``, by example id.
    """
    missing = left_out(paraphraser.model)
    rows: list[pd.DataFrame] = []
    pairs: list[pd.DataFrame] = []
    if len(missing) < len(KINDS) and len(items):
        for chunk, output in _outputs(paraphraser, items):
            rows.append(_points(chunk, output, _texts(paraphraser, chunk), set(missing)))
            pairs.append(_pairs(chunk, output, set(missing)))
    empty = pd.DataFrame({"example_id": [], "kind": [], "text": [], "vector": []}, dtype=object)
    return LatentPoints(pd.concat(rows, ignore_index=True) if rows else empty,
                        pd.concat(pairs, ignore_index=True) if pairs else pd.DataFrame(), missing)


def _outputs(paraphraser: Paraphraser, items: pd.DataFrame) -> Iterator[tuple[pd.DataFrame, HclOutput]]:
    """Yield the training pass over ``items``, chunk by chunk; nothing in it is trained."""
    model, on = paraphraser.model, paraphraser.on
    first = items.assign(negatives=[list(texts)[:1] for texts in items["negatives"]],
                         **node_columns(paraphraser, items))
    batches = TripleBatches(first, paraphraser.tokenizer, on.max_source, on.max_target, on.keep)
    unseen = UnseenKeywords(on).vectors(first) if (first["input_node"] < 0).any() else None
    for start in range(0, len(first), _CHUNK):
        places = range(start, min(start + _CHUNK, len(first)))
        batch = batches.batch(places)
        # The points are means: noise has no part in them.
        batch["eps"] = torch.zeros(len(places), model.config.latent.size)
        if unseen is not None:
            batch["unseen_vectors"] = unseen[places.start:places.stop]
        output = model({name: value.to(model.device) for name, value in batch.items()})
        yield first.iloc[places.start:places.stop], output


def _points(chunk: pd.DataFrame, output: HclOutput, texts: dict[str, Sequence[str]], missing: set[str]) -> pd.DataFrame:
    frames = []
    for kind, (vectors, there) in _vectors(output).items():
        if kind in missing:
            continue
        chosen = there.cpu().numpy()
        frames.append(pd.DataFrame({
            "example_id": chunk["example_id"].to_numpy()[chosen], "kind": kind,
            "text": np.array(texts[kind], dtype=object)[chosen],
            "vector": list(vectors.float().cpu().numpy()[chosen])}))
    return pd.concat(frames, ignore_index=True)


def _vectors(output: HclOutput) -> dict[str, tuple[Tensor, Tensor]]:
    """Return for each kind its vectors (B, dz) and which items have it (B,)."""
    latent, keyword, contrasts = output.latent, output.keyword, output.contrasts
    assert latent is not None   # models without are left out before
    everyone = torch.ones(len(latent.prior.mu), dtype=torch.bool, device=latent.prior.mu.device)
    found = {"input": (latent.prior.mu, everyone), "positive": (latent.posterior.mu, everyone)}
    if latent.negative is not None:
        found["negative"] = (latent.negative.mu, contrasts["instance"].mask)
    if keyword is not None and (points := contrasts["mahalanobis"].points) is not None:
        # Where the output keyword is no node its vector is zero.
        found["output_keyword"] = (points[:, 0], keyword.u_out.abs().sum(-1) > 0)
        found["impostor_keyword"] = (points[:, 1], keyword.mask)
    return found


def _pairs(chunk: pd.DataFrame, output: HclOutput, missing: set[str]) -> pd.DataFrame:
    latent, instance, level = output.latent, output.contrasts.get("instance"), output.contrasts.get("mahalanobis")
    assert latent is not None
    nothing = torch.full_like(latent.d_pos, torch.nan)
    columns = {"kl_positive": latent.d_pos, "kl_negative": nothing, "level_output": nothing, "level_impostor": nothing}
    if instance is not None:
        columns["kl_negative"] = torch.where(instance.mask, instance.wrong, nothing)
    if level is not None and "output_keyword" not in missing:
        columns["level_output"] = torch.where(level.mask, level.right, nothing)
        columns["level_impostor"] = torch.where(level.mask, level.wrong, nothing)
    return pd.DataFrame({"example_id": chunk["example_id"].to_numpy(),
                         **{name: values.double().cpu().numpy() for name, values in columns.items()}})


def _texts(paraphraser: Paraphraser, chunk: pd.DataFrame) -> dict[str, Sequence[str]]:
    """Return the text of each item's point by kind; an impostor's are the keywords that it is made of."""
    keywords, model = paraphraser.nodes.keywords, paraphraser.model
    nodes = (torch.tensor(chunk[column].tolist(), device=model.device) for column in ("output_node", "negative_node"))
    sample, candidates, _ = model.impostors(*nodes)
    of_item: list[list[str]] = [[] for _ in range(len(chunk))]
    for place, node in zip(sample.tolist(), candidates.tolist(), strict=True):
        of_item[place].append(keywords[node])
    return {"input": chunk["source"].tolist(), "positive": chunk["target"].tolist(),
            "negative": [texts[0] if texts else "" for texts in chunk["negatives"]],
            "output_keyword": chunk["target_keyword"].fillna("").tolist(),
            "impostor_keyword": [", ".join(names) for names in of_item]}
