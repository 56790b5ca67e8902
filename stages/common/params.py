"""The base of every params block, presets, and the blocks that all stages share."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from stages.common.settings import NOTHING, laid_over

# Names become folders and parts of dotted names of params, so they have no dots.
Name = Annotated[str, Field(pattern="^[a-z0-9][a-z0-9_-]*$", max_length=100)]
# No sensible number is larger, and larger ones would overflow in the middle of a run.
_LARGEST = 2**31 - 1

Presets = Mapping[str, Mapping[str, Any]]


class Block(BaseModel):
    """A block of params, which refuses unknown names and cannot be changed."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=(), validate_default=True,
                              allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _numbers_are_numbers(cls, given: Any, info: ValidationInfo) -> Any:
        annotation = cls.model_fields[str(info.field_name)].annotation
        numbers = not _takes(annotation, bool) and (_takes(annotation, int) or _takes(annotation, float))
        for value in given if isinstance(given, list) else [given]:
            if numbers and isinstance(value, bool):
                raise ValueError(f"must be a number, found {str(value).lower()}")
            if isinstance(value, int | float) and _LARGEST < abs(value) < float("inf"):
                raise ValueError(f"must be at most {_LARGEST:,} in size, found {value:.6g}")
        return given

    def plain(self) -> dict[str, Any]:
        """Return a copy made of dictionaries, lists and values alone, as stages read it."""
        return self.model_dump(mode="json")

    def under(self, own: Mapping[str, Any]) -> dict[str, Any]:
        """Return the plain values that a data set, model or run replaces by its ``own``."""
        return self.model_dump()


def _takes(annotation: Any, kind: type) -> bool:
    """Return whether an annotation names ``kind``; a list is judged by its items."""
    return annotation in (kind, Any) or any(_takes(inner, kind) for inner in get_args(annotation))


def _distinct(values: list[Any]) -> list[Any]:
    if repeated := sorted({value for value in values if values.count(value) > 1}):
        raise ValueError(f"{repeated[0]} is there twice; name each once")
    return values


# DVC makes an instance of the block's stages for each.
Datasets = Annotated[list[Name], AfterValidator(_distinct)]
Seeds = Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1), AfterValidator(_distinct)]

SEEDS = "the model is trained once with each; null: the project's one"


class Switches(Block):
    """A block whose ``preset`` sets several of its switches; ``presets`` has their values, nested like the block."""

    presets: ClassVar[Presets] = {}

    @model_validator(mode="before")
    @classmethod
    def _preset_fills(cls, content: Any) -> Any:
        """Fill in the switches of a known preset; the block validates everything else."""
        preset = content.get("preset") if isinstance(content, Mapping) else None
        if not isinstance(preset, str) or preset not in cls.presets:
            return content
        if clashes := list(_clashes(content, cls.presets[preset], "")):
            raise ValueError(f"preset {preset} contradicts {len(clashes)} of the switches beside it: "
                             f"{'; '.join(clashes)}. Take these out, or set preset to null.")
        return laid_over(cls.presets[preset], content)

    def under(self, own: Mapping[str, Any]) -> dict[str, Any]:
        """Return the plain values that ``own`` replaces; if ``own`` names a preset, its switches are filled in first.

        Otherwise the values of this block would contradict the preset of a single model. A ValueError is raised if
        ``own`` contradicts the preset of this block without setting it to null.
        """
        block = self.model_dump()
        preset = block["preset"]
        if preset is not None and "preset" not in own and (clashes := list(_clashes(own, self.presets[preset], ""))):
            raise ValueError(f"preset {preset} of all models contradicts {len(clashes)} of the switches here: "
                             f"{'; '.join(clashes)}. Add `preset: null` to these overrides, and they change the "
                             f"preset's switches for this model; or take them out.")
        return laid_over(block, self.presets.get(str(own.get("preset")), {}))


def _clashes(content: Mapping[str, Any], switches: Mapping[str, Any], place: str) -> Iterator[str]:
    for name, value in switches.items():
        if name not in content:
            continue
        given = content[name]
        if isinstance(value, Mapping) and isinstance(given, Mapping):
            yield from _clashes(given, value, f"{place}{name}.")
        elif not isinstance(value, Mapping) and given != value:
            yield f"{place}{name} is {given!r} where the preset has {value!r}"


class Runtime(Block):
    """How stages compute; threads, deterministic, precision and tf32 decide bytes, the others do not."""

    threads: int = Field(1, ge=1, description="torch threads of one process; other counts give other weights")
    deterministic: bool = True
    workers: int = Field(1, ge=1, description="processes of one stage; any count gives the same bytes")
    device: Literal["auto", "cpu", "cuda"] = "auto"
    precision: Literal["fp32", "bf16"] = Field("fp32", description="of matrix products in stages that do not "
                                                                   "train; each training sets its own in its block")
    tf32: bool = Field(False, description="GPUs round the factors of fp32 products to ten bits: faster, other bytes")
    processes: int = Field(1, ge=1, description="of one training (torchrun), each with a GPU where there is one; any "
                                                "count trains the same model up to the rounding of sums")
    checkpoint_minutes: float = Field(5.0, ge=0, description="minutes between checkpoints of a training, which also "
                                                             "saves one after each epoch; does not change bytes")
    memory_gib: float = Field(4.0, gt=0, description="memory of joins over a whole corpus before they spill to disk")


class Cluster(Block):
    """The Dask cluster that makes parts of tables, with the same bytes; ``cluster: local`` means ``address: local``."""

    address: str | None = Field(None, description="of a Dask scheduler, such as tcp://host:8786; local starts one with "
                                                  "runtime.workers; null: own processes")
    scheduler_file: str | None = Field(None, description="that `dask scheduler --scheduler-file` writes, in place of "
                                                         "`address`")
    connect_timeout: float = Field(60.0, gt=0, description="seconds in which a scheduler must answer and have a "
                                                           "worker; more where workers wait in a queue")

    @model_validator(mode="before")
    @classmethod
    def _local_is_an_address(cls, content: Any) -> Any:
        return {"address": content} if content == "local" else content

    @model_validator(mode="after")
    def _one_scheduler(self) -> "Cluster":
        if self.address is not None and self.scheduler_file is not None:
            raise ValueError("both address and scheduler_file name a scheduler; leave one of them out")
        return self


class Encoder(Block):
    """The pre-trained text encoder."""

    source: str = Field("bundled", pattern=r"^(bundled|scratch|hub:.+|path|characters)$", description=(
        "hub:ID is the current version on the hub, hub:ID@COMMIT a fixed one, as in every param that takes hub:ID; "
        "path: the folder `path`; characters: the same, for an encoder made by stage character_encoder"))
    path: str = Field(NOTHING, description="a folder that save_pretrained has written, or "
                                           "artifacts/data/NAME/character_encoder")
