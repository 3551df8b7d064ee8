"""Who is waited for: members that left in a roll, and members that are not heard."""

from dataclasses import replace

import pytest

from coordinator.interface.config import GroupConfig
from gateway.board.reading import group_line, group_page
from gateway.board.waits import explain_log_failure
from gateway.groups.group_snapshot import GroupSnapshot
from tests.support.group_records import given_native
from tests.support.group_script import GroupScript
from tests.support.group_snapshots import glance_of

ROLLED = GroupConfig(
    replacement_grace_ms=10_000, temporary_assignment_ms=60_000, rolled_since_ms=1_000_000
)


def snapshot(group: GroupScript) -> GroupSnapshot:
    """The group as it is now."""
    return glance_of(state=group.engine.state, topics=group.topics, now_ms=group.now_ms)


def blocker(group: GroupScript) -> str | None:
    """What the group waits for."""
    return group_line(snapshot(group), None, None).blocker


def test_a_consumer_that_left_in_a_roll_is_waited_for_by_name() -> None:
    """Its partitions have no owner, although the group is Stable."""
    group = GroupScript(config=ROLLED)
    group.given_consumer_group(
        given_native("n1", assigned={"foo": (0,)}), given_native("n2", assigned={"foo": (1, 2)})
    )
    group.native("n2", -1)
    group.wait(3_000)
    assert blocker(group) == (
        "waits for client to come back, gone for 3 s: nobody has the partitions"
    )


def test_a_member_that_has_sent_no_heartbeat_for_half_its_session_is_silent() -> None:
    """The member is removed at the end of the session. Until then it owns its partitions."""
    group = GroupScript()
    group.native("n1")
    group.wait(22_000)
    assert blocker(group) is None
    group.wait(1_000)
    assert blocker(group) == "waits for a heartbeat of client: silent for 23 s, removed in 22 s"
    _page, (line,) = group_page(snapshot(group), None, None)
    assert line.line().silent_ms == 23_000


def test_a_state_log_that_fails_is_what_every_group_waits_for() -> None:
    """A group at rest waits, too: the next consumer that is restarted does not come back."""
    group = GroupScript()
    group.native("n1")
    waits = explain_log_failure(45_296_000)
    assert waits.startswith("the latest change, at 12:34:56 UTC, could not be stored")
    failing = replace(snapshot(group), log_failed_ms=45_296_000)
    assert group_line(failing, None, None).blocker == waits
    assert group_line(glance_of(log_failed_ms=45_296_000), None, None).blocker == waits


@pytest.mark.parametrize("session_ms", [10_000, 60_000])
def test_a_classic_member_has_its_own_session(session_ms: int) -> None:
    group = GroupScript()
    group.stable_classic_group({"a": {"foo": [0, 1]}}, session_timeout_ms=session_ms)
    group.wait(session_ms // 2 - 1)
    assert blocker(group) is None
    group.wait(1)
    assert str(blocker(group)).endswith(f"removed in {session_ms // 2_000} s")


def test_the_session_of_native_members_is_that_of_the_group() -> None:
    """The configs of the group may override it."""
    group = GroupScript()
    group.native("n1")
    group.wait(23_000)
    longer = replace(snapshot(group), native_session_ms=60_000)
    assert group_line(longer, None, None).blocker != blocker(group)
