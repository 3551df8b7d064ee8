"""Declares a planted bug: a patch that replaces a part of the engine with a faulty one.

A bug is written as a function that applies the patch. Its docstring describes the effect, and its
decorator lists the checks that may notice it first. A function imported by name has to be patched
in the caller's module.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.simulation.invariants import Invariant

Patch = pytest.MonkeyPatch


@dataclass(frozen=True, slots=True)
class Bug:
    """One planted bug."""

    name: str
    what: str
    checks: tuple[Invariant, ...]
    plant: Callable[[Patch], None]


def noticed_by(*checks: Invariant) -> Callable[[Callable[[Patch], None]], Bug]:
    """Turn a function that plants a bug into a `Bug`."""

    def bug(plant: Callable[[Patch], None]) -> Bug:
        what = " ".join((plant.__doc__ or "").split())
        return Bug(plant.__name__, what, checks, plant)

    return bug
