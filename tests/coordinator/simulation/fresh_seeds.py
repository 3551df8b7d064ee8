"""Seeds that no run before has played: each day others, unless one says which."""

import os
from datetime import UTC, datetime

FIRST_SEED_VARIABLE = "GROUPFERRY_FIRST_SEED"
"""Plays the seeds of another day again: what `groupferry simulate --first-seed` takes."""
SEEDS_PER_DAY = 10_000


def first_fresh_seed() -> int:
    """Far above the fixed ones. To be asked while a test runs, not while tests are collected: at
    midnight several processes would collect different ones."""
    named = os.environ.get(FIRST_SEED_VARIABLE)
    return int(named) if named else datetime.now(UTC).date().toordinal() * SEEDS_PER_DAY
