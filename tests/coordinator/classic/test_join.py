"""JoinGroup on a classic group (rules 2.2 to 2.4)."""

import pytest

from coordinator.config import GroupConfig
from coordinator.records import RemovalCause
from coordinator.replies import JoinGroupReply, SyncGroupReply
from coordinator.volatile import ClassicGroupMemberDropped, ClassicPhase, DeadlineKind
from kafka_codecs.error_codes import ErrorCode
from tests.coordinator.conftest import MakeGroup
from tests.support.group_records import given_classic_group_member
from tests.support.group_script import GroupScript, make_topics


def stable_static_member(group: GroupScript, instance_id: str = "i1") -> str:
    """A group of one static member, Stable at generation 1."""
    token = group.send_join(instance_id=instance_id)
    group.wait(3_000)
    member_id = group.answer(token, JoinGroupReply).member_id
    group.sync(member_id, 1, instance_id=instance_id, assignments={member_id: {"foo": (0, 1, 2)}})
    return member_id


def test_a_member_stays_static_when_it_leaves_its_instance_id_out(group: GroupScript) -> None:
    """The index of instance ids must not point to a member that is gone."""
    member_id = stable_static_member(group)
    group.join(member_id)  # the leader: a rebalance, complete at once
    assert group.classic.members[member_id].instance_id == "i1"
    group.leave(member_id)
    again = group.send_join(instance_id="i1")
    group.wait(3_000)
    assert group.answer(again, JoinGroupReply).error == ErrorCode.NONE
    assert group.classic.phase is ClassicPhase.COMPLETING_REBALANCE


def test_a_member_is_shown_as_the_client_that_it_first_was(group: GroupScript) -> None:
    """A restart under its instance id, or a rejoin, from elsewhere: as in Kafka."""
    member_id = stable_static_member(group)
    again = group.join(instance_id="i1", client_id="elsewhere").member_id
    assert group.classic.members[again].client_id == "client"
    group.join(again, instance_id="i1", client_id="elsewhere")
    assert (member_id in group.classic.members, again in group.classic.members) == (False, True)
    assert group.classic.members[again].client_id == "client"


def test_an_id_is_made_of_the_instance_id_even_if_that_is_empty(group: GroupScript) -> None:
    """An empty one is one all the same: no second round, and nothing before the dash."""
    token = group.send_join(instance_id="")
    group.wait(3_000)
    assert group.answer(token, JoinGroupReply).member_id.startswith("-")
    assert group.take_id().startswith("client-")


def test_a_refused_first_join_creates_no_group(group: GroupScript) -> None:
    """DEV D55: Kafka keeps an empty group for every name that somebody tries."""
    assert group.join("made-up", protocols=()).error == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.view().state == "Dead"
    assert group.join(protocols=()).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert group.view().state == "Dead"


def test_a_member_that_no_longer_fits_is_removed(make_group: MakeGroup) -> None:
    """It comes too late to a join phase that is full: the others need not wait for it."""
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
    """The log must not blame the client's speed."""
    group = make_group(config=GroupConfig(classic_max_size=1))
    group.given_classic_group(given_classic_group_member("a"), given_classic_group_member("b"))
    group.send_join("a")
    assert group.join("b").error == ErrorCode.GROUP_MAX_SIZE_REACHED
    causes = [r.cause for r in group.last_step.records if isinstance(r, ClassicGroupMemberDropped)]
    assert causes == [RemovalCause.GROUP_FULL]


def test_a_static_member_finds_its_own_place_in_a_full_group(make_group: MakeGroup) -> None:
    """DEV D29: in Kafka it waits for its own session to end; a consumer group takes it (4.3.2)."""
    group = make_group(config=GroupConfig(classic_max_size=1))
    stable_static_member(group)
    assert group.join(instance_id="i1").error == ErrorCode.NONE
    assert group.join(instance_id="i2").error == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_replaced_members_answer_echoes_its_own_id(group: GroupScript) -> None:
    """Its JoinGroup, which waits, is answered FENCED_INSTANCE_ID (KIP-345)."""
    group.given_classic_group(
        given_classic_group_member("a", instance_id="i1"), given_classic_group_member("b")
    )
    waiting = group.send_join("a", instance_id="i1")
    group.send_join(instance_id="i1")
    fenced = group.answer(waiting, JoinGroupReply)
    assert (fenced.error, fenced.member_id) == (ErrorCode.FENCED_INSTANCE_ID, "a")


