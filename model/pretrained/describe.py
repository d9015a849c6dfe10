"""What a name or folder holds, from its config alone: to show what loading it takes before it is loaded."""

from __future__ import annotations

import os
from dataclasses import dataclass

from model.accounting import count_parameters
from model.config import GPTConfig
from model.pretrained.configs import read_config
from model.pretrained.sources import locate


@dataclass(frozen=True)
class Description:
    """name: as asked for; source: "folder" or "hub"; bytes: of the weights in float32."""

    name: str
    source: str
    model_type: str
    config: GPTConfig
    parameters: int

    @property
    def bytes(self) -> int:
        return 4 * self.parameters

    @property
    def is_worth_a_word(self) -> bool:
        """Whether loading takes long enough that a person wants to know: a download, or more than 100 MB."""
        return self.source == "hub" or self.bytes > 100e6

    def __str__(self) -> str:
        size = f"{self.bytes / 1e9:.2f} GB" if self.bytes >= 1e9 else f"{self.bytes / 1e6:.0f} MB"
        return f"{self.name}: {self.model_type}, {self.parameters:,} parameters, {size} of memory in float32"


def describe_pretrained(name: str | os.PathLike[str]) -> Description | None:
    """Read the config of a folder or, from the hub, of a model that is not downloaded yet. No torch is imported.

    None for nanoGPT's and GGUF files, which keep their config with the weights. Raises PretrainedError as
    ``from_pretrained`` does.
    """
    source = locate(name, weights=False)
    if source.config is None:
        return None
    config = read_config(source.config, str(source.folder / "config.json")).config
    where = "folder" if os.path.isdir(os.path.expanduser(os.fspath(name))) else "hub"
    model_type = str(source.config.get("model_type"))
    return Description(os.fspath(name), where, model_type, config, count_parameters(config).total)
