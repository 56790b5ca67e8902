"""Configuration of the HCL generator: the plain values that ``config.json`` of a saved model holds."""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

from transformers import BertConfig, PretrainedConfig

from models.hcl.contrasts import CONTRASTS, Contrast
from models.hcl.impostor import IMPOSTOR_WEIGHTS
from models.hcl.latent import ENTERS, POSTERIORS

SPECIAL_TOKENS = ("pad", "bos", "eos", "unk", "mask")

# Group by group what a model needs to know of itself; the keys are those of the params block `train_hcl`.
_GROUPS: dict[str, dict[str, Any]] = {
    "graph": {"iterations": 2, "layer_norm": True},
    "keyword": {"condition": True, "imp_weight": "cosine", "unit_scale": True},
    "latent": {
        "enabled": True,
        "size": 200,
        "free_bits": 5.0,
        "free_bits_by": "dimension",
        "free_bits_for": "both",
        "posterior": "absolute",
        "batch_norm": 0.0,
        "prior_share": 0.0,
        "enters": "memory+embed",
        "bow_loss": True,
        "word_dropout": 0.0,
    },
    "contrasts": {"added_to": "token"},  # and a block for each of CONTRASTS
    "decoder": {"layers": 6, "dropout": 0.1, "kw_memory": False, "source_dropout": 0.0},
}

_CHOICES: dict[tuple[str, ...], Sequence[str]] = {
    ("keyword", "imp_weight"): IMPOSTOR_WEIGHTS,
    ("latent", "enters"): ENTERS,
    ("latent", "free_bits_by"): ("dimension", "total"),
    ("latent", "free_bits_for"): ("both", "posterior"),
    ("latent", "posterior"): POSTERIORS,
    ("contrasts", "added_to"): ("token", "sentence"),
}

# Settings of earlier versions, in each group and in the blocks of the contrasts, with the value that now always holds.
_REMOVED = {"edge_type": "shared", "kw_anchor": "input", "annealing_cycles": 1, "form": "inverse",
            "sqrt": False, "multi_neg": None}


