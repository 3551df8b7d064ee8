"""Handing a group back to another coordinator (rule 2.12, DEV D71)."""

import pytest

from coordinator.group.consumer_group import ConsumerGroupState
from coordinator.group.load import release_in
from coordinator.handlers.release import may_begin
from coordinator.interface.errors import InvariantError
from coordinator.interface.events import (
    AdoptionEnded,
    AdoptionMoved,
    GroupLost,
    ReleaseBegan,
    ReleaseMoved,
)
from coordinator.interface.records import (
    AdoptionState,
    ClassicGroupMetadata,
    ClassicGroupValue,
    MemberMetadata,
    ReleaseRecord,
    ReleaseState,
    RemovalCause,
)
from coordinator.interface.replies import JoinGroupReply
from kafka_codecs.error_codes import ErrorCode
from tests.support.group_records import given_classic_group_member
from tests.support.group_script import GroupScript

A = given_classic_group_member("a", {"foo": (0,)})
B = given_classic_group_member("b", {"foo": (1,)}, instance_id="i2")
GROUP = ClassicGroupValue(
    protocol_type="consumer", generation=41, protocol="range", leader="b", members=(A, B)
)


def serve(group: GroupScript) -> None:
    """A Stable group of two."""
    group.feed(AdoptionMoved(adoption=AdoptionState(group=GROUP, lock_generation=43)))
    group.feed(AdoptionEnded())


def test_the_group_becomes_its_release_in_one_batch(group: GroupScript) -> None:
    serve(group)
    group.feed(ReleaseBegan())
    assert group.engine.state.group is None
    assert group.last_step.durable[-1] == ReleaseRecord(value=ReleaseState(group=GROUP))
    assert ClassicGroupMetadata(value=None) in group.last_step.durable
    assert not group.engine.state.is_quiet
    group.check_replay()


def test_it_begins_only_in_a_stable_group(group: GroupScript) -> None:
    """Between two generations nobody knows who holds what."""
    serve(group)
    group.leave("a")
    assert not may_begin(group.engine.state)
    group.feed(ReleaseBegan())
    assert group.engine.state.release is None


def test_no_timer_outlives_the_group(group: GroupScript) -> None:
    """A member need not have asked for its assignment yet."""
    ids = [group.take_id(), group.take_id()]
    tokens = [group.send_join(member_id) for member_id in ids]
    group.wait(3 * group.config.classic_initial_rebalance_delay_ms)
    reply = group.answer(tokens[0], JoinGroupReply)
    group.sync(reply.leader, reply.generation, assignments={})
    assert group.classic.unsynced
    group.feed(ReleaseBegan())
    assert group.engine.state.group is None
    assert not group.engine.state.deadlines


def test_no_timer_outlives_an_empty_group_in_a_rebalance(group: GroupScript) -> None:
    """All its members were removed because another one was in the group in the cluster, and an id
    that nobody used held up the round (found by seed 20327 of the simulator)."""
    serve(group)
    group.take_id()
    group.feed(GroupLost(cause=RemovalCause.GROUP_TAKEN))
    assert group.engine.state.deadlines
    group.feed(ReleaseBegan())
    assert group.engine.state.group is None
    assert not group.engine.state.deadlines


def test_members_of_a_consumer_group_are_recorded_with_what_tells_them_apart(
    group: GroupScript,
) -> None:
    """A native one has no protocols; who held nothing has no assignment."""
    group.native("n-1")
    group.native("n-2")
    group.native("n-3", topics=("nobody",))
    group.feed(ReleaseBegan())
    assert group.engine.state.group is None
    (release,) = (record for record in group.last_step.durable if isinstance(record, ReleaseRecord))
    assert release.value is not None
    assert release.value.group is not None
    members = {member.member_id: member for member in release.value.group.members}
    assert {name: member.is_native for name, member in members.items()} == dict.fromkeys(
        ("n-1", "n-2", "n-3"), True
    )
    assert members["n-1"].assignment
    assert members["n-1"].session_timeout_ms == group.config.consumer_session_timeout_ms
    assert members["n-1"].rebalance_timeout_ms == 10_000
    assert not members["n-3"].assignment
    causes = {
        record.cause for record in group.last_step.durable if isinstance(record, MemberMetadata)
    }
    assert causes == {RemovalCause.RELEASED}
    group.check_replay()


