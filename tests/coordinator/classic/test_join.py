"""JoinGroup on a classic group (rules 2.2 to 2.4)."""

import pytest

from coordinator.interface.config import GroupConfig
from coordinator.interface.records import RemovalCause
from coordinator.interface.replies import JoinGroupReply, SyncGroupReply
from coordinator.interface.volatile_records import (
    ClassicGroupMemberDropped,
    ClassicPhase,
    DeadlineKind,
)
from kafka_codecs.error_codes import ErrorCode
from tests.coordinator.conftest import MakeGroup
from tests.support.group_records import given_classic_group_member
from tests.support.group_script import GroupScript, make_topics, subscription


def stable_static_member(group: GroupScript, instance_id: str = "i1") -> str:
    """A Stable group with one static member at generation 1."""
    token = group.send_join(instance_id=instance_id)
    group.wait(3_000)
    member_id = group.answer(token, JoinGroupReply).member_id
    group.sync(member_id, 1, instance_id=instance_id, assignments={member_id: {"foo": (0, 1, 2)}})
    return member_id


def test_a_member_stays_static_when_it_leaves_its_instance_id_out(group: GroupScript) -> None:
    """The index of instance ids would point to a removed member."""
    member_id = stable_static_member(group)
    group.join(member_id)  # the leader's join completes a rebalance immediately
    assert group.classic.members[member_id].instance_id == "i1"
    group.leave(member_id)
    again = group.send_join(instance_id="i1")
    group.wait(3_000)
    assert group.answer(again, JoinGroupReply).error == ErrorCode.NONE
    assert group.classic.phase is ClassicPhase.COMPLETING_REBALANCE


def test_a_member_keeps_the_client_of_its_first_join(group: GroupScript) -> None:
    """Neither a restart under its instance id nor a rejoin from elsewhere changes it, as in
    Kafka."""
    member_id = stable_static_member(group)
    again = group.join(instance_id="i1", client_id="elsewhere").member_id
    assert group.classic.members[again].client_id == "client"
    group.join(again, instance_id="i1", client_id="elsewhere")
    assert (member_id in group.classic.members, again in group.classic.members) == (False, True)
    assert group.classic.members[again].client_id == "client"


def test_an_empty_instance_id_makes_a_static_member(group: GroupScript) -> None:
    """The member joins in one request, and its id begins with a dash."""
    token = group.send_join(instance_id="")
    group.wait(3_000)
    assert group.answer(token, JoinGroupReply).member_id.startswith("-")
    assert group.take_id().startswith("client-")


def test_a_refused_first_join_creates_no_group(group: GroupScript) -> None:
    """DEV D55: Kafka keeps an empty group for every group id that a client tries."""
    refused = group.join("made-up", protocols=())
    assert (refused.error, refused.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "made-up")
    assert group.view().state == "Dead"
    assert group.join(protocols=()).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert group.view().state == "Dead"


def test_a_member_beyond_the_size_limit_is_removed(make_group: MakeGroup) -> None:
    """The member joins too late in a full join phase, and the others need not wait for it."""
    group = make_group(config=GroupConfig(classic_max_size=2))
    ids = group.stable_classic_group({"a": {"foo": (0,)}, "b": {"foo": (1,)}})
    group.leave(ids["a"])
    new = [group.take_id() for _ in range(2)]
    tokens = [group.send_join(id_) for id_ in new]
    assert group.join(ids["b"]).error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert group.classic.members.keys() == set(new)
    assert [group.answer(token, JoinGroupReply).generation for token in tokens] == [2, 2]


def test_a_member_refused_by_the_size_limit_is_removed_with_that_cause(
    make_group: MakeGroup,
) -> None:
    """The event log must not report a timeout."""
    group = make_group(config=GroupConfig(classic_max_size=1))
    group.given_classic_group(given_classic_group_member("a"), given_classic_group_member("b"))
    group.send_join("a")
    assert group.join("b").error == ErrorCode.GROUP_MAX_SIZE_REACHED
    causes = [r.cause for r in group.last_step.records if isinstance(r, ClassicGroupMemberDropped)]
    assert causes == [RemovalCause.GROUP_FULL]


