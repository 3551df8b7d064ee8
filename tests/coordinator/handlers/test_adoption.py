"""Taking over a group from another coordinator (rule 2.11, DEV D70)."""

from dataclasses import replace

import pytest

from coordinator.handlers.adoption import obstacles
from coordinator.interface.config import GroupConfig
from coordinator.interface.errors import InvariantError
from coordinator.interface.events import AdoptionEnded, AdoptionMoved, GroupLost
from coordinator.interface.records import (
    AdoptionRecord,
    AdoptionState,
    ClassicGroupMember,
    ClassicGroupMetadata,
    ClassicGroupValue,
    RemovalCause,
    is_tombstone,
)
from coordinator.interface.volatile_records import ClassicPhase, DeadlineKey, DeadlineKind
from kafka_codecs.error_codes import ErrorCode
from tests.support.group_records import given_classic_group_member
from tests.support.group_script import GroupScript

A = given_classic_group_member("a", {"foo": (0,)})
B = given_classic_group_member("b", {"foo": (1,)}, instance_id="i2")
GROUP = ClassicGroupValue(
    protocol_type="consumer", generation=41, protocol="range", leader="b", members=(A, B)
)
ANNOUNCED = AdoptionState(group=GROUP)
LOCKED = replace(ANNOUNCED, lock_generation=43)


def adopt(group: GroupScript) -> None:
    group.feed(AdoptionMoved(adoption=ANNOUNCED))
    group.feed(AdoptionMoved(adoption=LOCKED))
    group.feed(AdoptionEnded())


def test_an_id_that_was_never_used_is_forgotten(group: GroupScript) -> None:
    """Its client joined in the cluster instead, or has gone."""
    group.take_id()
    assert group.classic.pending_ids
    adopt(group)
    assert set(group.classic.members) == {"a", "b"}
    assert not group.classic.pending_ids
    group.check_replay()


def test_the_members_continue_with_their_generation_leader_and_assignments(
    group: GroupScript,
) -> None:
    adopt(group)
    assert group.classic.phase is ClassicPhase.STABLE
    assert group.classic.core.leader == "b"
    assert group.beat("a", 41).error == ErrorCode.NONE
    assert group.beat("b", 41, instance_id="i2").error == ErrorCode.NONE
    assert group.classic.stored_value() == GROUP


def test_the_group_replaces_its_adoption_in_one_batch(group: GroupScript) -> None:
    adopt(group)
    assert group.last_step.durable == (
        ClassicGroupMetadata(value=GROUP),
        AdoptionRecord(value=None),
    )
    group.check_replay()


@pytest.mark.parametrize("reached", [ANNOUNCED, LOCKED], ids=["announced", "locked"])
def test_a_restart_knows_how_far_the_adoption_came(
    group: GroupScript, reached: AdoptionState
) -> None:
    group.feed(AdoptionMoved(adoption=reached))
    group.restart()
    assert group.engine.state.adoption == reached
    assert group.engine.state.group is None
    assert not group.engine.state.is_quiet


def test_a_restart_after_the_adoption_keeps_the_members(group: GroupScript) -> None:
    adopt(group)
    group.restart()
    assert group.engine.state.adoption is None
    assert group.beat("a", 41).error == ErrorCode.NONE


def test_an_adoption_that_was_undone_leaves_nothing_behind(group: GroupScript) -> None:
    group.feed(AdoptionMoved(adoption=ANNOUNCED))
    group.feed(AdoptionMoved(adoption=None))
    assert all(is_tombstone(record) for record in group.last_step.durable)
    assert group.engine.state.is_quiet


def test_what_is_left_of_an_empty_group_is_replaced(group: GroupScript) -> None:
    group.given_classic_group(given_classic_group_member("z", {"foo": (0,)}), generation=3)
    group.leave("z")
    adopt(group)
    assert sorted(group.classic.members) == ["a", "b"]
    group.check_replay()


def test_no_timer_of_an_empty_group_outlives_it(group: GroupScript) -> None:
    """The join phase of the group that was here would end in the one that is adopted."""
    adopt(group)
    group.take_id()  # an id that nobody uses holds up the round
    group.feed(GroupLost(cause=RemovalCause.GROUP_TAKEN))
    assert DeadlineKey(DeadlineKind.JOIN_PHASE) in group.engine.state.deadlines
    adopt(group)
    assert {key.kind for key in group.engine.state.deadlines} == {DeadlineKind.SESSION}


def test_sessions_start_at_full_length(group: GroupScript) -> None:
    adopt(group)
    group.wait(A.session_timeout_ms - 1)
    assert sorted(group.classic.members) == ["a", "b"]
    group.wait(1)
    assert not group.classic.members


def test_a_repeated_adoption_changes_nothing(group: GroupScript) -> None:
    """The log's answer was lost, and the gateway asks again."""
    adopt(group)
    group.feed(AdoptionEnded())
    assert not group.last_step.records


def test_a_group_is_not_adopted_before_it_is_locked(group: GroupScript) -> None:
    group.feed(AdoptionMoved(adoption=ANNOUNCED))
    with pytest.raises(InvariantError, match="before it is locked"):
        group.feed(AdoptionEnded())


def test_a_group_with_members_is_not_replaced(group: GroupScript) -> None:
    group.given_classic_group(A, generation=3)
    with pytest.raises(InvariantError, match="with members"):
        group.feed(AdoptionMoved(adoption=ANNOUNCED))


def member(**changes: object) -> ClassicGroupMember:
    return replace(A, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (replace(GROUP, protocol_type="connect"), "its protocol type is 'connect'"),
        (replace(GROUP, leader=None), "its leader is unknown until the next member joins"),
        (replace(GROUP, leader="z"), "its leader is unknown until the next member joins"),
        (replace(GROUP, members=(A, B, B)), "2 of its members have the member id b"),
        (
            replace(GROUP, members=(member(instance_id="i2"), B)),
            "2 of its members have the instance id i2",
        ),
        (
            replace(GROUP, members=(member(session_timeout_ms=5_999), B)),
            "a: its session timeout of 5999 ms is not within 6000 to 1800000"
            " (group.min.session.timeout.ms, group.max.session.timeout.ms)",
        ),
        (replace(GROUP, protocol="sticky"), "a: it does not offer the group's protocol 'sticky'"),
        (replace(GROUP, members=(member(protocols=A.protocols * 2), B)), "lists a protocol twice"),
        (
            replace(GROUP, members=(member(protocols=(("range", b"\0"),)), B)),
            "a: its subscription is malformed",
        ),
        (replace(GROUP, members=(member(assignment=b"\0"), B)), "a: its assignment is malformed"),
        (
            replace(GROUP, members=(member(assignment=B.assignment), B)),
            "foo-1 is assigned to a and to b",
        ),
    ],
)
def test_obstacles_name_the_member_and_the_reason(value: ClassicGroupValue, reason: str) -> None:
    assert any(reason in obstacle for obstacle in obstacles(value, GroupConfig()))


def test_a_group_that_exceeds_the_limit_of_members_is_refused() -> None:
    (obstacle,) = obstacles(GROUP, GroupConfig(classic_max_size=1))
    assert "more than 1 members" in obstacle


def test_a_member_that_never_synced_is_no_obstacle() -> None:
    assert not obstacles(replace(GROUP, members=(member(assignment=b""), B)), GroupConfig())
