"""A native client that turns from broker to broker, and what it has stated arrives late."""

from collections.abc import Callable

import pytest

from tests.simulation import network
from tests.simulation.invariants import BrokenInvariantError
from tests.simulation.planted_bugs import late_statements
from tests.simulation.planted_bugs.bug import Bug
from tests.simulation.stage import Stage


def play(seed: int, patch: pytest.MonkeyPatch, *, has_older: bool) -> None:
    """A member waits for partitions, and turns away from two connections on which it states that it
    owns none. The network holds both up. It gets the partitions on a third connection, perhaps on
    one that is older than both, and then has to give up one."""
    stage = Stage(seed)
    stage.native("n1", callback_ms=4_000)
    stage.wait()
    client = stage.native("n2", callback_ms=4_000)
    while client.epoch == 0:
        stage.wait(1)
    if has_older:
        patch.setattr(network, "HELD_UP_RATE", 0)
        client._line.turn()
    patch.setattr(network, "HELD_UP_RATE", 1)
    client._turns = 2
    client.repeat_all()
    client.beat()
    while not client.claims:
        stage.wait(1)
    stage.native("n3")
    stage.native("n4")
    stage.wait(8_000)


SCENES: dict[Bug, Callable[[pytest.MonkeyPatch], None]] = {
    late_statements.a_second_late_statement_counts: lambda patch: play(3, patch, has_older=False),
    late_statements.a_connection_is_new_if_its_member_has_not_used_it: lambda patch: play(
        23, patch, has_older=True
    ),
}


@pytest.mark.parametrize("bug", SCENES, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(monkeypatch: pytest.MonkeyPatch, bug: Bug) -> None:
    """Without the bug, the same scene breaks no promise."""
    SCENES[bug](monkeypatch)
    bug.plant(monkeypatch)
    with pytest.raises(BrokenInvariantError) as broken:
        SCENES[bug](monkeypatch)
    assert broken.value.invariant in bug.checks


def test_every_planted_bug_has_a_scene() -> None:
    assert {bug for bug in vars(late_statements).values() if isinstance(bug, Bug)} == {*SCENES}
