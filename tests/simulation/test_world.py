"""Simulated time."""

import pytest

from tests.simulation import world as simulated
from tests.simulation.invariants import BrokenInvariantError, Invariant
from tests.simulation.world import START_MS, World


def test_calls_run_in_the_order_of_time_then_of_scheduling() -> None:
    """Hashes of names and the real clock have no influence."""
    world, calls = World(1), list[str]()
    world.after(20, calls.append, "later")
    world.after(10, calls.append, "first")
    world.after(10, calls.append, "second")
    world.run_until(START_MS + 15)
    assert (calls, world.now_ms) == (["first", "second"], START_MS + 15)
    world.run_until(START_MS + 20)
    assert calls == ["first", "second", "later"]


def test_the_seed_is_the_only_randomness() -> None:
    """Equal seeds roll equal numbers. Both ends of a range occur."""
    rolls = [[World(seed).between(1, 6) for _ in range(3)] for seed in (1, 1)]
    assert rolls[0] == rolls[1]
    world = World(7)
    assert {world.between(1, 3) for _ in range(60)} == {1, 2, 3}


def test_calls_that_never_let_time_pass_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such calls reach the limit on the calls of a run, and do not fill the machine's memory."""
    monkeypatch.setattr(simulated, "CALLS_MAX", 10)
    world, calls = World(1), list[int]()

    def again() -> None:
        calls.append(world.now_ms)
        world.after(0, again)

    world.after(5, again)
    with pytest.raises(BrokenInvariantError) as broken:
        world.run_until(START_MS + 1_000)
    assert broken.value.invariant is Invariant.ENDS
    assert calls == [START_MS + 5] * 10
