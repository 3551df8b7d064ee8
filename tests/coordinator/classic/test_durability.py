"""A restart of a classic group (rule 2.10, DEV D61)."""

from dataclasses import replace

import pytest

from coordinator.interface.records import (
    ClassicGenerationBegun,
    ClassicGroupMetadata,
    ClassicMemberRemoval,
    DurableRecord,
    RemovalCause,
    is_tombstone,
)
from coordinator.interface.replies import JoinGroupReply
from coordinator.interface.volatile_records import ClassicPhase
from kafka_codecs.error_codes import ErrorCode
from tests.support.group_records import given_classic_group_member
from tests.support.group_script import GroupScript

FOO_0, FOO_1, FOO_2 = {"foo": (0,)}, {"foo": (1,)}, {"foo": (2,)}


def given_three(group: GroupScript, *, session_timeout_ms: int = 10_000) -> None:
    """A static leader with this session, a static and a dynamic follower, Stable at generation
    3."""
    leader = given_classic_group_member("a", FOO_0, instance_id="i1")
    group.given_classic_group(
        replace(leader, session_timeout_ms=session_timeout_ms),
        given_classic_group_member("b", FOO_1, instance_id="i2"),
        given_classic_group_member("c", FOO_2),
        generation=3,
    )


def left_live(group: GroupScript) -> list[DurableRecord]:
    """The records of the log that a load reads."""
    newest = {record.key: record for record in group.log}
    return [record for record in newest.values() if not is_tombstone(record)]


@pytest.mark.parametrize(
    ("leaver", "gone", "cause"),
    [
        ("c", "c", RemovalCause.LEFT),
        (("a", "i1"), "a", RemovalCause.LEFT),
        (("", "i2"), "b", RemovalCause.REMOVED_BY_ADMIN),
    ],
    ids=["dynamic", "leader", "by an admin"],
)
def test_a_restart_does_not_restore_a_member_that_left(
    group: GroupScript, leaver: str | tuple[str, str], gone: str, cause: RemovalCause
) -> None:
    """Its client knows that it left. In Kafka the restart restores the member, and its partitions
    have no owner until its session ends."""
    given_three(group)
    assert group.leave(leaver).members[0].error == ErrorCode.NONE
    assert group.last_step.durable == (ClassicMemberRemoval(member_id=gone, cause=cause),)
    group.restart()
    others = sorted({"a", "b", "c"} - {gone})
    assert sorted(group.classic.members) == others
    assert group.classic.phase is ClassicPhase.PREPARING_REBALANCE
    instances = {"a": "i1", "b": "i2", "c": None}
    for member_id in others:
        beaten = group.beat(member_id, 3, instance_id=instances[member_id])
        assert beaten.error == ErrorCode.REBALANCE_IN_PROGRESS
    tokens = [group.send_join(id_, instance_id=instances[id_]) for id_ in others]
    assert {group.answer(token, JoinGroupReply).generation for token in tokens} == {4}


def test_a_restart_does_not_restore_an_expired_member(group: GroupScript) -> None:
    """Its session does not restart."""
    given_three(group)
    for _ in range(3):
        group.wait(6_000)
        group.beat("a", 3, instance_id="i1")
        group.beat("b", 3, instance_id="i2")
    assert group.classic.members.keys() == {"a", "b"}
    group.restart()
    assert group.classic.members.keys() == {"a", "b"}


def test_a_restart_does_not_restore_a_replaced_member(group: GroupScript) -> None:
    """The successor, which learned its id in the join phase, would receive FENCED_INSTANCE_ID from
    the restarted gateway and end."""
    group.given_classic_group(
        given_classic_group_member("a", FOO_0, instance_id="i1"), generation=3
    )
    group.send_join("a", instance_id="i1")
    group.send_join("a", instance_id="i1", topics=("bar",))
    joined = group.join(instance_id="i1", topics=("bar",))
    assert joined.error == ErrorCode.NONE
    group.restart()
    lost = group.sync(joined.member_id, joined.generation, instance_id="i1")
    assert lost.error == ErrorCode.UNKNOWN_MEMBER_ID
    token = group.send_join(instance_id="i1")
    group.wait(3_000)
    assert group.answer(token, JoinGroupReply).error == ErrorCode.NONE


