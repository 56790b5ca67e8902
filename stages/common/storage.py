"""Files in a bucket or on a shared disk, by URL, through fsspec: S3, Google Cloud, Azure, or a folder.

    place = keep_file(Path("part.parquet"), "s3://bucket/corpus")     # s3://bucket/corpus/<sha256>.parquet
    fetch(place)

A file is named by the hash of its content, appears whole or not at all, and is never altered; so nothing that is kept
here is ever out of date, and one that is there already is not sent again. Credentials and further addresses come from
the environment, as each library reads them (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, GOOGLE_APPLICATION_CREDENTIALS, ...).
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from stages.common.fingerprint import sha256_of
from stages.run.errors import InputError, nearest

# What reads URLs of a kind, by the extra or the package that brings it.
_PACKAGES = {"s3": "keycontrast[s3]", "s3a": "keycontrast[s3]", "gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs",
             "az": "adlfs"}
# Their errors, beside those of the system, come from these.
_LIBRARIES = ("botocore", "aiobotocore", "aiohttp", "gcsfs", "google", "azure", "adlfs")


def is_url(place: str) -> bool:
    """Whether ``place`` is a URL and no path."""
    return "://" in place


def keep_file(file: Path, url: str) -> tuple[str, str]:
    """Copy ``file`` below ``url`` under the hash of its content, unless it is there; return its URL and its SHA-256.

    Raises:
        InputError: ``url`` cannot be used.
    """
    digest = sha256_of(file)
    place = f"{url.rstrip('/')}/{digest}{file.suffix}"
    with _reaching(url):
        system, path = _system(url), _inner(place)
        if system.exists(path) and system.size(path) == file.stat().st_size:
            return place, digest
        if _is_local(system):  # a copy of a file can be cut short, an upload cannot
            system.makedirs(system._parent(path), exist_ok=True)
            begun = f"{path}.{os.getpid()}.tmp"
            system.put_file(str(file), begun)
            Path(begun).replace(path)
        else:
            system.put_file(str(file), path)
    return place, digest


def fetch(place: str) -> bytes:
    """Return the content of the file at a URL.

    Raises:
        InputError: it is not there, or the place cannot be reached.
    """
    with _reaching(place):
        try:
            found: bytes = _system(place).cat_file(_inner(place))
        except FileNotFoundError as error:
            raise InputError(f"{place}: not there any more. Bring it back, or remove the table that names it and run "
                             f"its stage again.") from error
    return found


def filesystem_of(place: str) -> tuple[Any, str]:
    """Return the fsspec file system of a URL, and the name that it has there, for libraries that read such.

    Raises:
        InputError: nothing installed reads its kind.
    """
    return _system(place), _inner(place)


@contextmanager
def _reaching(url: str) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        # Libraries have errors of many kinds here, and some that are no OSError; what is none of theirs goes on.
        origin = type(error).__module__.partition(".")[0]
        if not isinstance(error, OSError) and origin not in _LIBRARIES:
            raise
        raise InputError(f"artifacts.url: {url} cannot be used ({type(error).__name__}: "
                         f"{' '.join(str(error).split())[:200]}). Check its name, the credentials in the environment "
                         f"and the network, or set artifacts.url to null to keep tables in this folder.") from error


def _system(url: str) -> Any:
    return _system_of(url.partition("://")[0])


@cache
def _system_of(kind: str) -> Any:
    import fsspec

    try:
        # No cache of listings: others write there too.
        return fsspec.filesystem(kind, use_listings_cache=False)
    except ImportError as error:
        raise InputError(f"artifacts.url: {kind}:// cannot be read here ({error}). Install what reads it: pip install "
                         f"'{_PACKAGES.get(kind, 'the fsspec package of ' + kind)}'.") from error
    except ValueError as error:  # a kind of which fsspec has never heard
        raise InputError(f"artifacts.url: {kind}:// cannot be read here, "
                         f"{nearest(kind, [*_PACKAGES, 'file'])}") from error


def _inner(place: str) -> str:
    return str(_system(place)._strip_protocol(place))


def _is_local(system: Any) -> bool:
    return "file" in (system.protocol if isinstance(system.protocol, tuple) else (system.protocol,))
