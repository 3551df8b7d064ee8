"""Finds the assignors that installed packages offer by the entry points `groupferry.assignors`."""

from importlib.metadata import EntryPoint, entry_points
from typing import cast

from coordinator.assignors import ASSIGNORS, Assignor

ENTRY_POINTS = "groupferry.assignors"


def check_assignor(name: str) -> str:
    """The name, if there is exactly one such assignor. Imports nothing. Raises ValueError."""
    if name not in ASSIGNORS:
        _entry_point(name)
    return name


def load(name: str) -> Assignor:
    """Import an assignor. Raises ValueError if there is none, and whatever its module raises."""
    return cast(Assignor, _entry_point(name).load())


def _entry_point(name: str) -> EntryPoint:
    matches = set(entry_points(group=ENTRY_POINTS, name=name))
    if not matches:
        raise ValueError(
            f"{name!r} is neither one of {', '.join(ASSIGNORS)}, nor an entry point"
            f" {ENTRY_POINTS} of an installed package"
        )
    if len(matches) > 1:
        offers = " and ".join(sorted(entry_point.value for entry_point in matches))
        raise ValueError(f"several installed packages offer the assignor {name!r}: {offers}")
    return matches.pop()
