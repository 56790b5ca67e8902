"""Starting a rewriter from the weights of another one, whose words may be others (``init_from``)."""

import torch
from torch import Tensor

from models.pgkpr.base import Rewriter

# Modules that have a row for each token of the vocabulary.
_BY_TOKEN = ("embedder.words.", "generator.", "reconstruction.output.")


@torch.no_grad()
def init_from(model: Rewriter, other: Rewriter, places: Tensor) -> list[str]:
    """Copy into ``model`` what ``other`` has of the same name, and return the names of what stays as it was.

    Of a matrix with a row for each token, the rows of the tokens that both know are copied; the others stay as drawn.

    Args:
        model: fresh; changed in place.
        other: a trained model.
        places: the id that ``other`` has for each token of ``model`` (V,), -1 for a token that it lacks.

    Raises:
        ValueError: the other is of other sizes, or of a kind that shares nothing but rows of tokens.
    """
    own, theirs = dict(model.named_parameters()), dict(other.named_parameters())
    shared = {name: name.startswith(_BY_TOKEN) for name in own if name in theirs}
    unlike = [name for name, by_token in shared.items()  # of rows of tokens, but for how many there are
              if own[name].shape[int(by_token):] != theirs[name].shape[int(by_token):]]
    if unlike or all(shared.values()):
        raise ValueError(f"a model of architecture {other.config.architecture} and width "
                         f"{other.config.sizes.width} has nothing for one of {model.config.architecture} and width "
                         f"{model.config.sizes.width}")
    known = places >= 0
    for name, by_token in shared.items():
        if by_token:
            own[name][known] = theirs[name][places[known]].to(own[name].dtype)
        else:
            own[name].copy_(theirs[name])
    return [name for name in own if name not in shared]
