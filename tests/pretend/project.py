"""Projects whose stages run on the pretend device."""

from contextlib import contextmanager
from unittest import mock

import torch
import yaml
from pretend.device import NAME, switched_on
from pretend.record import recording

from stages.common import device


@contextmanager
def stages_on_device():
    """Let stages that choose their device choose this one, and record what they do there."""
    deterministic = torch.are_deterministic_algorithms_enabled()
    with mock.patch.object(device, "accelerator", lambda: NAME), switched_on(), recording() as record:
        yield record
    torch.use_deterministic_algorithms(deterministic)


def change_params(folder, **blocks):
    """Lay ``blocks`` over ``params.yaml`` in ``folder``."""
    path = folder / "params.yaml"
    content = yaml.safe_load(path.read_text())
    for name, block in blocks.items():
        content[name] = {**content.get(name, {}), **block} if isinstance(block, dict) else block
    path.write_text(yaml.safe_dump(content))


def params_of(folder):
    """Return the content of ``params.yaml`` in ``folder``."""
    return yaml.safe_load((folder / "params.yaml").read_text())
