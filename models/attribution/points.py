"""Where a network is differentiated: the embedding of its word pieces (METHODS C.2)."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

Inputs = Mapping[str, Tensor]


class Lookup:
    """The word-embedding look-up, before position and type embeddings and normalisation."""

    def __init__(self, network: PreTrainedModel) -> None:
        self.network = network

    def value(self, inputs: Inputs) -> Tensor:
        """Return the embedding of each piece (B, L, d), without history."""
        with torch.no_grad():
            return self.network.get_input_embeddings()(inputs["input_ids"]).detach()

    def run(self, inputs: Inputs, embedding: Tensor) -> Any:
        """Return what the network gives with ``embedding`` (B, L, d) in place of its own look-up.

        Raises:
            ValueError: the network does not use its look-up.
        """
        used: list[bool] = []

        def replace(module: nn.Module, arguments: object, output: Tensor) -> Tensor:
            used.append(True)
            return embedding

        handle = self.network.get_input_embeddings().register_forward_hook(replace)
        try:
            output = self.network(**inputs)
        finally:
            handle.remove()
        if not used:
            raise ValueError("the classifier did not use get_input_embeddings(); there is nothing to differentiate")
        return output


class BlockOutput:
    """The output of the whole embedding block, fed in again as if it were word embeddings.

    Positions, types and normalisation are thereby applied twice, to a text that the network never saw in
    training: a bug of the released code of PGKPR, kept to reproduce it.
    """

    def __init__(self, network: PreTrainedModel) -> None:
        self.network = network
        self.block = getattr(getattr(network, "base_model", network), "embeddings", None)
        if self.block is None:
            raise ValueError(f"embedding: {type(network).__name__} has no embedding block to take the output of; "
                             f"use lookup")

    def value(self, inputs: Inputs) -> Tensor:
        """Return the block's output for each piece (B, L, d), without history."""
        with torch.no_grad():
            return self.block(**_without(inputs, "attention_mask")).detach()  # type: ignore[misc]

    def run(self, inputs: Inputs, embedding: Tensor) -> Any:
        """Return what the network gives with ``embedding`` (B, L, d) as ``inputs_embeds``."""
        return self.network(**_without(inputs, "input_ids"), inputs_embeds=embedding)


POINTS: dict[str, type[Lookup] | type[BlockOutput]] = {"lookup": Lookup, "block_output": BlockOutput}


def _without(inputs: Inputs, name: str) -> dict[str, Tensor]:
    return {key: value for key, value in inputs.items() if key != name}


@contextmanager
def at_rest(network: nn.Module) -> Iterator[None]:
    """Switch ``network`` to evaluation mode with frozen parameters, gradients on, and everything back afterwards.

    With frozen parameters a forward pass keeps only what the gradient by the embedding needs.
    """
    modes = [(part, part.training) for part in network.modules()]
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    network.eval()
    for parameter in trained:
        parameter.requires_grad_(False)
    try:
        with torch.enable_grad():
            yield
    finally:
        for parameter in trained:
            parameter.requires_grad_(True)
        for part, training in modes:
            part.training = training
