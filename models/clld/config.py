"""Configuration of CLLD classifiers: the plain values that ``config.json`` of a saved model holds."""

from collections.abc import Mapping, Sequence
from typing import Any

from transformers import PretrainedConfig

from models.clld.contrasts import CONTRASTS
from models.clld.label_distance import RULES
from models.common.losses import FORMS

ARCHITECTURES = ("encoder", "textcnn")

# Group by group what a model needs to know of itself.
_GROUPS: dict[str, dict[str, Any]] = {
    "contrast": {
        "kind": "none",
        "weight": 0.5,
        "temperature": None,
        "form": "product",
        "projection": 128,
        "vectors": "head",
        "tokens": 32,
        "dropouts": (),
        "base_temperature": None,
    },
    "distance": {
        "kind": "ones",
        "tau": 5.0,
        "pairs": (),
        "given": (),
        "ald_count": "minmax_sym",
        "share_of": "texts",
        "least_support": 1,
    },
    "textcnn": {
        "vocabulary": 2,
        "embedding": 300,
        "widths": (3, 4, 5),
        "filters": 100,
        "embedding_dropout": 0.1,
    },
}

_CHOICES: dict[tuple[str, str], Sequence[str]] = {
    ("contrast", "vectors"): ("head", "pooled"),
    ("contrast", "form"): FORMS,
    ("distance", "kind"): ("ones", "static_tau_pairs", "static_tau_all", "given", "adaptive"),
    ("distance", "ald_count"): RULES,
    ("distance", "share_of"): ("texts", "errors"),
}


