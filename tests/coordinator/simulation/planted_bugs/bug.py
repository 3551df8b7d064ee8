"""What a planted bug is: a piece of the engine that is replaced by a wrong one.

It is written as a function that plants it; its docstring says what is wrong then, its decorator
which checks may be the first to notice. Replaced is what callers look up: of a function that was
imported by name, the name in the caller's module.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from coordinator.simulation.invariants import Invariant

Patch = pytest.MonkeyPatch


@dataclass(frozen=True, slots=True)
class Bug:
    """One planted bug."""

    name: str
    what: str
    checks: tuple[Invariant, ...]
    plant: Callable[[Patch], None]


def noticed_by(*checks: Invariant) -> Callable[[Callable[[Patch], None]], Bug]:
    """Makes a bug of a function that plants it."""

    def bug(plant: Callable[[Patch], None]) -> Bug:
        what = " ".join((plant.__doc__ or "").split())
        return Bug(plant.__name__, what, checks, plant)

    return bug
