"""What the results document says of PGKPR alone: settings, pairs and words, validation losses."""

from collections.abc import Sequence

from pipeline.markdown import escaped, table
from pipeline.results_hcl import ordinary
from pipeline.results_run import Material, percent, sizes
from pipeline.results_tables import NOTHING, worth
from stages.artifacts.schemas import SPLITS
from stages.results.model import Block, Model
from stages.runtime.settings import Params
from stages.tracks.pgkpr.architectures import ARCHITECTURES

TRAININGS = "validation losses of PGKPR's models"
_ORDINARY = ("Of whole references and real words. Corpus BLEU is cumulative and unsmoothed. py-rouge pools counts over "
             "the references, ROUGE without a name beside it is rouge_score's, with the best reference.")


def settings(params: Params) -> str:
    """Return what all models share."""
    block, items = params.train_pgkpr, params.paraphrase_items
    shape, training = block.sizes, block.training
    return (f"Transformers of {shape.layers} + {shape.layers} layers, {shape.heads} heads and widths {shape.width} and "
            f"{shape.feed_forward}; keyword scores of training: {escaped(block.keywords.train_scores)}; at most "
            f"{items.vocabulary:,} words in the vocabulary, {items.max_length} words of a text read; at most "
            f"{training.epochs} epochs of batches of {training.batch_size}, {_rates(params)}")


def _rates(params: Params) -> str:
    """Return the learning rate of the recipe; where it leaves that open, those of the architectures that rows have."""
    rate = params.train_pgkpr.training.learning_rate
    if rate is not None:
        return f"learning rate {rate:g}"
    by_rate: dict[float, list[str]] = {}
    for architecture in dict.fromkeys(params.model(name).architecture for name in params.models.pgkpr):
        by_rate.setdefault(ARCHITECTURES[architecture].rate, []).append(escaped(architecture))
    return "learning rates " + ", ".join(f"{rate:g} ({', '.join(names)})" for rate, names in by_rate.items())


def counts(material: Material, block: Block) -> list[str]:
    """Return how many pairs and words there are, and how many words models cannot read."""
    items = material.counts[block.dataset].get("paraphrase_items", {})
    own = items.get(block.split, {})
    pairs = sum(items.get(split, {}).get("pairs", 0) for split in SPLITS)
    said = [f"{percent(own[side]['outside_vocabulary'])} of the words of its {side}s are outside of it, and "
            f"{percent(own[side]['cut'])} are cut" for side in ("source", "target") if side in own]
    keywords = own.get("expected_keywords", {}).get("xx")
    if keywords is not None:
        said.append(f"{keywords:.1f} keywords of a source are expected by attribution")
    return [f"**{escaped(block.dataset)}**: {sizes(material, block)} items, each with its references {pairs:,} pairs; "
            f"{items['vocabulary']['words']:,} words and {items['vocabulary']['tags']:,} tags in the vocabulary. Of "
            f"{block.split}: {'; '.join(said)}."]


def reading(block: Block) -> str:
    """Return what the main metrics are."""
    cut = block.settings.get("reference_words", "?")
    return ("All times 100. BLEU-n is cumulative corpus BLEU without smoothing, ROUGE is F1 as py-rouge counts it; "
            f"both under the released normalisation: references are cut to {cut} words, and words outside the "
            "vocabulary become [unk], which counts as a match (the next table has them raw). Source BLEU compares an "
            "output with its own source; iBLEU weighs BLEU with 0.8 and source BLEU with -0.2, both raw. Keywords "
            "kept: share of the source's keywords, by attribution from the source alone, that the output shows.")


def beside(block: Block) -> str:
    """Return how far the published rows may be compared with ours."""
    return ("*Paper* rows are as published. **They are not comparable at this scale**: other amounts of training data, "
            "smaller models, less training, other tokens, other test items.")


def sections(material: Material, block: Block) -> list[tuple[str, list[str]]]:
    """Return the sections after the main table: title and lines."""
    return [("ordinary metrics", ordinary(block, _ORDINARY)),
            ("what each part is worth", worth(block, material.params.compare.level))]


def trainings(models: Sequence[Model]) -> list[str]:
    """Return the parts of the validation loss, at the epoch that was kept."""
    parts = ("loss", "generation", "reconstruction", "contrast", "bow")
    rows = [[escaped(model.name), *at_best(model, parts)] for model in models]
    return ["On validation, at the epoch that was kept, in nats: generation per word of the target, reconstruction per "
            "token of the two-part input, contrast and bag of words per pair; the loss is their weighted sum.", "",
            *table(["model", *parts], rows)]


def at_best(model: Model, names: Sequence[str]) -> list[str]:
    """Return what validation said at the epoch that was kept."""
    values = (model.kept.get(f"validation_{name}") for name in names)
    return [NOTHING if value is None or value != value else f"{value:.4f}" for value in values]
