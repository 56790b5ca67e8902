"""The base of every params block."""

from pydantic import BaseModel, ConfigDict


class Block(BaseModel):
    """A block of params: unknown names are errors, values are checked, nothing is changed later."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=(), validate_default=True)
