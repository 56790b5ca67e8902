"""The latent space of a trained HCL model: points of some items, their measures, and their plot (Figure 3)."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from scipy.spatial.distance import cdist
from sklearn.manifold import TSNE
from threadpoolctl import threadpool_limits
from torch import Tensor

from models.hcl.hcl import HclOutput
from models.hcl.model import HclModel
from stages.common.figures import PALETTE, Plot, drawing, finished
from stages.metrics.resampling import interval, mean_statistic, resampled
from stages.tracks.hcl.data import TripleBatches, UnseenKeywords, node_ids
from stages.tracks.hcl.generate import Paraphraser

NAME = "latent"
KINDS = ("input", "positive", "negative", "output_keyword", "impostor_keyword")
_CHUNK = 32
_RESAMPLES, _LEVEL = 1000, 0.95
_LINKED = 6  # items whose points are joined by lines
_EXACT = 1000  # points up to which t-SNE takes the exact gradient
# Label, colour, marker, filled: colour shows the side of a contrast, form shows text or keyword.
_MARKS = {
    "input": ("input, mean of the prior", "ink", "o", True),
    "positive": ("target, mean of the posterior", "first", "^", True),
    "negative": ("negative, likewise", "second", "v", True),
    "output_keyword": ("target's keyword, P u", "first", "s", False),
    "impostor_keyword": ("impostor keyword, P u", "second", "D", False),
}


def node_columns(paraphraser: Paraphraser, items: pd.DataFrame) -> dict[str, np.ndarray]:
    """Return the node ids (n,) of each item's keywords; -1 for no node."""
    return {f"{role}_node": node_ids(paraphraser.keywords, items[column]) for role, column in (
        ("input", "keyword"), ("output", "target_keyword"), ("negative", "negative_keyword"))}


def left_out(model: HclModel) -> dict[str, str]:
    """Return the kinds of points that ``model`` lacks, with reasons."""
    config = model.config
    if not config.latent.enabled:
        return dict.fromkeys(KINDS, "the model has no latent variable")
    if "mahalanobis" in config.contrasts_used:
        return {}
    untrained = "the map P from keywords to the latent space is trained by the Mahalanobis contrast, which is off"
    return dict.fromkeys(KINDS[3:], untrained if config.uses_keyword else "the model has no keyword")


