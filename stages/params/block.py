"""The base of every params block."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from stages.params.presets import Presets, beneath, filled

# No number of the params is larger: what is larger was meant otherwise, and would overflow somewhere in mid-run.
_LARGEST = 2**31 - 1


class Block(BaseModel):
    """A block of params: unknown names are errors, values are checked, nothing is changed later."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=(), validate_default=True,
                              allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _numbers_are_numbers(cls, given: Any, info: ValidationInfo) -> Any:
        annotation = cls.model_fields[str(info.field_name)].annotation
        numbers = not _takes(annotation, bool) and (_takes(annotation, int) or _takes(annotation, float))
        for one in given if isinstance(given, list) else [given]:
            if numbers and isinstance(one, bool):
                raise ValueError(f"must be a number, found {str(one).lower()}")
            if isinstance(one, int | float) and _LARGEST < abs(one) < float("inf"):
                raise ValueError(f"must be at most {_LARGEST:,} in size, found {one:.6g}")
        return given

    def plain(self) -> dict[str, Any]:
        """Return a copy of dictionaries, lists and values alone, as stages read them."""
        return self.model_dump(mode="json")

    def under(self, own: Mapping[str, Any]) -> dict[str, Any]:
        """Return plain values for ``own``, what a data set, model or run has in another way, to be laid over."""
        return self.model_dump()


def _takes(annotation: Any, kind: type) -> bool:
    """Say whether values of ``kind`` fit an annotation, by what it names; a list counts as what it lists."""
    return annotation in (kind, Any) or any(_takes(inner, kind) for inner in get_args(annotation))


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