def test_the_group_does_not_wait_for_a_member_replaced_before_its_sync(group: GroupScript) -> None:
    """The sync phase is over with the last one that had yet to sync: its timer stops too."""
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
    """Whoever asks for ids and uses none does not fill the memory."""
    monkeypatch.setattr("coordinator.classic.join.PENDING_IDS_MAX", 2)
    first, second, third = (group.take_id() for _ in range(3))
    assert group.classic.pending_ids.keys() == {second, third}
    assert group.left_ms(DeadlineKind.PENDING_ID, first) is None
    assert group.join(first).error == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_unused_id_may_hold_up_the_others_for_less_than_a_session(
    make_group: MakeGroup,
) -> None:
    """DEV D12: a setting; without it the session timeout is the limit, as in Kafka."""
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
def test_the_bounds_of_a_session_timeout(
    make_group: MakeGroup, timeout_ms: int, fits: bool
) -> None:
    """Both are allowed themselves."""
    config = GroupConfig(classic_min_session_timeout_ms=6, classic_max_session_timeout_ms=9)
    reply = make_group(config=config).join(session_timeout_ms=timeout_ms)
    assert (reply.error == ErrorCode.INVALID_SESSION_TIMEOUT) is not fits


def test_a_join_refused_by_the_size_limit_starts_no_rebalance(make_group: MakeGroup) -> None:
    """A newcomer is turned away, and that is all."""
    group = make_group(config=GroupConfig(classic_max_size=1))
    group.given_classic_group(given_classic_group_member("a"))
    assert group.join().error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert group.last_step.records == ()


def test_a_pending_id_refused_by_the_size_limit_does_not_block_the_join_phase(
    make_group: MakeGroup,
) -> None:
    """It was handed out while there was room; the join phase goes on without it."""
    group = make_group(config=GroupConfig(classic_max_size=1))
    first, second = group.take_id(), group.take_id()
    token = group.send_join(first)
    assert group.join(second).error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert not group.classic.pending_ids
    group.wait(3_000)
    assert group.answer(token, JoinGroupReply).error == ErrorCode.NONE


@pytest.mark.parametrize("version", [8, 9])
def test_a_static_leader_that_restarts(group: GroupScript, version: int) -> None:
    """Nobody rebalances. A client that knows how to skip the assignment hears that it leads, and of
    whom (KIP-814); an older one would assign again, and hears that its old id leads."""
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
def test_a_static_leader_that_does_not_know_that_it_leads(
    group: GroupScript, *, restarts: bool
) -> None:
    """DEV D11: the group watches its topics by itself, also after a restart of the gateway;
    in Kafka nobody does."""
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
    """DEV D11: it returns to the topics as they are now, and would never miss the new
    partition."""
    stable_static_member(group)
    group.topics = make_topics(2, foo=4)
    reply = group.join(instance_id="i1", version=version)
    assert (reply.leader, reply.generation) == (reply.member_id, 2)
    assert not reply.skip_assignment


@pytest.mark.parametrize("instance_id", ["i1", "i2"])
def test_a_static_member_that_restarts_with_another_subscription(
    group: GroupScript, instance_id: str
) -> None:
    """DEV D59: leader or follower, the group rebalances. In Kafka nobody has the partitions of the
    topic that is new, nor those of the one that it gave up."""
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
    """It hears who leads, and has nothing to skip."""
    group.given_classic_group(
        given_classic_group_member("a"),
        given_classic_group_member("b", instance_id="i2"),
        generation=3,
    )
    reply = group.join(instance_id="i2", version=version)
    assert (reply.error, reply.generation) == (ErrorCode.NONE, 3)
    assert (reply.leader, reply.skip_assignment, reply.members) == ("a", False, ())


def test_a_join_names_its_own_instance(group: GroupScript) -> None:
    """A client whose instance id somebody else has by now is told so (KIP-345)."""
    group.given_classic_group(
        given_classic_group_member("a", instance_id="i1"), given_classic_group_member("b")
    )
    assert group.join("b", instance_id="i1").error == ErrorCode.FENCED_INSTANCE_ID
    assert group.join("b", instance_id="i9").error == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_lost_answer_is_repeated(group: GroupScript) -> None:
    """The members have joined and not synced: whoever asks again with the same list disturbs
    nobody, leader or not."""
    ids = [group.take_id() for _ in range(2)]
    tokens = [group.send_join(id_) for id_ in ids]
    group.wait(6_000)
    for id_, token in zip(ids, tokens, strict=True):
        assert group.join(id_) == group.answer(token, JoinGroupReply)
    assert group.classic.phase is ClassicPhase.COMPLETING_REBALANCE
    assert group.classic.core.generation == 1


def test_a_member_replaced_during_its_sync_is_fenced(group: GroupScript) -> None:
    """And the others join again, for the generation was not complete."""
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
    """Where it runs is for admins to see."""
    stable_static_member(group)
    (view,) = group.view().members
    assert (view.client_id, view.client_host) == ("client", "/127.0.0.1")
    assert (view.member_id, view.instance_id) == (group.classic.core.leader, "i1")
    assert view.is_classic
