"""Seeds that change every day, or start at a given number."""

import os
from datetime import UTC, datetime

FIRST_SEED_VARIABLE = "GROUPFERRY_FIRST_SEED"
"""The environment variable with the first seed, to replay the seeds of another day."""
SEEDS_PER_DAY = 10_000


def first_fresh_seed() -> int:
    """The first seed, far above the fixed ones. Call this while a test runs, not during collection:
    at midnight several processes would collect different seeds."""
    named = os.environ.get(FIRST_SEED_VARIABLE)
    return int(named) if named else datetime.now(UTC).date().toordinal() * SEEDS_PER_DAY
