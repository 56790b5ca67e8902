"""From an architecture's name to the class of its model."""

from pathlib import Path
from typing import Any


def model_class(architecture: str) -> Any:
    """Return the class of an architecture: a ``PieceModel`` beside a ``PreTrainedModel``.

    Raises:
        ValueError: the architecture is unknown.
    """
    # imported when asked for: a model loads the modules of its own architecture alone
    if architecture == "transformer":
        from models.hcl.baselines.transformer import PieceTransformer

        return PieceTransformer
    if architecture == "dialogpt":
        from models.hcl.baselines.dialogpt import DialoGpt

        return DialoGpt
    if architecture == "simctg":
        from models.hcl.baselines.simctg import SimCtg

        return SimCtg
    if architecture == "t5":
        from models.hcl.baselines.t5 import T5

        return T5
    if architecture == "t5_claps":
        from models.hcl.baselines.claps import T5Claps

        return T5Claps
    if architecture == "seq2seq":
        from models.hcl.baselines.seq2seq import PointerSeq2Seq

        return PointerSeq2Seq
    if architecture == "seq2seq_du":
        from models.hcl.baselines.seq2seq_du import Seq2SeqDu

        return Seq2SeqDu
    if architecture == "cvae":
        from models.hcl.baselines.cvae import Cvae

        return Cvae
    if architecture == "group_wise":
        from models.hcl.baselines.group_wise import GroupWise

        return GroupWise
    raise ValueError(f"no baseline of word pieces is called {architecture!r}")


def load_pieces(folder: str | Path, architecture: str) -> Any:
    """Return the model that ``save_pretrained`` wrote into ``folder``, in evaluation mode.

    Raises:
        OSError: there is none.
        ValueError: the architecture is unknown.
    """
    model = model_class(architecture).from_pretrained(folder).eval()
    # Weights that are mapped from a file lie there at any address; some products round otherwise from an odd one than
    # where torch allocates, and a model is to give the same bits before it was saved and after.
    for weight in (*model.parameters(), *model.buffers()):
        weight.data = weight.data.clone()
    return model
