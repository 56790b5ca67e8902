"""Baselines of HCL's table that read and write word pieces, by the names that the params give them."""

from pathlib import Path
from typing import Any

from models.hcl.baselines.pieces import GroupWise, PieceTransformer
from models.hcl.baselines.pretrained import T5, DialoGpt, SimCtg, T5Claps
from models.hcl.baselines.recurrent import Cvae, PointerSeq2Seq, Seq2SeqDu

# Each a ``PieceModel`` beside a ``PreTrainedModel``.
MODELS: dict[str, Any] = {
    "cvae": Cvae, "seq2seq": PointerSeq2Seq, "transformer": PieceTransformer, "seq2seq_du": Seq2SeqDu,
    "group_wise": GroupWise, "dialogpt": DialoGpt, "simctg": SimCtg, "t5": T5, "t5_claps": T5Claps}


def load_pieces(folder: str | Path, architecture: str) -> Any:
    """Return the model that ``save_pretrained`` wrote into ``folder``, in evaluation mode.

    Raises:
        OSError: there is none.
        KeyError: the architecture is unknown.
    """
    model = MODELS[architecture].from_pretrained(folder).eval()
    # Weights that are mapped from a file lie there at any address; some products round otherwise from an odd one than
    # where torch allocates, and a model is to give the same bits before it was saved and after.
    for weight in (*model.parameters(), *model.buffers()):
        weight.data = weight.data.clone()
    return model
