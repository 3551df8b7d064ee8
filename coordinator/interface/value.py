"""Declares what crosses the engine's border: immutable values."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

_T = TypeVar("_T")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def value(*, kw_only: bool = True) -> Callable[[type[_T]], type[_T]]:
    """A dataclass with slots. The type checker keeps it from being changed, and hashing takes that
    for granted: Python's own check makes it take four times as long to create, and every request
    creates several."""
    return dataclass(slots=True, kw_only=kw_only, unsafe_hash=True)
