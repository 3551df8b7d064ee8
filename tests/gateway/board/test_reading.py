"""What the board says of a group, from what serves it."""

from typing import Any

import pytest

from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.state import GroupState
from coordinator.interface.config import GroupConfig
from coordinator.interface.records import Member
from coordinator.interface.roll_policy import RollMode
from gateway.board import reading
from gateway.board.lags import FRESH_MS, GroupLag
from gateway.board.reading import group_line, members_of_client, partition_lines
from gateway.groups.group_snapshot import GroupSnapshot
from gateway.hosting.group_routing import HERE, RoutingDecision
from gateway.hosting.states import AdoptionStage, Mode
from tests.support.client_assignors import CLIENT_SIDE, weighted_assignor
from tests.support.group_records import CLIENT_ID, given_classic, given_native
from tests.support.group_script import GroupScript
from tests.support.group_snapshots import FORWARDED, glance_of


def snapshot(decision: RoutingDecision = HERE, **fields: Any) -> GroupSnapshot:
    """A group, without a state of its own unless stated."""
    return glance_of(decision=decision, **({"state": GroupState("g")} | fields))


@pytest.mark.parametrize(
    ("seen", "mode", "blocker"),
    [
        (snapshot(FORWARDED), "forwarded", FORWARDED.reason),
        (
            snapshot(FORWARDED, adoption=AdoptionStage.LOCKING),
            "adopting",
            "being adopted (Locking)",
        ),
        (snapshot(anchor_reason="refused"), "hosted", "held back: refused"),
        (snapshot(release_obstacle="n"), "hosted", "not released (groups_forward): n"),
        (
            snapshot(RoutingDecision(Mode.ELSEWHERE, "another has it")),
            "elsewhere",
            "another has it",
        ),
        (snapshot(RoutingDecision(Mode.UNKNOWN, "no answer")), "unknown", "no answer"),
    ],
)
def test_a_group_that_is_held_back_says_why(seen: GroupSnapshot, mode: str, blocker: str) -> None:
    """This holds whether the gateway or the cluster answers for the group."""
    line = group_line(seen, None, None)
    assert (line.mode, line.blocker) == (mode, blocker)


def test_the_member_that_computes_the_target_is_named() -> None:
    """A member (rule 9.7) or a plug-in (9.6)."""
    group = GroupScript(config=CLIENT_SIDE)
    group.native("n1", client_assignors=[weighted_assignor()])
    waits = "waits for client to compute its target assignment"
    assert group_line(snapshot(state=group.engine.state), None, None).blocker == waits
    group.prepare("n1", 1)
    assert group_line(snapshot(state=group.engine.state), None, None).blocker == waits
    plug_in = GroupScript(config=GroupConfig(consumer_assignors=("whole-topics",)))
    plug_in.native("n1")
    waits = "waits for the plug-in whole-topics to compute its target"
    assert group_line(snapshot(state=plug_in.engine.state), None, None).blocker == waits


def test_a_hold_in_the_cluster_is_shown() -> None:
    """The policy of a forwarded group is shown like that of a hosted one."""
    line = group_line(snapshot(FORWARDED, policy=RollMode.HOLD), None, None)
    assert line.policy == "hold"
    assert line.stands.endswith("; on hold")


def test_an_end_that_was_looked_at_too_long_ago_is_not_known() -> None:
    """Whatever the other partitions are."""
    lag = GroupLag()
    for number, at_ms in ((0, 1_000), (1, 2_000)):
        lag.commit(("t", number), 10)
        lag.end(("t", number), 10, at_ms)
    old, new = partition_lines(lag, (), 1_001 + FRESH_MS)
    assert (old.end, old.lag, old.behind_ms) == (None, None, None)
    assert (new.end, new.lag, new.behind_ms) == (10, 0, 0)


def test_members_of_other_clients_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client is looked for in all groups, however many members they have."""
    group = GroupScript()
    group.given_consumer_group(given_native("n1"), given_classic("c1"))
    read = reading._take_consumer_member
    names: list[str] = []

    def count(group: ConsumerGroup, one: Member, *rest: Any) -> reading.TakenMember:
        names.append(one.member_id)
        return read(group, one, *rest)

    monkeypatch.setattr(reading, "_take_consumer_member", count)
    seen = snapshot(state=group.engine.state)
    assert not [*members_of_client(seen, None, "another", None)]
    assert not names
    assert len([*members_of_client(seen, None, CLIENT_ID, None)]) == 2
    assert names == ["n1", "c1"]
