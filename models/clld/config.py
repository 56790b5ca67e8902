"""Configuration of CLLD classifiers: the plain values that ``config.json`` of a saved model holds."""

from collections.abc import Mapping, Sequence
from typing import Any

from transformers import PretrainedConfig

from models.common.former import without_former

ARCHITECTURES = ("encoder", "textcnn")
# Of the contrast by its kind, in its paper; CLLD has none, which is 1.
TEMPERATURES = {"label_distance": 1.0, "supervised": 0.05, "twin": 0.05}
# Of the encoder in the further views of SupCL-Seq (Sedghamiz et al. 2021); other contrasts have one, under its own.
SUPCL_SEQ_DROPOUTS = (0.0, 0.05, 0.2)
# Before the linear classifier.
DROPOUT = 0.5

# Group by group what a model needs to know of itself.
_GROUPS: dict[str, dict[str, Any]] = {
    "contrast": {"kind": "none", "temperature": None},
    "distance": {"kind": "ones", "pairs": ()},
    "textcnn": {"vocabulary": 2, "embedding": 300, "filters": 100},
}


def former_settings(kind: str) -> dict[str, Any]:
    """Return what models of earlier versions with this ``contrast.kind`` hold besides; see `without_former`."""
    supervised = kind == "supervised"
    return {
        "dropout": DROPOUT, "classifier_input": "encoder",
        "contrast": {"weight": 0.5, "form": "product", "projection": 128,
                     "vectors": "pooled" if supervised else "head", "tokens": 32,
                     "dropouts": list(SUPCL_SEQ_DROPOUTS) if supervised else [], "base_temperature": None},
        "distance": {"tau": 5.0, "given": [], "ald_count": "minmax_sym", "share_of": "texts", "least_support": 1},
        "textcnn": {"widths": [3, 4, 5], "embedding_dropout": 0.1},
    }


class ClldConfig(PretrainedConfig):
    """Configuration of :class:`models.clld.ClldModel`.

    Args:
        architecture: ``encoder``, any encoder of the Hugging Face library, or ``textcnn``.
        classes: name of each class, by index.
        encoder: configuration of the encoder as a plain dict, ``model_type`` among its keys; for ``encoder`` alone.
        pool: what stands for a text: the state of [CLS] (``cls``) or the ``mean`` over real tokens. TextCNN has its
            own.
        ce_views: ``first``, literal: the cross-entropy reads the first view; or ``both``, of CT too, which then has
            as many views as a contrast (two), and costs as much.
        contrast: ``kind``, a key of ``TEMPERATURES`` or ``none`` (CT); ``temperature``, None for its paper's.
        distance: the label distance matrix: ``kind`` and ``pairs`` (of class indices).
        textcnn: ``vocabulary`` (ids, padding and unknown among them), ``embedding`` width, ``filters`` of each width.

    Raises:
        ValueError: an unknown name or key; all problems in one message.
    """

    model_type = "keycontrast-clld"

    def __init__(
        self,
        architecture: str = "encoder",
        classes: Sequence[str] | None = None,
        encoder: Mapping[str, Any] | None = None,
        pool: str = "cls",
        ce_views: str = "first",
        contrast: Mapping[str, Any] | None = None,
        distance: Mapping[str, Any] | None = None,
        textcnn: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self.architecture = architecture
        self.encoder = dict(encoder or {})
        self.pool = pool
        self.ce_views = ce_views
        kwargs |= {"contrast": contrast, "distance": distance, "textcnn": textcnn}
        kwargs = without_former(kwargs, former_settings((contrast or {}).get("kind", "none")))
        groups = {name: _plain(defaults | (kwargs.pop(name) or {})) for name, defaults in _GROUPS.items()}
        self.contrast, self.distance, self.textcnn = groups["contrast"], groups["distance"], groups["textcnn"]
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
        return self.contrast["kind"] != "none"

    @property
    def views(self) -> int:
        """Times that a training step encodes a text."""
        if self.contrast["kind"] == "supervised":
            return 1 + len(SUPCL_SEQ_DROPOUTS)
        return 2 if self.contrasts or self.ce_views == "both" else 1

    @property
    def contrast_temperature(self) -> float:
        """Of the contrast, which must be one, as given or as its paper has it."""
        given = self.contrast["temperature"]
        return TEMPERATURES[self.contrast["kind"]] if given is None else given

    def _check(self) -> None:
        words: dict[str, tuple[Any, Sequence[str]]] = {
            "architecture": (self.architecture, ARCHITECTURES), "pool": (self.pool, ("cls", "mean")),
            "ce_views": (self.ce_views, ("first", "both")),
            "contrast.kind": (self.contrast["kind"], ("none", *TEMPERATURES)),
            "distance.kind": (self.distance["kind"], ("ones", "static_tau_pairs", "adaptive"))}
        problems = [f"{name} is {value!r}, expected one of {', '.join(valid)}"
                    for name, (value, valid) in words.items() if value not in valid]
        for group, defaults in _GROUPS.items():
            problems += [f"{group}.{key} is unknown, expected one of {', '.join(defaults)}"
                         for key in getattr(self, group) if key not in defaults]
        if problems:
            raise ValueError("ClldConfig: " + "; ".join(problems))


def _plain(group: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``group`` with lists for tuples, as JSON would give it back."""
    return {key: [list(item) if isinstance(item, tuple) else item for item in value]
            if isinstance(value, (list, tuple)) else value for key, value in group.items()}