def test_the_epochs_of_members_that_lag_are_recorded(group: GroupScript) -> None:
    """Their commits are checked by them."""
    group.native("n-1")
    group.native("n-2")
    group.feed(ReleaseBegan())
    release = release_in(group.last_step.durable)
    assert release is not None
    assert release.group is not None
    assert (release.group.generation, release.group.older_epochs) == (3, {"n-1": 2, "n-2": 2})
    group.check_replay()


def test_a_native_member_that_commits_meanwhile_is_told_that_its_epoch_is_over(
    group: GroupScript,
) -> None:
    """Native members expect no REBALANCE_IN_PROGRESS."""
    group.native("n-1")
    group.feed(ReleaseBegan())
    assert group.commit("n-1", 1, {"foo": (0,)})[1].error == ErrorCode.STALE_MEMBER_EPOCH
    assert group.commit("a", 1, {"foo": (0,)})[1].error == ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("member_id", ["n-1", "a"])
def test_a_producer_that_commits_meanwhile_aborts_its_transaction(
    group: GroupScript, member_id: str
) -> None:
    """Producers take REBALANCE_IN_PROGRESS for fatal, and before v6 STALE_MEMBER_EPOCH."""
    group.native("n-1")
    group.feed(ReleaseBegan())
    _token, verdict = group.commit(member_id, 1, {"foo": (0,)}, version=5, is_transactional=True)
    assert verdict.error == ErrorCode.ILLEGAL_GENERATION


def test_a_consumer_group_need_not_be_stable(group: GroupScript) -> None:
    """Its engine knows at any time who may hold a partition: each of them is recalled."""
    group.native("n-1")
    group.native("n-2")
    assert group.consumer.state is not ConsumerGroupState.STABLE
    assert may_begin(group.engine.state)


@pytest.mark.parametrize(
    ("event", "is_refused"),
    [
        (ReleaseBegan(), False),
        (ReleaseBegan(takes_natives=False), True),
        (ReleaseBegan(takes_mixed=False), False),
    ],
)
def test_a_group_stays_if_the_other_coordinator_does_not_take_its_members(
    group: GroupScript, event: ReleaseBegan, *, is_refused: bool
) -> None:
    group.native("n-1")
    group.feed(event)
    assert group.engine.state.is_leaving is not is_refused


def test_classic_members_keep_a_mixed_group_here_if_the_two_are_kept_apart(
    group: GroupScript,
) -> None:
    serve(group)
    group.native("n-1")
    group.feed(ReleaseBegan(takes_mixed=False))
    assert not group.engine.state.is_leaving
    group.feed(ReleaseBegan())
    assert group.engine.state.is_leaving


def test_members_are_told_to_rejoin_or_to_wait_meanwhile(group: GroupScript) -> None:
    """A request may have waited for its decision when the release began. It must not make a new
    group here."""
    serve(group)
    group.feed(ReleaseBegan())
    assert group.beat("a", 41).error == ErrorCode.REBALANCE_IN_PROGRESS
    assert group.leave("a").error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_a_released_group_is_quiet_and_its_log_knows(group: GroupScript) -> None:
    serve(group)
    group.feed(ReleaseBegan())
    group.feed(ReleaseMoved(release=ReleaseState(guard_id="anchor-1")))
    assert not group.engine.state.is_quiet
    group.feed(ReleaseMoved(release=ReleaseState()))
    assert not group.engine.state.is_leaving
    assert release_in(group.last_step.durable) == ReleaseState()
    group.check_replay()


def test_an_adoption_ends_the_release(group: GroupScript) -> None:
    """The last batch of the adoption ends it: an adoption that is undone leaves the group
    released."""
    group.feed(ReleaseBegan())
    group.feed(ReleaseMoved(release=ReleaseState()))
    group.feed(AdoptionMoved(adoption=AdoptionState(group=GROUP, lock_generation=43)))
    assert group.engine.state.release == ReleaseState()
    group.feed(AdoptionEnded())
    assert group.engine.state.release is None


def test_a_group_that_is_served_is_not_released_further(group: GroupScript) -> None:
    serve(group)
    with pytest.raises(InvariantError):
        group.feed(ReleaseMoved(release=ReleaseState()))
