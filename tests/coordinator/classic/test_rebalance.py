"""The join phase of a classic group (rule 2.5)."""

import pytest

from coordinator.classic.rebalance import NOBODY_JOINED_WAIT_MS_MIN
from coordinator.interface.replies import JoinGroupReply
from coordinator.interface.volatile_records import ClassicPhase, DeadlineKind
from tests.support.group_records import given_classic_group_member
from tests.support.group_script import GroupScript


@pytest.mark.parametrize("rebalance_timeout_ms", [0, -1])
def test_a_join_phase_without_joiners_does_not_spin(
    group: GroupScript, rebalance_timeout_ms: int
) -> None:
    """Static members that are away remain members. Their rebalance timeout of zero must not cause a
    busy loop until their sessions end."""
    tokens = {name: group.send_join(instance_id=name) for name in ("i1", "i2")}
    group.wait(6_000)
    ids = {n: group.answer(token, JoinGroupReply).member_id for n, token in tokens.items()}
    for name in ("i2", "i1"):
        group.send_sync(ids[name], 1, instance_id=name)
    for name in tokens:
        ids[name] = group.join(
            instance_id=name, rebalance_timeout_ms=rebalance_timeout_ms, session_timeout_ms=60_000
        ).member_id
    group.leave(ids["i1"])
    group.wait(1)
    assert group.classic.phase is ClassicPhase.PREPARING_REBALANCE
    left_ms = group.left_ms(DeadlineKind.JOIN_PHASE)
    assert left_ms is not None
    assert left_ms > NOBODY_JOINED_WAIT_MS_MIN / 2


def test_a_join_phase_lasts_as_long_as_the_most_patient_member_allows(group: GroupScript) -> None:
    """The longest rebalance timeout of the members counts (rule 2.5)."""
    patience_ms = {"i1": 20_000, "i2": 60_000, "i3": 10_000}
    tokens = {
        name: group.send_join(instance_id=name, rebalance_timeout_ms=ms)
        for name, ms in patience_ms.items()
    }
    group.wait(6_000)
    ids = {n: group.answer(token, JoinGroupReply).member_id for n, token in tokens.items()}
    for name in ("i2", "i3", "i1"):
        group.send_sync(ids[name], 1, instance_id=name)
    group.leave(ids["i3"])
    assert group.classic.phase is ClassicPhase.PREPARING_REBALANCE
    assert group.left_ms(DeadlineKind.JOIN_PHASE) == 60_000


def test_the_initial_delay_is_extended_for_late_joiners(group: GroupScript) -> None:
    """A delay in which a member joined is followed by another, up to the rebalance timeout (rule
    2.5)."""
    first = group.send_join(
        group.take_id()
    )  # a rebalance timeout of 10 s: delays of 3, 3, 3 and 1 s
    for _ in range(3):
        group.wait(2_900)
        group.send_join(group.take_id())
        group.wait(100)
        assert group.is_parked(first)
    assert group.left_ms(DeadlineKind.INITIAL_REBALANCE_DELAY) == 1_000
    group.send_join(group.take_id())
    group.wait(1_000)
    assert group.answer(first, JoinGroupReply).generation == 1


def test_the_initial_delay_is_not_extended_without_late_joiners(group: GroupScript) -> None:
    """A delay without new members is the last, whatever remains of the rebalance timeout."""
    first = group.send_join(group.take_id())
    group.wait(1_000)
    group.send_join(group.take_id())
    group.wait(2_000)
    assert group.left_ms(DeadlineKind.INITIAL_REBALANCE_DELAY) == 3_000
    group.wait(3_000)
    assert group.answer(first, JoinGroupReply).generation == 1


def test_the_initial_delay_begins_when_the_first_join_arrives(group: GroupScript) -> None:
    """A join may have waited for the gateway to hold the group."""
    first = group.send_join(group.take_id(), waited_ms=2_000)
    assert group.left_ms(DeadlineKind.INITIAL_REBALANCE_DELAY) == 1_000
    group.wait(1_000)
    assert group.answer(first, JoinGroupReply).generation == 1


def test_members_that_waited_longer_than_the_initial_delay_join_together(
    group: GroupScript,
) -> None:
    """Only members that arrived during the delay extend it."""
    ids = [group.take_id() for _ in range(3)]
    first, *_others = (group.send_join(id_, waited_ms=5_000) for id_ in ids)
    group.wait(1)
    assert group.left_ms(DeadlineKind.INITIAL_REBALANCE_DELAY) == 3_000
    group.wait(3_000)
    assert len(group.answer(first, JoinGroupReply).members) == 3


def test_the_leader_keeps_its_role_and_gets_the_members(group: GroupScript) -> None:
    """The first joiner leads. The others learn who leads, but receive no metadata."""
    group.given_classic_group(
        given_classic_group_member("a"), given_classic_group_member("b"), generation=3
    )
    tokens = [group.send_join(id_, topics=("foo", "bar")) for id_ in ("b", "a")]
    follower, leader = (group.answer(token, JoinGroupReply) for token in tokens)
    assert (leader.leader, follower.leader) == ("a", "a")
    assert {member.member_id for member in leader.members} == {"a", "b"}
    assert follower.members == ()
    assert (follower.protocol_type, follower.protocol_name) == ("consumer", "range")


def test_an_absent_leader_loses_its_role(group: GroupScript) -> None:
    """The leader is static and remains a member. The first joiner leads."""
    group.given_classic_group(
        given_classic_group_member("a", instance_id="i1"),
        given_classic_group_member("b"),
        given_classic_group_member("c"),
        generation=3,
    )
    tokens = [group.send_join(id_, topics=("foo", "bar")) for id_ in ("c", "b")]
    for _ in range(2):
        group.wait(5_000)
        group.beat("a", 3, instance_id="i1")
    replies = [group.answer(token, JoinGroupReply) for token in tokens]
    assert [reply.leader for reply in replies] == ["c", "c"]
    assert group.classic.members.keys() == {"a", "b", "c"}
