"""A seed as a row."""

import re
from pathlib import Path

from tests.simulation.invariants import Invariant
from tests.simulation.run import Outcome, simulate
from tests.simulation.spark.sweep import DETAIL_LENGTH_MAX, SCHEMA, SeedRow, row_of

DOCS = Path(__file__).parents[1] / "README.md"


def test_a_passing_seed_has_its_counts() -> None:
    """The counts are the simulator's."""
    counts = simulate(3).counts
    row = row_of(3)
    assert (row.seed, row.violations, row.invariant, row.detail) == (3, 0, None, None)
    assert (row.events, row.rebalances, row.moves, row.convergence_ms) == tuple(
        counts[name] for name in ("events", "rebalances", "moves", "convergence ms")
    )
    assert min(row.events, row.rebalances, row.moves) > 0


def test_a_failing_seed_has_its_invariant() -> None:
    """Its group never settled, and the detail may be long."""
    broken = Outcome(seed=4, invariant="1: nothing", detail="x" * 10_000, counts={"events": 7})
    row = row_of(4, lambda _seed: broken)
    assert row == SeedRow(4, 7, 0, 0, None, 1, "1: nothing", "x" * DETAIL_LENGTH_MAX)


def test_an_error_of_the_simulator_is_a_row() -> None:
    """A failed seed has the error's name."""

    def stumble(seed: int) -> Outcome:
        raise ZeroDivisionError(seed)

    row = row_of(5, stumble)
    assert (row.seed, row.violations, row.invariant) == (5, 1, str(Invariant.NO_ERROR))
    assert row.detail is not None
    assert "ZeroDivisionError: 5" in row.detail


def test_each_column_is_in_the_schema_and_the_docs() -> None:
    """The order is the same."""
    named = [column.split()[0] for column in SCHEMA.split(",")]
    documented = re.findall(r"^\| `(\w+)` \|", DOCS.read_text(), re.MULTILINE)
    assert named == list(SeedRow._fields)
    assert [name for name in documented if name in named] == named
