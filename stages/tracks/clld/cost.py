"""What trainings of the CLLD track cost, and sizes that fit a machine."""

from typing import TYPE_CHECKING, Any

from stages.tracks.clld.rows import TEXTCNN, row_of, source_of
from stages.tracks.common import cost
from stages.tracks.common.cost import Cost, Extent, Kind, Work

if TYPE_CHECKING:
    from stages.params import Params

# On one core the sample's TextCNN trains on 2,700 texts a second (records of recipe `sample`); drawn from the others,
# not measured, is what an encoder takes. Up to 50 epochs, says the paper.
BUDGET = cost.Budget({"few cores": 12_000, "many cores": 60_000}, epochs=50, batch=(32, 128))
_OF_TEXTCNN = cost.Budget({"few cores": 200_000, "many cores": 1_000_000}, epochs=50, batch=(32, 128))
# Of encoders that train for fewer epochs than the paper's; TextCNN keeps its own.
_RATE: dict[Kind, float] = {"few cores": 5e-5, "many cores": 5e-5}
_VIEWS = {"none": 1, "supcl_seq": 4}  # of a text; two under the other contrasts


def _sizes(params: "Params", kind: Kind, extent: Extent) -> dict[str, Any]:
    sources, few = {source_of(params, name) for name in params.models.clld}, extent.train < cost.FEW_PAIRS
    budget = _OF_TEXTCNN if sources == {TEXTCNN} else BUDGET
    training: dict[str, Any] = {**budget.training(kind, extent), "bucket": True}
    if TEXTCNN not in sources and kind in _RATE:
        training["learning_rate"] = _RATE[kind]
    values = {"max_length": 2 + cost.read_length(extent.inputs, cost.PIECES_PER_WORD, kind), "training": training}
    if sources == {TEXTCNN} and few:
        values["textcnn"] = {"embedding": 100, "min_count": 1}
    return {"train_clld": values, **({"linear_floor": {"min_count": 1}} if few else {})}


def _work(params: "Params", name: str, extent: Extent) -> Work:
    settings, source = params.model(name), source_of(params, name)
    views = _VIEWS.get(row_of(params.models.clld[name].contrast, settings.ce_views), 2)
    tokens = min(extent.words * cost.PIECES_PER_WORD + 2, settings.max_length)
    if source == TEXTCNN:
        sizes = settings.textcnn
        filters = sizes.embedding * sizes.filters * sum(sizes.widths)
        parameters = filters + sizes.embedding * (sizes.vocabulary or 30_000)
        return cost.work_of(6 * tokens * views * filters, settings.training, extent.train, parameters,
                            tokens * views * sizes.filters * 3)
    return cost.encoder_work(source, settings.training, tokens * views, extent.train)


COST = Cost({"few cores": 6e10, "many cores": 6e10, "GPU": 5e12, "large GPU": 2e13}, _sizes, _work)
