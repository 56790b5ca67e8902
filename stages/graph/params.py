"""Params of the keyword graph and of its initial vectors."""

from typing import Any, ClassVar, Literal

from pydantic import Field

from stages.common.params import Block, Datasets, Presets, Switches

# HCL section 3.2.2 has no caps, and links no input keywords; texts that "contain the same keyword" are a cluster.
_GRAPH_PRESETS: dict[str, dict[str, Any]] = {
    "paper": {"cluster_by": "contains", "max_neighbours": None, "max_cluster_outputs": None, "link_inputs": False}}


class Graph(Switches):
    """The keyword graph (HCL section 3.2.2)."""

    presets: ClassVar[Presets] = _GRAPH_PRESETS

    datasets: Datasets = Field([], description="of keywords.datasets; phrase graphs of all, keyword graphs of pairs")
    preset: Literal["paper"] | None = Field(None, description="paper: clusters by containment, no links of inputs, no "
                                                              "caps")
    cluster_by: Literal["top", "contains"] = Field("top", description="top: a cluster has the inputs with its keyword; "
                                                                      "contains: all that contain it, word by word")
    max_neighbours: int | None = Field(16, ge=1, description="kept per node and sign, by count; null keeps all")
    max_cluster_outputs: int | None = Field(512, ge=1, description="distinct outputs kept per cluster, by count; null "
                                                                   "keeps all")
    link_inputs: bool = True
    resolution: float = Field(1.0, gt=0, description="of the communities: higher gives more and smaller ones")


class NodeVectors(Block):
    """Initial node vectors (HCL section 3.2.2)."""

    datasets: Datasets = Field([], description="of graph.datasets; those that models.hcl names")
    pooling: Literal["mean", "cls"] = "mean"
    batch_size: int = Field(64, ge=1)
    max_length: int = Field(128, ge=8)