def test_a_static_member_rejoins_a_full_group(make_group: MakeGroup) -> None:
    """DEV D29: in a classic group of Kafka it waits for its own session to end; in a consumer group
    it does not (4.3.2)."""
    group = make_group(config=GroupConfig(classic_max_size=1))
    stable_static_member(group)
    assert group.join(instance_id="i1").error == ErrorCode.NONE
    assert group.join(instance_id="i2").error == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_replaced_members_answer_echoes_its_own_id(group: GroupScript) -> None:
    """Its parked JoinGroup is answered with FENCED_INSTANCE_ID (KIP-345)."""
    group.given_classic_group(
        given_classic_group_member("a", instance_id="i1"), given_classic_group_member("b")
    )
    waiting = group.send_join("a", instance_id="i1")
    group.send_join(instance_id="i1")
    fenced = group.answer(waiting, JoinGroupReply)
    assert (fenced.error, fenced.member_id) == (ErrorCode.FENCED_INSTANCE_ID, "a")


def test_the_group_does_not_wait_for_a_member_replaced_before_its_sync(group: GroupScript) -> None:
    """The sync phase ends with the last missing SyncGroup, and its timer stops."""
    tokens = [group.send_join(instance_id=instance_id) for instance_id in ("i1", "i2")]
    group.wait(6_000)
    replies = [group.answer(token, JoinGroupReply) for token in tokens]
    leader = replies[0].leader
    late = next(n for n, reply in enumerate(replies) if reply.member_id != leader)
    group.send_sync(leader, 1, instance_id=f"i{2 - late}", assignments={leader: {"foo": (0, 1, 2)}})
    assert group.left_ms(DeadlineKind.SYNC_PHASE) is not None
    assert group.join(instance_id=f"i{late + 1}").error == ErrorCode.NONE
    assert group.left_ms(DeadlineKind.SYNC_PHASE) is None


