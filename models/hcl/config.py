"""Configuration of a saved HCL model."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, Self

from transformers import BertConfig, PretrainedConfig

from models.hcl.settings import (
    GROUPS,
    ContrastSettings,
    ContrastsSettings,
    DecoderSettings,
    GraphSettings,
    HclSettings,
    KeywordSettings,
    LatentSettings,
    filled,
)

SPECIAL_TOKENS = ("pad", "bos", "eos", "unk", "mask")
CONTRASTS = ("instance", "keyword", "mahalanobis")  # in the order of the objective


class HclConfig(PretrainedConfig):
    """Configuration of :class:`models.hcl.model.HclModel`.

    Args:
        encoder: configuration of the BERT encoder as a dict (``BertConfig.to_dict()``).
        graph, keyword, latent, contrasts, decoder: the groups of :class:`HclSettings`, or plain values of them; what
            is missing takes its default.
        special_ids: token ids by role: ``pad``, ``bos`` ([CLS]), ``eos`` ([SEP]), ``unk``, ``mask``.
        num_nodes: nodes of the keyword graph; sizes the buffers of a saved model.
        num_edges: directed edges, self loops included.
        mean_target_length: mean number of predicted tokens per training target; the constant by which
            sentence sums are divided (docs/hcl.md).

    Raises:
        ValueError: a name or a choice is unknown, or two settings contradict each other.
    """

    model_type = "keycontrast-hcl"

    def __init__(
        self,
        encoder: Mapping[str, Any] | None = None,
        graph: GraphSettings | Mapping[str, Any] | None = None,
        keyword: KeywordSettings | Mapping[str, Any] | None = None,
        latent: LatentSettings | Mapping[str, Any] | None = None,
        contrasts: ContrastsSettings | Mapping[str, Any] | None = None,
        decoder: DecoderSettings | Mapping[str, Any] | None = None,
        special_ids: Mapping[str, int] | None = None,
        num_nodes: int = 0,
        num_edges: int = 0,
        mean_target_length: float = 1.0,
        **kwargs: Any,
    ) -> None:
        self.encoder = dict(encoder if encoder is not None else BertConfig().to_dict())
        for machine_key in ("_name_or_path", "transformers_version"):  # a model must not depend on where it was made
            self.encoder.pop(machine_key, None)
        given = {"graph": graph, "keyword": keyword, "latent": latent, "contrasts": contrasts, "decoder": decoder}
        settings = filled(HclSettings(), {name: values for name, values in given.items() if values is not None}, "")
        self.graph, self.keyword, self.latent = settings.graph, settings.keyword, settings.latent
        self.contrasts, self.decoder = settings.contrasts, settings.decoder
        self.special_ids = dict(special_ids or {"pad": 0, "bos": 101, "eos": 102, "unk": 100, "mask": 103})
        self.num_nodes = num_nodes
        self.num_edges = num_edges
        self.mean_target_length = mean_target_length
        ids = self.special_ids
        kwargs |= {"tie_word_embeddings": True, "is_encoder_decoder": True, "pad_token_id": ids.get("pad"),
                   "bos_token_id": ids.get("bos"), "eos_token_id": ids.get("eos"),
                   "decoder_start_token_id": ids.get("bos")}
        if problems := list(self._problems()):
            raise ValueError("HclConfig: " + "; ".join(problems))
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
    ) -> Self:
        """Build the configuration from the plain values of the params block ``train_hcl``; see the class."""
        return cls(encoder=encoder.to_dict(), special_ids=special_ids, num_nodes=num_nodes, num_edges=num_edges,
                   mean_target_length=mean_target_length, **{name: block[name] for name in GROUPS if name in block})

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
        return [name for name in CONTRASTS if self.contrast(name).weight > 0
                and (self.latent.enabled or name == "keyword") and (self.uses_keyword or name == "instance")]

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
