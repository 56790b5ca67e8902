"""An S3 server of the package registry: in a thread, or a process of its own (``python -m s3_server HOST``)."""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BUCKET = "store"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1"}


@contextmanager
def s3_server(host: str = "127.0.0.1") -> Iterator[str]:
    """Serve an empty bucket ``store``, and yield the server's address; whoever reads it needs ``CREDENTIALS``."""
    import boto3
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address=host, port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{host}:{port}"
    try:
        client(boto3, address).create_bucket(Bucket=BUCKET)
        yield address
    finally:
        server.stop()


def client(boto3, address: str):
    return boto3.client("s3", endpoint_url=address, aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
                        aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
                        region_name=CREDENTIALS["AWS_DEFAULT_REGION"])


def objects(address: str) -> list[str]:
    """The names of all objects in the bucket."""
    import boto3

    return [one["Key"] for one in client(boto3, address).list_objects_v2(Bucket=BUCKET).get("Contents", ())]


def use_remote(project: Path, address: str) -> None:
    """Make the bucket the project's remote, as ``dvc remote add`` and ``dvc remote modify`` do."""
    config = project / ".dvc" / "config"
    config.write_text(config.read_text().replace("[core]\n", "[core]\n    remote = store\n") + (
        f"['remote \"store\"']\n    url = s3://{BUCKET}/dvc\n    endpointurl = {address}\n"))


def credentials(patch) -> None:
    for name, value in CREDENTIALS.items():
        patch.setitem(os.environ, name, value)


if __name__ == "__main__":
    with s3_server(sys.argv[1]) as found:
        print(found, flush=True)
        sys.stdin.read()        # until whoever started it has ended
