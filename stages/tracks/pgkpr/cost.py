"""What trainings of the PGKPR track cost, and sizes that fit a machine."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stages.tracks.common.cost import KEPT, Budget, Cost, Extent, Kind, Stack, Work, read_length, work_of

if TYPE_CHECKING:
    from stages.params import Params

# On one core the sample's PGKPR of width 64 trains on 480 pairs a second (records of recipe `sample`).
BUDGET = Budget({"few cores": 40_000, "many cores": 200_000}, epochs=35, batch=(16, 128))
_READING = ("pgkpr", "ianet")   # architectures that read keywords
_IANET = {"encoder_layers": 1, "decoder_layers": 2}
_SIZES: dict[Kind, dict[str, Any]] = {
    "few cores": {"sizes": {"layers": 1, "heads": 4, "width": 128, "feed_forward": 256},
                  "residual_lstm": {"width": 128}, "latent_bow": {"width": 128}, "ianet": _IANET,
                  "training": {"learning_rate": 1e-3}},
    "many cores": {"sizes": {"layers": 2, "heads": 4, "width": 256, "feed_forward": 512},
                   "residual_lstm": {"width": 256}, "latent_bow": {"width": 256}, "ianet": _IANET,
                   "training": {"learning_rate": 1e-3}},
    "GPU": {}, "large GPU": {}}


def _sizes(params: "Params", kind: Kind, extent: Extent) -> dict[str, Any]:
    # Punctuation is a word of its own here.
    longest = read_length(max(extent.inputs, extent.outputs) + 1, 1.0, kind)
    training = {**_SIZES[kind].get("training", {}), **BUDGET.training(kind, extent, passes=2)}
    return {"train_pgkpr": {**_SIZES[kind], "training": training}, "paraphrase_items": {"max_length": longest},
            "generate_pgkpr": {"max_length": longest}}


def _transformer(sizes: Any, encoder: int, decoder: int) -> float:
    return sum(Stack(sizes.width, sizes.feed_forward, layers, crossed=crossed).parameters
               for layers, crossed in ((encoder, False), (decoder, True)))


def _of_shape(sizes: Any, own: Any) -> tuple[float, int, int]:
    """Return the formula's values of a plain architecture: a Transformer if it has inner layers, else LSTMs."""
    if hasattr(own, "feed_forward"):
        return _transformer(own, own.layers, own.layers), own.width, 1
    return 2 * getattr(own, "layers", 1) * 8 * own.width**2, own.width, 1


# From ``sizes`` and a block of its own: weights, width, and how often a token scores the vocabulary. An architecture
# that `_of_shape` tells rightly needs no line.
_FORMULAS: dict[str, Callable[[Any, Any], tuple[float, int, int]]] = {
    # It scores the vocabulary at the encoder too, and encodes the target for its contrast.
    "pgkpr": lambda sizes, own: (_transformer(sizes, sizes.layers, sizes.layers), sizes.width, 2),
    # One stack over both texts.
    "dialogpt": lambda sizes, own: (_transformer(own, 2 * own.layers, 0), own.width, 1),
    "simctg": lambda sizes, own: (_transformer(own, 2 * own.layers, 0), own.width, 1),
    # Its views are made from the words' scores: three more times, without the weights' gradients.
    "t5_claps": lambda sizes, own: (_transformer(own, own.layers, own.layers), own.width, 3),
    # Two encoders.
    "ianet": lambda sizes, own: (_transformer(sizes, 2 * own.encoder_layers, own.decoder_layers), sizes.width, 1)}


def words_work(architecture: str, sizes: Any, own: Any, training: Any, tokens: float, words: int, items: int) -> Work:
    """Return the work of a rewriter of words, whichever track trains it.

    Args:
        architecture: its name.
        sizes: of a Transformer.
        own: sizes in a block of the architecture's name; ``sizes`` where there is none.
        training: block of that name.
        tokens: of a text.
        words: of the vocabulary.
        items: pairs of an epoch.
    """
    weights, width, scored = _FORMULAS.get(architecture, _of_shape)(sizes, own)
    return work_of(6 * tokens * (weights + scored * width * words), training, items, weights + width * words,
                   tokens * (KEPT * width * 4 + 3 * scored * words))


def _work(params: "Params", name: str, extent: Extent) -> Work:
    settings, items = params.model(name), params.paraphrase_items
    # PGKPR may go over each pair with the keywords of either reading; PSI has one, and is IANet's own.
    by_psi = settings.keywords.by == "psi" or (settings.architecture, settings.keywords.by) == ("ianet", "attribution")
    passes = 2 if settings.architecture in _READING and not by_psi and settings.keywords.train_scores == "both" else 1
    return words_work(settings.architecture, settings.sizes, getattr(settings, settings.architecture, settings.sizes),
                      settings.training, min(extent.words + 1, items.max_length), items.vocabulary,
                      extent.train * passes)


COST = Cost({"few cores": 5e10, "many cores": 5e10, "GPU": 3e12, "large GPU": 1e13}, _sizes, _work)
