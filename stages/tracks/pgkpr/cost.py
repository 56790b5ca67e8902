"""What trainings of the PGKPR track cost, and sizes that fit a machine."""

from typing import TYPE_CHECKING, Any

from stages.tracks.cost import KEPT, Budget, Cost, Extent, Kind, Stack, Work, read_length, work_of

if TYPE_CHECKING:
    from stages.params import Params

# On one core the sample's PGKPR of width 64 trains on 480 pairs a second (records of recipe `sample`).
BUDGET = Budget({"few cores": 40_000, "many cores": 200_000}, epochs=35, batch=(16, 128))
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


def transformer_work(sizes: Any, training: Any, tokens: float, words: int, items: int, scored: int = 1,
                     layers: tuple[int, int] | None = None) -> Work:
    """Return the work of a Transformer of words.

    Args:
        sizes: its width, inner width and layers.
        training: block of that name.
        tokens: of a text.
        words: of the vocabulary.
        items: pairs of an epoch.
        scored: how often the vocabulary is scored at each token.
        layers: of encoder and decoder, where these are others than ``sizes`` has.
    """
    encoder, decoder = layers or (sizes.layers, sizes.layers)
    weights = sum(Stack(sizes.width, sizes.feed_forward, count, crossed=crossed).parameters
                  for count, crossed in ((encoder, False), (decoder, True)))
    return _words_work(weights, sizes.width, training, tokens, words, items, scored)


def _words_work(weights: float, width: int, training: Any, tokens: float, words: int, items: int,
                scored: int = 1) -> Work:
    return work_of(6 * tokens * (weights + scored * width * words), training, items, weights + width * words,
                   tokens * (KEPT * width * 4 + 3 * scored * words))


def _work(params: "Params", name: str, extent: Extent) -> Work:
    settings, items = params.model(name), params.paraphrase_items
    tokens, words, own = min(extent.words + 1, items.max_length), items.vocabulary, settings.architecture
    if own in ("residual_lstm", "latent_bow"):
        cells: Any = getattr(settings, own)
        return _words_work(2 * cells.layers * 8 * cells.width**2, cells.width, settings.training, tokens, words,
                           extent.train)
    layers = (2 * settings.ianet.encoder_layers, settings.ianet.decoder_layers) if own == "ianet" else None
    # PGKPR scores the vocabulary at the encoder too, and encodes the target for its contrast; it may go over each pair
    # with the keywords of either reading.
    passes = 2 if own == "pgkpr" and settings.keywords.by == "attribution" and (
        settings.keywords.train_scores == "both") else 1
    return transformer_work(settings.sizes, settings.training, tokens, words, extent.train * passes,
                            2 if own == "pgkpr" else 1, layers)


COST = Cost({"few cores": 2.5e10, "many cores": 2.5e10, "GPU": 3e12, "large GPU": 1e13}, _sizes, _work)