def test_a_removal_is_forgotten_with_the_next_assignment(group: GroupScript) -> None:
    """The stored group no longer has the member, so the log does not grow with the group's
    history."""
    given_three(group)
    group.leave("c")
    tokens = {id_: group.send_join(id_, instance_id=i) for id_, i in (("a", "i1"), ("b", "i2"))}
    assert group.answer(tokens["a"], JoinGroupReply).generation == 4
    group.sync("a", 4, instance_id="i1", assignments={"a": FOO_0, "b": FOO_1})
    assert [type(record) for record in left_live(group)] == [ClassicGroupMetadata]
    group.restart()
    assert group.classic.phase is ClassicPhase.STABLE


def test_a_removal_is_forgotten_with_the_group(group: GroupScript) -> None:
    """A native member converts the group before the others have rejoined."""
    given_three(group)
    group.leave("c")
    group.native("n")
    assert not any(isinstance(record, ClassicMemberRemoval) for record in left_live(group))
    group.restart()
    assert group.consumer.members.keys() == {"a", "b", "n"}


def begin_generation_4(group: GroupScript) -> None:
    """The group is Stable at generation 3. The followers rejoin, and the leader does so last."""
    for id_, instance_id in (("b", "i2"), ("c", None), ("a", "i1")):
        topics = ("foo", "bar") if id_ == "b" else ("foo",)
        group.send_join(id_, instance_id=instance_id, topics=topics)
    assert group.classic.phase is ClassicPhase.COMPLETING_REBALANCE
    assert group.classic.core.generation == 4


def test_a_restart_does_not_begin_a_generation_again(group: GroupScript) -> None:
    """Generation 4 has no assignments when the gateway stops, and the static leader sleeps. In
    Kafka the next rebalance begins generation 4 again. There the leader's client could commit with
    the answer from the first one, while another member has its partition."""
    given_three(group, session_timeout_ms=60_000)
    begin_generation_4(group)
    group.restart()
    tokens = [group.send_join("b", instance_id="i2"), group.send_join("c")]
    group.wait(10_000)
    assert {group.answer(token, JoinGroupReply).generation for token in tokens} == {5}
    assert group.sync("a", 4, instance_id="i1").error == ErrorCode.ILLEGAL_GENERATION
    _token, verdict = group.commit("a", 4, FOO_0, instance_id="i1")
    assert verdict.error == ErrorCode.ILLEGAL_GENERATION


def test_members_keep_their_partitions_until_a_lost_generation_is_replaced(
    group: GroupScript,
) -> None:
    """Some clients know generation 4, others only generation 3. ILLEGAL_GENERATION would make them
    drop their partitions."""
    given_three(group)
    begin_generation_4(group)
    group.restart()
    assert group.classic.phase is ClassicPhase.PREPARING_REBALANCE
    for generation in (3, 4):
        beaten = group.beat("c", generation)
        assert beaten.error == ErrorCode.REBALANCE_IN_PROGRESS
    assert group.sync("c", 4).error == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_begun_generation_is_forgotten_with_its_assignment(group: GroupScript) -> None:
    given_three(group)
    begin_generation_4(group)
    group.sync("a", 4, instance_id="i1", assignments={"a": FOO_0, "b": FOO_1, "c": FOO_2})
    assert [type(record) for record in left_live(group)] == [ClassicGroupMetadata]
    group.restart()
    assert group.classic.phase is ClassicPhase.STABLE


def test_a_begun_generation_is_forgotten_with_the_group(group: GroupScript) -> None:
    """A native member converts the group before the leader has distributed an assignment."""
    given_three(group)
    begin_generation_4(group)
    group.native("n")
    assert not any(isinstance(record, ClassicGenerationBegun) for record in left_live(group))


def test_removing_an_unstored_member_writes_no_record(group: GroupScript) -> None:
    """The member joined and left before it was assigned partitions. No restart would restore it."""
    given_three(group)
    member_id = group.take_id()
    group.send_join(member_id)
    group.leave(member_id)
    assert group.last_step.durable == ()


def test_the_last_member_leaves_an_empty_group(group: GroupScript) -> None:
    """The empty group is stored, and needs no removals."""
    group.given_classic_group(given_classic_group_member("a", FOO_0), generation=3)
    group.leave("a")
    assert [type(record) for record in group.last_step.durable] == [ClassicGroupMetadata]


def test_the_last_member_left_while_its_commit_was_in_flight(group: GroupScript) -> None:
    """The join phase waited for the commit. After the restart it waits for nothing."""
    group.given_classic_group(given_classic_group_member("a", FOO_0), generation=3)
    group.commit("a", 3, FOO_0)
    group.leave("a")
    group.restart()
    group.wait(0)
    assert group.classic.phase is ClassicPhase.EMPTY
    assert group.classic.core.generation == 4
    assert not group.engine.state.deadlines
