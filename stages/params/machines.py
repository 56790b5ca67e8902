"""Params of where and how stages work, and of where their tables are kept."""

from typing import Any, Literal

from pydantic import Field, model_validator

from stages.params.block import Block


class Runtime(Block):
    """What decides bytes (threads, deterministic, precision, tf32) and what does not (workers, device)."""

    threads: int = Field(1, ge=1, description="torch threads of one process; other counts give other weights")
    deterministic: bool = True
    workers: int = Field(1, ge=1, description="processes of one stage; any count gives the same bytes")
    device: Literal["auto", "cpu", "cuda"] = "auto"
    precision: Literal["fp32", "bf16"] = Field("fp32", description="of matrix products wherever nothing is "
                                                                   "trained; trainings say theirs in their blocks")
    tf32: bool = Field(False, description="GPUs round the factors of fp32 products to ten bits: faster, other bytes")
    processes: int = Field(1, ge=1, description="of one training (torchrun), each with a GPU where there is one; any "
                                                "count trains the same model up to the rounding of sums")
    checkpoint_minutes: float = Field(5.0, ge=0, description="between checkpoints of a training, which also takes one "
                                                             "after each epoch; never decides bytes")
    memory_gib: float = Field(4.0, gt=0, description="what joins over a whole corpus may take before they use the disk")


class Cluster(Block):
    """Where chunks of texts are worked on; never decides bytes. ``cluster: local`` stands for ``address: local``."""

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


class Artifacts(Block):
    """How tables that grow with the corpus are kept: in one file, in a folder of parts, or in parts elsewhere."""

    part_rows: int = Field(1 << 18, ge=1, description="rows after which a table goes on in another part; a table with "
                                                      "fewer is one file")
    url: str | None = Field(None, pattern=r"^[a-z0-9]+://.+$", description=(
        "where parts are kept, such as s3://bucket/corpus (also gs:, abfs:, file:); the table here then lists them by "
        "the hash of their content; null: in the table's own folder"))
