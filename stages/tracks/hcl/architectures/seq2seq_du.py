"""Seq2Seq-DU over the encoder, adapted (docs/hcl.md)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from keycontrast.errors import InputError
from models.common.encoders import freeze_lower_layers, load_encoder
from models.hcl.baselines.seq2seq_du import Seq2SeqDu
from stages.common.encoders import resolve_encoder
from stages.common.schemas import NO_KEYWORD
from stages.tracks.hcl.architecture import HclRow
from stages.tracks.hcl.piece_baselines import Making, Start, of_encoder, of_pieces


def _start(row: HclRow, sizes: Mapping[str, Any]) -> Start:
    """Return the start of a model that begins with the encoder, and knows the keyword of every source."""
    encoder, found = resolve_encoder(row.encoder), of_encoder(row, sizes)
    items, train = row.items, row.items[row.items["split"] == "train"]
    named = items[items["keyword"] != NO_KEYWORD]
    further = {"keywords": dict(zip(named["source"], named["keyword"], strict=True)),
               "lexicon": sorted((set(train["keyword"]) | set(train["target_keyword"])) - {NO_KEYWORD})}
    return replace(found, described={"encoder": encoder.description}, further=further,
                   location=str(encoder.location) if encoder.pretrained else None,
                   said=f"encoder {encoder.description['name']}, the rest from scratch")


def _built(making: Making) -> Seq2SeqDu:
    config, location = making.config(), making.start.location
    tokenizer = making.start.tokenizer
    pretrained, _ = load_encoder(tokenizer.name_or_path, pretrained=location is not None)
    config.encoder = pretrained.config.to_dict()
    model = Seq2SeqDu(config)
    model.encoder.load_state_dict(pretrained.state_dict())
    try:
        freeze_lower_layers(model.encoder, making.training["freeze_layers"])
    except ValueError as error:
        raise InputError(f"train_hcl.training.freeze_layers: {error}.") from error
    return model


ARCHITECTURE = of_pieces("seq2seq_du", "Seq2Seq-DU, adapted", __name__, _built, _start)
