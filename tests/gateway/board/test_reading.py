"""What the board says of a group, from what serves it."""

from typing import Any

import pytest

from coordinator.group.state import GroupState
from coordinator.interface.config import GroupConfig
from coordinator.interface.roll_policy import RollMode
from gateway.board.reading import compact, group_line
from gateway.groups.glance import Glance
from gateway.hosting.standing import HERE, Verdict
from gateway.hosting.states import AdoptionStage, Mode
from tests.support.client_assignors import CLIENT_SIDE, weighted
from tests.support.glances import FORWARDED, glance_of
from tests.support.group_script import GroupScript


def glance(verdict: Verdict = HERE, **fields: Any) -> Glance:
    """A group, without a state of its own unless stated."""
    return glance_of(verdict=verdict, **({"state": GroupState("g")} | fields))


@pytest.mark.parametrize(
    ("seen", "mode", "blocker"),
    [
        (glance(FORWARDED), "forwarded", FORWARDED.why),
        (glance(FORWARDED, adoption=AdoptionStage.LOCKING), "adopting", "being adopted (Locking)"),
        (glance(anchor_why="refused"), "hosted", "held back: refused"),
        (glance(release_obstacle="n"), "hosted", "not released (groups_forward): n"),
        (glance(Verdict(Mode.ELSEWHERE, "another has it")), "elsewhere", "another has it"),
        (glance(Verdict(Mode.UNKNOWN, "no answer")), "unknown", "no answer"),
    ],
)
def test_a_group_that_is_held_back_says_why(seen: Glance, mode: str, blocker: str) -> None:
    """Whoever answers for it."""
    line = group_line(seen, None, None)
    assert (line.mode, line.blocker) == (mode, blocker)


def test_whoever_computes_the_target_is_named() -> None:
    """A member (rule 9.7) or a plug-in (9.6)."""
    group = GroupScript(config=CLIENT_SIDE)
    group.native("n1", client_assignors=[weighted()])
    waits = "waits for client to compute its target assignment"
    assert group_line(glance(state=group.engine.state), None, None).blocker == waits
    group.prepare("n1", 1)
    assert group_line(glance(state=group.engine.state), None, None).blocker == waits
    plug_in = GroupScript(config=GroupConfig(consumer_assignors=("whole-topics",)))
    plug_in.native("n1")
    waits = "waits for the plug-in whole-topics to compute its target"
    assert group_line(glance(state=plug_in.engine.state), None, None).blocker == waits


def test_a_hold_in_the_cluster_is_shown() -> None:
    """As that of a hosted group."""
    line = group_line(glance(FORWARDED, policy=RollMode.HOLD), None, None)
    assert line.policy == "hold"
    assert line.stands.endswith("; on hold")


def test_partitions_are_written_as_ranges() -> None:
    """In their order."""
    assert compact([7, 0, 1, 2, 9, 8]) == "0-2,7-9"
    assert (compact([4]), compact([])) == ("4", "")
