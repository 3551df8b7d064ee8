"""Differential scripts, and their registry."""

import importlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from tests.support.differential.both_sides import BothSides
from tests.support.differential.profiles import MAIN, Profile

FOLDER = Path(__file__).parents[2] / "differential" / "scripts"

Play = Callable[[BothSides], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Script:
    """One scenario under one profile."""

    name: str
    profile: Profile
    play: Play
    may_deviate: bool = False
    """Deviations are not announced, and the first one ends the script."""


SCRIPTS: dict[str, Script] = {}


def script(*profiles: Profile) -> Callable[[Play], Play]:
    """Register a script, once per profile."""

    def register(play: Play) -> Play:
        for profile in profiles or (MAIN,):
            name = play.__name__ if len(profiles) < 2 else f"{play.__name__}-{profile.name}"
            assert name not in SCRIPTS, name
            SCRIPTS[name] = Script(name, profile, play)
        return play

    return register


def load_scripts() -> None:
    """Import all modules of scripts, so that they are registered."""
    for path in sorted(FOLDER.glob("*.py")):
        importlib.import_module(f"tests.differential.scripts.{path.stem}")
