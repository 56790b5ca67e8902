"""Configuration of a saved HCL model."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, Self

from transformers import BertConfig, PretrainedConfig

from models.common import filled
from models.hcl.settings import CONTRASTS, GROUPS, ContrastSettings, HclSettings

SPECIAL_TOKENS = ("pad", "bos", "eos", "unk", "mask")


class HclConfig(PretrainedConfig):
    """Configuration of :class:`models.hcl.model.HclModel`.

    Args:
        encoder: configuration of the BERT encoder as a dict (``BertConfig.to_dict()``).
        special_ids: token ids by role: ``pad``, ``bos`` ([CLS]), ``eos`` ([SEP]), ``unk``, ``mask``.
        num_nodes: nodes of the keyword graph; sizes the buffers of a saved model.
        num_edges: directed edges, self loops included.
        mean_target_length: mean number of predicted tokens per training target; the constant by which
            sentence sums are divided (docs/hcl.md).
        kwargs: the groups of :class:`HclSettings` by name, or plain values of them; what is missing takes its default.

    Raises:
        ValueError: a name or a choice is unknown, or two settings contradict each other.
    """

    model_type = "keycontrast-hcl"

    def __init__(self, encoder: Mapping[str, Any] | None = None, special_ids: Mapping[str, int] | None = None,
                 num_nodes: int = 0, num_edges: int = 0, mean_target_length: float = 1.0, **kwargs: Any) -> None:
        self.encoder = dict(encoder if encoder is not None else BertConfig().to_dict())
        for machine_key in ("_name_or_path", "transformers_version"):  # a model must not depend on where it was made
            self.encoder.pop(machine_key, None)
        given = {name: values for name in GROUPS if (values := kwargs.pop(name, None)) is not None}
        settings: HclSettings = filled(HclSettings(), given, "")
        self.graph, self.keyword, self.latent = settings.graph, settings.keyword, settings.latent
        self.contrasts, self.decoder = settings.contrasts, settings.decoder
        self.special_ids = dict(special_ids or {"pad": 0, "bos": 101, "eos": 102, "unk": 100, "mask": 103})
        self.num_nodes, self.num_edges, self.mean_target_length = num_nodes, num_edges, mean_target_length
        if problems := list(self._problems()):
            raise ValueError("HclConfig: " + "; ".join(problems))
        ids = self.special_ids
        super().__init__(**{**kwargs, "tie_word_embeddings": True, "is_encoder_decoder": True,
                            "pad_token_id": ids["pad"], "bos_token_id": ids["bos"], "eos_token_id": ids["eos"],
                            "decoder_start_token_id": ids["bos"]})

    @classmethod
    def from_params(cls, block: Mapping[str, Any], encoder: PretrainedConfig, special_ids: Mapping[str, int],
                    num_nodes: int, num_edges: int, mean_target_length: float) -> Self:
        """Build the configuration from the plain values of the params block ``train_hcl``; see the class."""
        return cls(encoder.to_dict(), special_ids, num_nodes, num_edges, mean_target_length,
                   **{name: block[name] for name in GROUPS if name in block})

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, the groups nested."""
        return {**super().to_dict(), **{name: asdict(getattr(self, name)) for name in GROUPS}}

    def get_text_config(self, decoder: bool | None = None, encoder: bool | None = None) -> Self:
        """Return this configuration; the library would otherwise take ``decoder`` for one."""
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
        return self.decoder.layers

    @property
    def uses_keyword(self) -> bool:
        """Whether the input keyword reaches the prior or the decoder's memory."""
        return bool(self.keyword.condition) and (self.latent.enabled or self.decoder.kw_memory)

    @property
    def contrasts_used(self) -> list[str]:
        """The contrasts that are part of the objective, in its order."""
        has = {"latent": self.latent.enabled, "keyword": self.uses_keyword}
        return [name for name, read in CONTRASTS.items() if self.contrast(name).weight > 0
                and all(has[part] for part in read)]

    def contrast(self, name: str) -> ContrastSettings:
        """Return weight and temperature of one of :data:`CONTRASTS`."""
        settings: ContrastSettings = getattr(self.contrasts, name)
        return settings

    @property
    def uses_bow(self) -> bool:
        """Whether the bag-of-words auxiliary loss is part of the objective."""
        return self.latent.enabled and self.latent.bow_loss

    @property
    def banned_token_ids(self) -> list[int]:
        """Tokens never generated: [PAD], [CLS], [UNK] and [MASK]."""
        return sorted({self.special_ids[role] for role in ("pad", "bos", "unk", "mask")})

    def _problems(self) -> Iterator[str]:
        missing = [role for role in SPECIAL_TOKENS if self.special_ids.get(role) is None]
        if missing:
            yield f"special_ids lacks {', '.join(missing)}"
        if self.encoder.get("model_type", "bert") != "bert":
            yield f"encoder is of type {self.encoder['model_type']!r}; HCL is built on BERT encoders"
        if self.mean_target_length <= 0:
            yield f"mean_target_length is {self.mean_target_length}, expected a positive number"