class ClldConfig(PretrainedConfig):
    """Configuration of :class:`models.clld.ClldModel`.

    Args:
        architecture: ``encoder``, any encoder of the Hugging Face library, or ``textcnn``.
        classes: name of each class, by index.
        encoder: configuration of the encoder as a plain dict, ``model_type`` among its keys; for ``encoder`` alone.
        pool: what stands for a text: the state of [CLS] (``cls``), the encoder's pooler on top of it (``pooler``), or
            the ``mean`` over real tokens. TextCNN has its own.
        dropout: before the linear classifier.
        ce_views: ``first``, literal: the cross-entropy reads the first view; or ``both``, of CT too, which then has
            as many views as a contrast (two), and costs as much.
        classifier_input: what the linear classifier reads: the vector of the ``encoder``, or what leaves the ``head``,
            which a model without a contrast then has too.
        contrast: ``kind``, of :data:`models.clld.contrasts.CONTRASTS`, or ``none`` (CT); ``weight``, lambda of eq. 9,
            which is the cross-entropy's, the contrast having 1 - lambda; ``temperature``, None for the paper's;
            ``form``, of :func:`models.common.losses.label_distance_contrast`;
            ``projection``, width of the head; ``vectors``, contrasted as they leave the ``head`` or as ``pooled``;
            ``tokens``, how many of a text's first tokens a contrast of tokens reads, special ones included;
            ``dropouts``, rates of the encoder in further views, one view each, in place of the second one (SupCL-Seq:
            0.0, 0.05, 0.2); ``base_temperature``, see :func:`models.common.losses.batches`.
        distance: the label distance matrix: ``kind``, ``tau``, ``pairs`` (of class indices), ``given`` (all of it, as N
            rows), and of an adaptive one ``ald_count``, ``share_of`` and ``least_support``, see
            :func:`models.clld.counted_distance`.
        textcnn: ``vocabulary`` (ids, padding and unknown among them), ``embedding`` width, filter ``widths``,
            ``filters`` of each, and ``embedding_dropout``.

    Raises:
        ValueError: an unknown name or key, or a number out of range; all problems in one message.
    """

    model_type = "keycontrast-clld"

    def __init__(
        self,
        architecture: str = "encoder",
        classes: Sequence[str] | None = None,
        encoder: Mapping[str, Any] | None = None,
        pool: str = "cls",
        dropout: float = 0.5,
        ce_views: str = "first",
        classifier_input: str = "encoder",
        contrast: Mapping[str, Any] | None = None,
        distance: Mapping[str, Any] | None = None,
        textcnn: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self.architecture = architecture
        self.encoder = dict(encoder or {})
        self.pool = pool
        self.dropout = dropout
        self.ce_views = ce_views
        self.classifier_input = classifier_input
        given = {"contrast": contrast, "distance": distance, "textcnn": textcnn}
        groups = {name: _plain(defaults | dict(given[name] or {})) for name, defaults in _GROUPS.items()}
        self.contrast, self.distance, self.textcnn = (groups[name] for name in given)
        if classes is not None:
            kwargs["id2label"] = dict(enumerate(classes))
            kwargs["label2id"] = {name: number for number, name in enumerate(classes)}
        self._check()
        super().__init__(**kwargs)

    @property
    def classes(self) -> list[str]:
        """Name of each class, by index."""
        names: dict = dict(self.id2label or {})
        return [str(names[number]) for number in range(len(names))]

    @property
    def n_classes(self) -> int:
        """Number of classes N."""
        return len(self.classes)

    @property
    def contrasts(self) -> bool:
        """Whether there is a contrast in the loss (CT has none)."""
        return self.contrast["kind"] != "none" and self.contrast["weight"] < 1

    @property
    def views(self) -> int:
        """Times that a training step encodes a text."""
        several = self.contrasts or self.ce_views == "both"
        return 1 + (len(self.contrast["dropouts"]) or 1) if several else 1

    @property
    def contrast_temperature(self) -> float:
        """Of the contrast, which must be one, as given or as its paper has it."""
        given = self.contrast["temperature"]
        return CONTRASTS[self.contrast["kind"]].temperature if given is None else given

    def _check(self) -> None:
        problems = []
        kind = self.contrast["kind"]
        words: dict[str, tuple[Any, Sequence[str]]] = {
            "architecture": (self.architecture, ARCHITECTURES), "pool": (self.pool, ("cls", "pooler", "mean")),
            "ce_views": (self.ce_views, ("first", "both")),
            "classifier_input": (self.classifier_input, ("encoder", "head")),
            "contrast.kind": (kind, ("none", *CONTRASTS))}
        words |= {f"{group}.{key}": (getattr(self, group)[key], valid) for (group, key), valid in _CHOICES.items()}
        problems += [f"{name} is {found!r}, expected one of {', '.join(valid)}"
                     for name, (found, valid) in words.items() if found not in valid]
        for group, defaults in _GROUPS.items():
            problems += [f"{group}.{key} is unknown, expected one of {', '.join(defaults)}"
                         for key in getattr(self, group) if key not in defaults]
        if not 0 <= self.contrast["weight"] <= 1:
            problems.append(f"contrast.weight is {self.contrast['weight']}, expected lambda in [0, 1]")
        most = CONTRASTS[kind].views if kind in CONTRASTS else None
        if most is not None and 1 + len(self.contrast["dropouts"]) > most:
            problems.append(f"contrast.dropouts has several rates, expected at most {most - 1} with {most} views "
                            f"({kind})")
        if most is not None and CONTRASTS[kind].reads_tokens:
            problems += [f"contrast.kind {kind} compares states of tokens, and {found}" for found, so in (
                ("a TextCNN has none", self.architecture == "textcnn"),
                ("pool: pooler leaves none; set it to cls or mean", self.pool == "pooler"),
                ("contrast.dropouts are for contrasts of texts", bool(self.contrast["dropouts"]))) if so]
        if not all(0 <= rate < 1 for rate in (self.dropout, *self.contrast["dropouts"])):
            problems.append("dropout and contrast.dropouts must be in [0, 1)")
        if problems:
            raise ValueError("ClldConfig: " + "; ".join(problems))


def _plain(group: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``group`` with lists for tuples, as JSON would give it back."""
    return {key: [list(item) if isinstance(item, tuple) else item for item in value]
            if isinstance(value, (list, tuple)) else value for key, value in group.items()}
