"""A group at rest is moved there and back."""

from dataclasses import replace

from tests.simulation.final_moves import MOVES, move_about
from tests.support.simulation import PEACEFUL, Stage


def test_a_group_moves_there_and_back() -> None:
    """Something may happen in each move, and the group settles all the same."""
    stage = Stage(seed=3, plan=replace(PEACEFUL, has_moves=True))
    stage.classic("c1")
    stage.classic("c2")
    stage.wait()
    stage.random_actions.stop()
    move_about(stage)
    counts = stage.world.counts
    assert counts["releases"] + counts["adoptions"] >= MOVES // 2


def test_a_run_without_moves_moves_nothing() -> None:
    stage = Stage()
    stage.classic("c1")
    stage.wait()
    move_about(stage)
    assert not stage.world.counts["releases"]
