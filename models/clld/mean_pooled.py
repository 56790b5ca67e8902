"""A sequence classifier by the mean over tokens; exports contain a copy, so it imports torch and transformers alone."""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput


class MeanPooledConfig(PretrainedConfig):
    """Configuration of :class:`MeanPooledForSequenceClassification`; ``encoder`` is its own, with ``model_type``."""

    model_type = "mean_pooled_classifier"

    def __init__(self, encoder: dict[str, Any] | None = None, classifier_dropout: float = 0.1, **values: Any) -> None:
        self.encoder = dict(encoder or {})
        self.classifier_dropout = classifier_dropout
        super().__init__(**values)


class MeanPooledForSequenceClassification(PreTrainedModel):
    """An encoder of the library, the mean of its states over real tokens, dropout, and a linear classifier."""

    config_class = MeanPooledConfig
    base_model_prefix = "encoder"

    def __init__(self, config: MeanPooledConfig) -> None:
        super().__init__(config)
        encoder = AutoConfig.for_model(**config.encoder) if config.encoder else AutoConfig.for_model("bert")
        extra = {"add_pooling_layer": False} if encoder.model_type in ("bert", "albert", "roberta") else {}
        self.encoder = AutoModel.from_config(encoder, **extra)
        self.dropout = nn.Dropout(config.classifier_dropout)
        self.classifier = nn.Linear(self.encoder.config.hidden_size, len(config.id2label or {}))
        self.post_init()

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, token_type_ids: Tensor | None = None,
                labels: Tensor | None = None, return_dict: bool | None = None
                ) -> SequenceClassifierOutput | tuple[Tensor, ...]:
        """Return the logits (B, N) of token ids (B, L), and with labels (B,) the mean cross-entropy."""
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask.long()
        segments = {} if token_type_ids is None else {"token_type_ids": token_type_ids}
        states = self.encoder(input_ids=input_ids, attention_mask=mask, **segments).last_hidden_state  # (B, L, d)
        weights = mask.to(states.dtype).unsqueeze(-1)
        pooled = (states * weights).sum(1) / weights.sum(1).clamp(min=1.0)
        logits = self.classifier(self.dropout(pooled))
        loss = None if labels is None else nn.functional.cross_entropy(logits, labels)
        output = SequenceClassifierOutput(loss=loss, logits=logits)
        return output.to_tuple() if return_dict is False else output


# `save_pretrained` then copies this file beside the weights and names it in config.json.
MeanPooledConfig.register_for_auto_class()
MeanPooledForSequenceClassification.register_for_auto_class("AutoModelForSequenceClassification")
