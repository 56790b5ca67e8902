"""Configuration of the rewriters: the plain values that ``config.json`` of a saved model holds."""

from collections.abc import Mapping
from typing import Any

from transformers import PretrainedConfig

from models.common.former import without_former
from models.common.special import BOS, EOS, PAD

ARCHITECTURES = ("pgkpr", "transformer", "residual_lstm", "latent_bow", "ianet")

# Group by group what a model needs to know of itself; keys and defaults are those of the params block `train_pgkpr`.
_GROUPS: dict[str, dict[str, Any]] = {
    "sizes": {"layers": 6, "heads": 8, "width": 512, "feed_forward": 2048, "dropout": 0.1, "inner_dropout": False},
    "source": {"wrapped": False},
    "reconstruction": {"weight": 1.0, "reduction": "token_mean"},
    "contrast": {"weight": 0.1, "neg": "targets", "sim": "cosine", "order": "pos_sent"},
    "residual_lstm": {"width": 512, "dropout": 0.1},
    "latent_bow": {"width": 500, "memory": 11, "dropout": 0.6, "gumbel": False},
    "ianet": {"encoder_layers": 3, "decoder_layers": 4, "embeddings": "shared", "norms": "shared"},
}

# What models of earlier versions hold besides.
_FORMER: dict[str, dict[str, Any]] = {
    "contrast": {"temperature": 0.1},
    "residual_lstm": {"layers": 4, "residual_every": 2, "attention": True},
    "latent_bow": {"layers": 2, "bags": 3, "weight": 1.0, "temperature": 0.5},
}

_CHOICES: dict[tuple[str, str], tuple[str, ...]] = {
    ("reconstruction", "reduction"): ("token_mean", "sent_mean"),
    ("contrast", "neg"): ("targets", "all"),
    ("contrast", "sim"): ("cosine", "dot"),
    ("contrast", "order"): ("pos_sent", "sent_pos"),
    ("ianet", "embeddings"): ("shared", "separate"),
    ("ianet", "norms"): ("shared", "separate"),
}


class RewriterConfig(PretrainedConfig):
    """Configuration of every :class:`models.pgkpr.base.Rewriter`.

    The groups are plain dicts with the keys of the params block ``train_pgkpr``; missing keys take the defaults of
    that block. A model reads the groups of its own architecture.

    Args:
        architecture: one of ``ARCHITECTURES``.
        vocab_size: special tokens, tags and words.
        max_words: words of a text that the model reads and was taught; the rest is cut.
        sizes: of a Transformer.
        source: how its encoders read sources.
        reconstruction: weight and reduction of the reconstruction of tags and keywords (pgkpr).
        contrast: weight and switches of the contrast between sentences (pgkpr).
        residual_lstm: width and dropout of a residual_lstm.
        latent_bow: sizes and bag of a latent_bow.
        ianet: layers, embeddings and norms of an ianet.

    Raises:
        ValueError: the architecture or a switch is unknown, a vocabulary of no token, or a setting of an earlier
            version that the code no longer has.
    """

    model_type = "keycontrast-rewriter"

    def __init__(
        self,
        architecture: str = "pgkpr",
        vocab_size: int = 8000,
        max_words: int = 17,
        sizes: Mapping[str, Any] | None = None,
        source: Mapping[str, Any] | None = None,
        reconstruction: Mapping[str, Any] | None = None,
        contrast: Mapping[str, Any] | None = None,
        residual_lstm: Mapping[str, Any] | None = None,
        latent_bow: Mapping[str, Any] | None = None,
        ianet: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self.architecture = architecture
        self.vocab_size = vocab_size
        self.max_words = max_words
        given = without_former({"sizes": sizes, "source": source, "reconstruction": reconstruction,
                                "contrast": contrast, "residual_lstm": residual_lstm, "latent_bow": latent_bow,
                                "ianet": ianet}, _FORMER)
        groups = {name: defaults | dict(given[name] or {}) for name, defaults in _GROUPS.items()}
        self.sizes, self.source = groups["sizes"], groups["source"]
        self.reconstruction, self.contrast = groups["reconstruction"], groups["contrast"]
        self.residual_lstm, self.latent_bow = groups["residual_lstm"], groups["latent_bow"]
        self.ianet = groups["ianet"]
        kwargs.update(pad_token_id=PAD, bos_token_id=BOS, eos_token_id=EOS, tie_word_embeddings=False)
        self._check()
        super().__init__(**kwargs)

    @classmethod
    def from_params(cls, values: Mapping[str, Any], vocab_size: int, max_length: int) -> "RewriterConfig":
        """Build the configuration from the plain values of the params block ``train_pgkpr``.

        Args:
            values: the block as nested plain values (``TrainPgkpr.model_dump()``); what only training reads is left.
            vocab_size: special tokens, tags and words.
            max_length: becomes ``max_words``; ``transformers`` keeps the name for itself.
        """
        groups = {name: values[name] for name in _GROUPS if name in values}
        return cls(values["architecture"], vocab_size, max_length, **groups)

    def _check(self) -> None:
        problems = []
        if self.architecture not in ARCHITECTURES:
            problems.append(f"architecture is {self.architecture!r}, expected one of {', '.join(ARCHITECTURES)}")
        if self.vocab_size < 1:
            problems.append(f"vocab_size is {self.vocab_size}, expected 1 or more")
        for (group, key), valid in _CHOICES.items():
            if (value := getattr(self, group)[key]) not in valid:
                problems.append(f"{group}.{key} is {value!r}, expected one of {', '.join(valid)}")
        if problems:
            raise ValueError("RewriterConfig: " + "; ".join(problems))
