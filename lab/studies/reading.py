"""What a study's files hold: read into typed records, or refused with one sentence that names the file and the field.

The digests show a file that was edited or damaged after it was written. They are no signature: whoever means to forge
a study can write new ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from lab.runs import read_json, to_json
from lab.studies.definition import Budget, StudyError

PLANNED = ("study", "tier", "seeds", "rules", "configs", "parameters")  # what `sha256` of a registration is of


@dataclass(frozen=True)
class Git:
    """Which commit a plan was registered at."""

    commit: str | None = None
    dirty: bool | None = None


@dataclass(frozen=True)
class Origin:
    """When and where a plan was registered."""

    time: str = ""
    git: Git | None = None
    packages: dict[str, str | None] | None = None
    python: str = ""
    platform: str = ""


@dataclass(frozen=True)
class Registration:
    """registration.json. sha256: of the plan; seal: of everything else in the file (older files have none)."""

    sha256: str
    study: dict[str, Any] = field(default_factory=dict)
    tier: str = ""
    seeds: int = 0
    rules: str = ""
    configs: dict[str, dict[str, Any]] = field(default_factory=dict)
    parameters: dict[str, int] = field(default_factory=dict)
    budget: list[Budget] = field(default_factory=list)
    registered: Origin = field(default_factory=Origin)
    seal: str = ""


def plan_digest(registration: Mapping[str, Any]) -> str:
    """The sha256 of the plan in a registration: of its study, tier, seeds, rules, configurations and parameters."""
    return digest({name: registration[name] for name in PLANNED if name in registration})


def digest(values: Any) -> str:
    """The sha256 of values as JSON."""
    return hashlib.sha256(to_json(values).encode("utf-8", "surrogatepass")).hexdigest()


def sealed(registration: Mapping[str, Any]) -> dict[str, Any]:
    """A registration with its seal."""
    return {**registration, "seal": digest(registration)}


def read_registration(path: Path) -> dict[str, Any]:
    """registration.json, whose digests are computed again. Raises StudyError where it is not what was registered."""
    values = read_json(path)
    typed(Registration, values, path)
    said, found = values["sha256"], plan_digest(values)
    if said != found:
        raise StudyError(
            f"{path}: the registration was changed after the fact (registered as sha256 {said[:12]}, its plan is now "
            f"{found[:12]}). Put the registered file back."
        )
    if "seal" in values:
        seal = digest({name: value for name, value in values.items() if name != "seal"})
        if values["seal"] != seal:
            raise StudyError(
                f"{path}: the registration was changed after the fact (written as sha256 {values['seal'][:12]}, it is "
                f"now {seal[:12]}). Put the registered file back."
            )
    return values


def typed(kind: Any, values: Any, path: Path) -> Any:
    """Values of JSON as a record of this kind: a dataclass. Raises StudyError naming file and field."""
    from pydantic import ValidationError
    from pydantic_core import to_json as as_bytes

    try:
        return _adapter(kind).validate_json(as_bytes(values), strict=True)
    except ValidationError as problem:
        first = problem.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise StudyError(f"{path} is damaged: {place + ': ' if place else ''}{first['msg']}") from None
    except (RecursionError, ValueError) as problem:  # nested too deeply, or text that is no text
        raise StudyError(f"{path} is damaged: {problem}") from None


@lru_cache
def _adapter(kind: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)