def test_the_oldest_unused_id_gives_way(
    group: GroupScript, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that requests ids without using them does not exhaust the memory."""
    monkeypatch.setattr("coordinator.classic.join.PENDING_IDS_MAX", 2)
    first, second, third = (group.take_id() for _ in range(3))
    assert group.classic.pending_ids.keys() == {second, third}
    assert group.left_ms(DeadlineKind.PENDING_ID, first) is None
    assert group.join(first).error == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_unused_id_blocks_the_join_phase_for_a_limited_time(
    make_group: MakeGroup,
) -> None:
    """DEV D12: the limit is a setting. Without it, the session timeout is the limit, as in
    Kafka."""
    group = make_group(config=GroupConfig(classic_pending_id_timeout_ms=500))
    group.given_classic_group(given_classic_group_member("a"))
    lost = group.take_id(session_timeout_ms=30_000)
    waiting = group.send_join("a")
    group.wait(499)
    assert group.is_parked(waiting)
    group.wait(1)
    assert group.answer(waiting, JoinGroupReply).error == ErrorCode.NONE
    assert group.join(lost).error == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(("timeout_ms", "fits"), [(5, False), (6, True), (9, True), (10, False)])
def test_the_bounds_of_a_session_timeout_are_inclusive(
    make_group: MakeGroup, timeout_ms: int, fits: bool
) -> None:
    """Both bounds are allowed."""
    config = GroupConfig(classic_min_session_timeout_ms=6, classic_max_session_timeout_ms=9)
    reply = make_group(config=config).join(session_timeout_ms=timeout_ms)
    assert (reply.error == ErrorCode.INVALID_SESSION_TIMEOUT) is not fits


def test_a_join_refused_by_the_size_limit_starts_no_rebalance(make_group: MakeGroup) -> None:
    """The joiner is refused, and nothing else happens."""
    group = make_group(config=GroupConfig(classic_max_size=1))
    group.given_classic_group(given_classic_group_member("a"))
    assert group.join().error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert group.last_step.records == ()


def test_a_pending_id_refused_by_the_size_limit_does_not_block_the_join_phase(
    make_group: MakeGroup,
) -> None:
    """The id was handed out while there was room. The join phase continues without it."""
    group = make_group(config=GroupConfig(classic_max_size=1))
    first, second = group.take_id(), group.take_id()
    token = group.send_join(first)
    assert group.join(second).error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert not group.classic.pending_ids
    group.wait(3_000)
    assert group.answer(token, JoinGroupReply).error == ErrorCode.NONE


@pytest.mark.parametrize("version", [8, 9])
def test_a_static_leader_that_restarts(group: GroupScript, version: int) -> None:
    """The group does not rebalance. A client that supports skip_assignment learns that it leads,
    and receives the members (KIP-814). An older one would assign again, so its answer names the old
    id as leader."""
    group.given_classic_group(
        given_classic_group_member("a", instance_id="i1"),
        given_classic_group_member("b"),
        generation=3,
    )
    reply = group.join(instance_id="i1", version=version)
    assert (reply.error, reply.generation) == (ErrorCode.NONE, 3)
    assert group.classic.core.leader == reply.member_id
    if version >= 9:
        assert (reply.leader, reply.skip_assignment) == (reply.member_id, True)
        assert {member.member_id for member in reply.members} == {reply.member_id, "b"}
    else:
        assert (reply.leader, reply.skip_assignment, reply.members) == ("a", False, ())


@pytest.mark.parametrize("restarts", [False, True])
def test_a_group_watches_its_topics_for_an_unaware_static_leader(
    group: GroupScript, *, restarts: bool
) -> None:
    """DEV D11: this holds even after a restart of the gateway. In Kafka no member watches them."""
    stable_static_member(group)
    member_id = group.join(instance_id="i1", version=8).member_id
    group.sync(member_id, 1, instance_id="i1")
    if restarts:
        group.restart()
    assert group.beat(member_id, 1, instance_id="i1").error == ErrorCode.NONE
    group.topics = make_topics(2, foo=4)
    beat = group.beat(member_id, 1, instance_id="i1")
    assert beat.error == ErrorCode.REBALANCE_IN_PROGRESS
    reply = group.join(member_id, instance_id="i1", version=8)
    assert (reply.leader, reply.generation) == (member_id, 2)


@pytest.mark.parametrize("version", [8, 9])
def test_a_topic_change_while_a_static_leader_was_away_starts_a_rebalance(
    group: GroupScript, version: int
) -> None:
    """DEV D11: the leader returns to the current topics, so it would never notice the new
    partition."""
    stable_static_member(group)
    group.topics = make_topics(2, foo=4)
    reply = group.join(instance_id="i1", version=version)
    assert (reply.leader, reply.generation) == (reply.member_id, 2)
    assert not reply.skip_assignment


def test_a_static_member_that_restarts_when_it_had_to_rejoin_starts_a_rebalance(
    group: GroupScript,
) -> None:
    """The new process does not know that foo-1, which the member had to give up, waits for that
    (DEV D59)."""
    sticky = "cooperative-sticky"
    revoking = subscription(("foo",), owned={"foo": (0, 1)})
    group.given_classic_group(
        given_classic_group_member("a", {}, protocol=sticky),
        given_classic_group_member(
            "b", {"foo": (0,)}, protocol=sticky, metadata=revoking, instance_id="i1"
        ),
    )
    group.send_join(instance_id="i1", protocol=sticky)
    assert group.classic.phase is ClassicPhase.PREPARING_REBALANCE


@pytest.mark.parametrize("assignment", [b"\0", None])
def test_a_static_member_that_restarts_with_an_assignment_that_cannot_be_read(
    group: GroupScript, assignment: bytes | None
) -> None:
    """Nobody knows that it has to rejoin."""
    sticky = "cooperative-sticky"
    member = given_classic_group_member(
        "b",
        {"foo": (0,)},
        protocol=sticky,
        assignment=assignment,
        metadata=b"\0" if assignment is None else None,
        instance_id="i1",
    )
    group.given_classic_group(given_classic_group_member("a", {}, protocol=sticky), member)
    assert group.join(instance_id="i1", protocol=sticky).error == ErrorCode.NONE


@pytest.mark.parametrize("instance_id", ["i1", "i2"])
def test_a_static_member_that_restarts_with_another_subscription(
    group: GroupScript, instance_id: str
) -> None:
    """DEV D59: the group rebalances for a leader or follower. In Kafka the partitions of the new
    topic have no owner, and those of the dropped one have none either."""
    group.given_classic_group(
        given_classic_group_member("a", {"foo": (0, 1)}, instance_id="i1"),
        given_classic_group_member("b", {"foo": (2,)}, instance_id="i2"),
        generation=3,
    )
    token = group.send_join(instance_id=instance_id, topics=["bar"])
    assert group.is_parked(token)
    other = {"i1": "b", "i2": "a"}[instance_id]
    beat = group.beat(other, 3, instance_id={"a": "i1", "b": "i2"}[other])
    assert beat.error == ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("version", [8, 9])
def test_a_static_follower_that_restarts(group: GroupScript, version: int) -> None:
    """The follower learns who leads, and has no assignment to skip."""
    group.given_classic_group(
        given_classic_group_member("a"),
        given_classic_group_member("b", instance_id="i2"),
        generation=3,
    )
    reply = group.join(instance_id="i2", version=version)
    assert (reply.error, reply.generation) == (ErrorCode.NONE, 3)
    assert (reply.leader, reply.skip_assignment, reply.members) == ("a", False, ())


def test_a_join_with_a_foreign_instance_id_is_fenced(group: GroupScript) -> None:
    """The client learns that another member has its instance id (KIP-345)."""
    group.given_classic_group(
        given_classic_group_member("a", instance_id="i1"), given_classic_group_member("b")
    )
    assert group.join("b", instance_id="i1").error == ErrorCode.FENCED_INSTANCE_ID
    assert group.join("b", instance_id="i9").error == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_lost_answer_is_repeated(group: GroupScript) -> None:
    """The members have joined but not synced. A repeated join with the same list disturbs no
    member, leader or not."""
    ids = [group.take_id() for _ in range(2)]
    tokens = [group.send_join(id_) for id_ in ids]
    group.wait(6_000)
    for id_, token in zip(ids, tokens, strict=True):
        assert group.join(id_) == group.answer(token, JoinGroupReply)
    assert group.classic.phase is ClassicPhase.COMPLETING_REBALANCE
    assert group.classic.core.generation == 1


def test_a_member_replaced_during_its_sync_is_fenced(group: GroupScript) -> None:
    """The others join again, because the generation was not complete."""
    tokens = [group.send_join(instance_id=instance_id) for instance_id in ("i1", "i2")]
    group.wait(6_000)
    replies = [group.answer(token, JoinGroupReply) for token in tokens]
    follower = next(n for n, reply in enumerate(replies) if reply.member_id != reply.leader)
    instance_id = f"i{follower + 1}"
    waiting = group.send_sync(replies[follower].member_id, 1, instance_id=instance_id)
    again = group.send_join(instance_id=instance_id)
    assert group.answer(waiting, SyncGroupReply).error == ErrorCode.FENCED_INSTANCE_ID
    assert group.is_parked(again)
    assert group.classic.phase is ClassicPhase.PREPARING_REBALANCE


def test_a_member_is_shown_with_its_client(group: GroupScript) -> None:
    """Admins see where the member runs."""
    stable_static_member(group)
    (view,) = group.view().members
    assert (view.client_id, view.client_host) == ("client", "/127.0.0.1")
    assert (view.member_id, view.instance_id) == (group.classic.core.leader, "i1")
    assert view.is_classic


def test_the_first_member_leads_even_if_it_restarts_before_the_first_rebalance(
    group: GroupScript,
) -> None:
    """The static member that replaces it is the leader, as in Kafka, although the other has waited
    for longer."""
    group.send_join(instance_id="i1")
    other = group.send_join(instance_id="i2")
    again = group.send_join(instance_id="i1")
    group.wait(6_000)
    first = group.answer(again, JoinGroupReply)
    assert first.leader == first.member_id == group.answer(other, JoinGroupReply).leader


def test_a_member_that_rejoins_does_not_count_as_new(make_group: MakeGroup) -> None:
    """Only a new member is removed if the rebalance takes too long (rule 2.5)."""
    group = make_group(config=GroupConfig(classic_new_member_join_timeout_ms=1_000))
    group.given_classic_group(given_classic_group_member("a"), given_classic_group_member("b"))
    group.send_join("a")
    group.wait(2_000)
    assert "a" in group.classic.members


def test_the_leader_leads_on_after_another_member_left(group: GroupScript) -> None:
    """Even if others rejoin before it: only its own end elects another (rule 2.5)."""
    group.given_classic_group(*map(given_classic_group_member, "abc"))
    group.leave("c")
    group.send_join("b")
    assert group.join("a").leader == "a"