@torch.no_grad()
def latent_points(paraphraser: Paraphraser, items: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the points of ``items`` in evaluation mode, and distances of each item.

    A point has ``example_id``, ``kind``, ``text`` and ``vector`` (dz,). ``kl_positive`` and ``kl_negative`` are
    KL(q(z|x,y) || p(z|x,u)) for y+ and y-, ``level_output`` and ``level_impostor`` Mahalanobis distances of the two
    keywords to q(z|x,y+); NaN where there is none.
    """
    model, on, missing = paraphraser.model, paraphraser.on, left_out(paraphraser.model)
    if len(missing) == len(KINDS):
        return pd.DataFrame({"example_id": [], "kind": [], "text": [], "vector": []}, dtype=object), pd.DataFrame()
    items = items.assign(**node_columns(paraphraser, items))
    batches = TripleBatches(items, paraphraser.tokenizer, on.max_source, on.max_target, on.keep)
    unseen = UnseenKeywords(on).vectors(items) if (items["input_node"] < 0).any() else None
    points, pairs = [], []
    for start in range(0, len(items), _CHUNK):
        chunk = items.iloc[start:start + _CHUNK]
        batch = batches.batch(range(start, start + len(chunk)))
        batch["eps"] = torch.zeros(len(chunk), model.config.latent.size)
        if unseen is not None:
            batch["unseen_vectors"] = unseen[start:start + _CHUNK]
        output = model({name: value.to(model.device) for name, value in batch.items()})
        ids, texts = chunk["example_id"].to_numpy(), _texts(paraphraser, chunk)
        for kind, (vectors, present) in _vectors(output).items():
            if kind not in missing:
                chosen = present.cpu().numpy()
                points.append(pd.DataFrame({
                    "example_id": ids[chosen], "kind": kind, "text": np.array(texts[kind], dtype=object)[chosen],
                    "vector": list(vectors.float().cpu().numpy()[chosen])}))
        pairs.append(pd.DataFrame({"example_id": ids, **{
            name: values.double().cpu().numpy() for name, values in _distances(output, set(missing)).items()}}))
    return pd.concat(points, ignore_index=True), pd.concat(pairs, ignore_index=True)


def _vectors(output: HclOutput) -> dict[str, tuple[Tensor, Tensor]]:
    """Return for each kind its vectors (B, dz) and which items have it (B,)."""
    latent, keyword, contrasts = output.latent, output.keyword, output.contrasts
    assert latent is not None   # models without are left out before
    everyone = torch.ones(len(latent.prior.mu), dtype=torch.bool, device=latent.prior.mu.device)
    vectors = {"input": (latent.prior.mu, everyone), "positive": (latent.posterior.mu, everyone)}
    if latent.negative is not None:
        vectors["negative"] = (latent.negative.mu, contrasts["instance"].mask)
    if keyword is not None and (points := contrasts["mahalanobis"].points) is not None:
        # Where the output keyword is no node its vector is zero.
        vectors["output_keyword"] = (points[:, 0], keyword.u_out.abs().sum(-1) > 0)
        vectors["impostor_keyword"] = (points[:, 1], keyword.mask)
    return vectors


def _distances(output: HclOutput, missing: set[str]) -> dict[str, Tensor]:
    latent, instance, level = output.latent, output.contrasts.get("instance"), output.contrasts.get("mahalanobis")
    assert latent is not None
    nothing = torch.full_like(latent.d_pos, torch.nan)
    negative = nothing if instance is None else instance.wrong.where(instance.mask, torch.nan)
    levels = [nothing, nothing]
    if level is not None and "output_keyword" not in missing:
        levels = [side.where(level.mask, torch.nan) for side in (level.right, level.wrong)]
    return {"kl_positive": latent.d_pos, "kl_negative": negative, "level_output": levels[0],
            "level_impostor": levels[1]}


def _texts(paraphraser: Paraphraser, chunk: pd.DataFrame) -> dict[str, Sequence[str]]:
    """Return the text of each item's point by kind; an impostor's are the keywords of its mean."""
    nodes = (torch.tensor(chunk[column].tolist()) for column in ("output_node", "negative_node"))
    sample, candidates, _ = paraphraser.model.planner().impostors(*nodes)
    of_item: list[list[str]] = [[] for _ in range(len(chunk))]
    for place, node in zip(sample.tolist(), candidates.tolist(), strict=True):
        of_item[place].append(paraphraser.keywords[node])
    return {"input": chunk["source"].tolist(), "positive": chunk["target"].tolist(),
            "negative": [texts[0] if len(texts) else "" for texts in chunk["negatives"]],
            "output_keyword": chunk["target_keyword"].fillna("").tolist(),
            "impostor_keyword": [", ".join(names) for names in of_item]}


def separation(points: pd.DataFrame, pairs: pd.DataFrame) -> dict[str, object]:
    """Return the measures of a model's points, None where there is nothing to measure.

    - ``distance_from_input``: mean Euclidean distance of each kind to mu_p of the input.
    - ``share_positive_nearer``: mu_q(y+) is nearer to mu_p than mu_q(y-); ``share_positive_nearer_kl``: by KL(q || p).
    - ``share_output_keyword_nearer``: nearer to q(z|x,y+) than the impostor by Mahalanobis distance.
    - ``share_own_target``: share of inputs whose nearest mu_q(y+) of all items is their own.
    """
    if points.empty:
        return {}
    by_kind = {str(kind): rows.set_index("example_id")["vector"] for kind, rows in points.groupby("kind")}
    distances = {}
    for kind in KINDS[1:]:
        if kind in by_kind:
            ids = by_kind[kind].index
            gaps = np.stack(list(by_kind[kind])) - np.stack(list(by_kind["input"].loc[ids]))
            distances[kind] = pd.Series(np.linalg.norm(gaps.astype(np.float64), axis=1), index=ids)
    shares = {"share_positive_nearer": _smaller(distances.get("positive"), distances.get("negative")),
              "share_positive_nearer_kl": _smaller(pairs["kl_positive"], pairs["kl_negative"]),
              "share_output_keyword_nearer": _smaller(pairs["level_output"], pairs["level_impostor"])}
    return {"distance_from_input": {kind: _mean(values.to_numpy()) for kind, values in distances.items()},
            **{name: _mean(values) for name, values in shares.items()},
            "intervals": {**{name: mean_interval(values.to_numpy()) for name, values in distances.items()},
                          **{name: mean_interval(values) for name, values in shares.items()}},
            **_own_target(by_kind["input"], by_kind["positive"])}


def mean_interval(values: np.ndarray) -> list[float] | None:
    """Return the bootstrap interval of the mean of ``values`` (n,), one per item; None for no item."""
    if not len(values):
        return None
    samples = resampled({"mean": mean_statistic(values.astype(np.float64))}, _RESAMPLES, 0)
    return list(interval(samples["mean"], _LEVEL))


def _smaller(first: pd.Series | None, other: pd.Series | None) -> np.ndarray:
    """Return whether ``first`` is smaller, for each of the items that have both."""
    if first is None or other is None:
        return np.zeros(0, dtype=bool)
    both = pd.concat([first, other], axis=1, keys=["one", "other"]).dropna()
    return (both["one"] < both["other"]).to_numpy()


def _own_target(inputs: pd.Series, targets: pd.Series) -> dict[str, float | None]:
    distances = cdist(*(np.stack(list(vectors)).astype(np.float64) for vectors in (inputs, targets)))
    nearest = targets.index.to_numpy()[distances.argmin(axis=1)]
    return {"share_own_target": _mean(nearest == inputs.index.to_numpy()),
            "share_own_target_by_chance": 1 / len(targets)}


def _mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if len(values) else None


def tsne(vectors: np.ndarray, perplexity: float, seed: int) -> tuple[np.ndarray, float]:
    """Return the coordinates of each vector, (n, 2) rounded, and the perplexity used.

    It is deterministic: one thread, a PCA start, and the exact gradient for up to a thousand points. Fewer than four
    points, or equal points, lie at 0.
    """
    used = min(perplexity, max(1.0, (len(vectors) - 1) / 3))
    if len(vectors) < 4 or not np.ptp(vectors, axis=0).any():
        return np.zeros((len(vectors), 2)), used
    # The start takes two axes; a latent variable of width 1 has one.
    points = np.pad(vectors.astype(np.float64), ((0, 0), (0, max(0, 2 - vectors.shape[1]))))
    method = "exact" if len(points) <= _EXACT else "barnes_hut"
    with threadpool_limits(limits=1):
        placed = TSNE(n_components=2, perplexity=used, init="pca", random_state=seed % 2**32, method=method,
                      n_jobs=1).fit_transform(points)
    return np.round(placed.astype(np.float64), 3) + 0.0, used  # rounding hides the last bits of long sums


def latent_plot(model: str, points: pd.DataFrame, split: str, remark: str) -> Plot:
    """Return the plot of a model's points, some inputs joined by lines to their target and negative."""
    title = f"Latent space of {model}: {points['example_id'].nunique()} {split} items by t-SNE"
    with drawing(6.4, 5.2) as figure:
        axes = figure.add_subplot()
        axes.set(title=title, xticks=[], yticks=[])
        axes.set_xlabel(remark, wrap=True)
        if points.empty:
            axes.text(0.5, 0.5, "nothing to draw", ha="center", va="center", transform=axes.transAxes,
                      color=PALETTE["muted"])
        else:
            _draw(axes, points)
        counts = points["kind"].value_counts()
        shown = ", ".join(f"{_MARKS[kind][0]}: {counts[kind]}" for kind in _MARKS if kind in counts)
        return finished(figure, NAME, title, f"{shown or 'no points'}. {remark}")


def _draw(axes: Axes, points: pd.DataFrame) -> None:
    places = {kind: rows.set_index("example_id")[["x", "y"]] for kind, rows in points.groupby("kind")}
    ids = places["input"].index if "input" in places else []
    for item in ids[np.unique(np.linspace(0, len(ids) - 1, _LINKED).round().astype(int))] if len(ids) else ():
        for kind, line in (("positive", "-"), ("negative", "--")):
            if kind in places and item in places[kind].index:
                ends = pd.concat([places["input"].loc[[item]], places[kind].loc[[item]]])
                axes.plot(ends["x"], ends["y"], line, color=PALETTE[_MARKS[kind][1]], linewidth=0.8, zorder=0.5)
    for kind, (label, colour, marker, full) in _MARKS.items():
        if kind in places:
            axes.scatter(places[kind]["x"], places[kind]["y"], s=20, marker=marker, linewidths=0.9,
                         facecolors=PALETTE[colour] if full else "none", edgecolors=PALETTE[colour],
                         alpha=0.85, label=f"{label} ({len(places[kind])})")
    axes.figure.legend(loc="outside lower center", ncols=2)