class HclConfig(PretrainedConfig):
    """Configuration of :class:`models.hcl.HclModel`.

    The groups ``graph``, ``keyword``, ``latent``, ``contrasts`` and ``decoder`` are plain dicts with the
    keys of the params block ``train_hcl``; keys that only training reads (annealing, rates) may be present
    and are kept. Missing keys take the defaults of the paper's full model.

    Args:
        encoder: configuration of the BERT encoder as a dict (``BertConfig.to_dict()``).
        graph: graph attention; ``iterations`` 0 is the ablation without graph.
        keyword: use of keywords; ``condition`` False is the ablation without keyword.
        latent: latent variable; ``enabled`` False is the deterministic backbone.
        contrasts: weight, temperature and so on of each contrast, see :data:`models.hcl.contrasts.CONTRASTS`; weight 0
            removes one.
        decoder: depth, dropout and ``kw_memory``.
        special_ids: token ids by role: ``pad``, ``bos`` ([CLS]), ``eos`` ([SEP]), ``unk``, ``mask``.
        num_nodes: nodes of the keyword graph; sizes the buffers of a saved model.
        num_edges: directed edges, self loops included.
        mean_target_length: mean number of predicted tokens per training target; the constant by which
            sentence sums are divided (docs/hcl.md).

    Raises:
        ValueError: when a choice is unknown or two settings contradict each other.
    """

    model_type = "keycontrast-hcl"

    def __init__(
        self,
        encoder: Mapping[str, Any] | None = None,
        graph: Mapping[str, Any] | None = None,
        keyword: Mapping[str, Any] | None = None,
        latent: Mapping[str, Any] | None = None,
        contrasts: Mapping[str, Any] | None = None,
        decoder: Mapping[str, Any] | None = None,
        special_ids: Mapping[str, int] | None = None,
        num_nodes: int = 0,
        num_edges: int = 0,
        mean_target_length: float = 1.0,
        **kwargs: Any,
    ) -> None:
        self.encoder = dict(encoder if encoder is not None else BertConfig().to_dict())
        for machine_key in ("_name_or_path", "transformers_version"):  # a model must not depend on where it was made
            self.encoder.pop(machine_key, None)
        self.graph = _filled("graph", graph)
        self.keyword = _filled("keyword", keyword)
        self.latent = _filled("latent", latent)
        self.contrasts = _filled("contrasts", contrasts)
        self.decoder = _filled("decoder", decoder)
        self.special_ids = dict(special_ids or {"pad": 0, "bos": 101, "eos": 102, "unk": 100, "mask": 103})
        self.num_nodes = num_nodes
        self.num_edges = num_edges
        self.mean_target_length = mean_target_length
        kwargs["tie_word_embeddings"] = True
        kwargs["is_encoder_decoder"] = True
        ids = self.special_ids
        kwargs.update(pad_token_id=ids.get("pad"), bos_token_id=ids.get("bos"), eos_token_id=ids.get("eos"))
        kwargs["decoder_start_token_id"] = ids.get("bos")
        self._check()
        super().__init__(**kwargs)

    @classmethod
    def from_params(
        cls,
        block: Mapping[str, Any],
        encoder: PretrainedConfig,
        special_ids: Mapping[str, int],
        num_nodes: int,
        num_edges: int,
        mean_target_length: float,
    ) -> "HclConfig":
        """Build the configuration from the plain values of the params block ``train_hcl``.

        Args:
            block: the block as nested plain values (``TrainHcl.model_dump()``); ``training`` is ignored.
            encoder: configuration of the loaded encoder.
            special_ids: see :func:`models.common.encoders.special_ids`.
            num_nodes: ``KeywordGraph.num_nodes``.
            num_edges: ``KeywordGraph.num_edges`` (self loops included).
            mean_target_length: predicted tokens per training target, the end token included.
        """
        groups = {name: block[name] for name in _GROUPS if name in block}
        return cls(
            encoder=encoder.to_dict(),
            special_ids=special_ids,
            num_nodes=num_nodes,
            num_edges=num_edges,
            mean_target_length=mean_target_length,
            **groups,
        )

    def get_text_config(self, decoder: bool | None = None, encoder: bool | None = None) -> "HclConfig":
        """Return this configuration; the library would otherwise take the dict ``decoder`` for one."""
        return self

    @property
    def hidden_size(self) -> int:
        """Width d of encoder, graph and decoder."""
        return int(self.encoder["hidden_size"])

    @property
    def vocab_size(self) -> int:
        """Number of word pieces."""
        return int(self.encoder["vocab_size"])

    @property
    def num_attention_heads(self) -> int:
        """Attention heads of each decoder layer, as in the encoder."""
        return int(self.encoder["num_attention_heads"])

    @property
    def num_hidden_layers(self) -> int:
        """Decoder layers; the library sizes its key/value cache by this number."""
        return int(self.decoder["layers"])

    @property
    def latent_size(self) -> int:
        """Width dz of the latent variable."""
        return int(self.latent["size"])

    @property
    def uses_keyword(self) -> bool:
        """Whether the input keyword reaches the prior or the decoder's memory."""
        return self.keyword["condition"] and (self.latent["enabled"] or self.decoder["kw_memory"])

    @property
    def contrasts_used(self) -> list[Contrast]:
        """The contrasts that are part of the objective, in its order."""
        return [contrast for contrast in CONTRASTS.values() if self.contrasts[contrast.name]["weight"] > 0
                and (self.latent["enabled"] or not contrast.needs_latent)
                and (self.uses_keyword or not contrast.needs_keyword)]

    def uses_contrast(self, name: str) -> bool:
        """Return whether the contrast ``name`` is part of the objective."""
        return any(contrast.name == name for contrast in self.contrasts_used)

    @property
    def uses_bow(self) -> bool:
        """Whether the bag-of-words auxiliary loss is part of the objective."""
        return self.latent["enabled"] and self.latent["bow_loss"]

    @property
    def banned_token_ids(self) -> list[int]:
        """Tokens never generated: [PAD], [CLS], [UNK] and [MASK]."""
        return sorted({self.special_ids[role] for role in ("pad", "bos", "unk", "mask")})

    def _check(self) -> None:
        problems = [
            f"{'.'.join(path)} is {self._value(path)!r}, expected one of {', '.join(valid)}"
            for path, valid in _CHOICES.items()
            if self._value(path) not in valid
        ]
        missing = [role for role in SPECIAL_TOKENS if self.special_ids.get(role) is None]
        if missing:
            problems.append(f"special_ids lacks {', '.join(missing)}")
        if self.encoder.get("model_type", "bert") != "bert":
            problems.append(f"encoder is of type {self.encoder['model_type']!r}; HCL is built on BERT encoders")
        if self.decoder["kw_memory"] and not self.keyword["condition"]:
            problems.append("decoder.kw_memory needs keyword.condition")
        if self.latent["posterior"] == "relative" and self.latent["free_bits_for"] == "posterior":
            problems.append("latent.free_bits_for posterior needs latent.posterior absolute: a relative one has a KL "
                            "that the prior takes no part in")
        if self.mean_target_length <= 0:
            problems.append(f"mean_target_length is {self.mean_target_length}, expected a positive number")
        if problems:
            raise ValueError("HclConfig: " + "; ".join(problems))

    def _value(self, path: tuple[str, ...]) -> Any:
        group, *keys = path
        return reduce(lambda values, key: values[key], keys, getattr(self, group))


def _filled(group: str, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return ``given`` over the defaults of its group, one level of nested dicts included."""
    defaults, values = _GROUPS[group], dict(given or {})
    if group == "contrasts":
        defaults = {name: dict(contrast.defaults) for name, contrast in CONTRASTS.items()} | defaults
    filled = {**defaults, **without_removed(values, _REMOVED, group)}
    for key, default in defaults.items():
        if isinstance(default, dict):
            block = without_removed(values.get(key) or {}, _REMOVED, f"{group}.{key}")
            filled[key] = {**default, **block}
    return filled


def without_removed(values: Mapping[str, Any], removed: Mapping[str, Any], block: str) -> dict[str, Any]:
    """Return ``values`` without the settings of earlier versions that are ``removed``.

    Raises:
        ValueError: one of them has another value than the one that now always holds; None allows any.
    """
    for key in values.keys() & removed.keys():
        if removed[key] not in (None, values[key]):
            raise ValueError(f"{block}.{key} is {values[key]!r}; this version knows {removed[key]!r} alone. Train the "
                             f"model again")
    return {key: value for key, value in values.items() if key not in removed}
