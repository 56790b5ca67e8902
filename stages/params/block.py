"""The base of every params block."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from stages.params.presets import Presets, beneath, filled


class Block(BaseModel):
    """A block of params: unknown names are errors, values are checked, nothing is changed later."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=(), validate_default=True)

    def plain(self) -> dict[str, Any]:
        """Return a copy of dictionaries, lists and values alone, as stages read them."""
        return self.model_dump(mode="json")

    def under(self, own: Mapping[str, Any]) -> dict[str, Any]:
        """Return plain values for ``own``, what a data set, model or run has in another way, to be laid over."""
        return self.model_dump()


def _distinct(seeds: list[int]) -> list[int]:
    if twice := sorted({seed for seed in seeds if seeds.count(seed) > 1}):
        raise ValueError(f"{twice[0]} is there twice; name each seed once")
    return seeds


# Of a model, each of which trains it once; `seeds` that are null are the project's one.
Seeds = Annotated[list[Annotated[int, Field(ge=0)]], AfterValidator(_distinct)]
SEEDS = "the model is trained once with each; null: the project's one"


class Switches(Block):
    """A block whose ``preset`` sets some of its switches at once; ``presets`` has their values, nested like it."""

    presets: ClassVar[Presets] = {}

    @model_validator(mode="before")
    @classmethod
    def _preset_fills(cls, content: Any) -> Any:
        return filled(content, cls.presets)

    def under(self, own: Mapping[str, Any]) -> dict[str, Any]:
        """Return plain values for ``own`` to be laid over: with a preset among these, its switches come first.

        Without that, the values that this block has spelt out would contradict the preset of a single model.

        Raises:
            ValueError: they contradict the preset of this block.
        """
        return beneath(self.model_dump(), own, self.presets)
