"""Offsets of groups of either kind: the engine checks, the cluster stores (rules 2.9, 3.15)."""

import pytest

from coordinator.interface.records import MemberState
from coordinator.interface.volatile_records import DeadlineKind
from kafka_codecs.error_codes import ErrorCode
from tests.simulation.replay import compact_log
from tests.support.group_records import given_classic, given_classic_group_member, given_native
from tests.support.group_script import GroupScript


def test_a_deleted_consumer_group_leaves_nothing_in_its_log(group: GroupScript) -> None:
    """Every record has a tombstone. A leftover target epoch would affect the next group of that
    name."""
    group.native("n1")
    group.native("n1", -1)
    assert group.delete_group().error == ErrorCode.NONE
    assert compact_log(group.log) == []
    assert not group.engine.state.deadlines
    assert group.engine.state.is_quiet


def test_deleting_a_classic_group_stops_its_timers(group: GroupScript) -> None:
    """A group with only a pending id counts as empty."""
    group.take_id()
    assert group.delete_group().error == ErrorCode.NONE
    assert compact_log(group.log) == []
    assert not group.engine.state.deadlines


def test_a_group_with_members_is_not_deleted(group: GroupScript) -> None:
    """Groups of either kind answer NON_EMPTY_GROUP."""
    group.native("n1")
    assert group.delete_group().error == ErrorCode.NON_EMPTY_GROUP
    assert group.view().group_type == "consumer"


def test_a_late_answer_to_a_lost_commit_stops_its_timer(group: GroupScript) -> None:
    """The cluster has answered after all, so the commit holds nothing any more."""
    group.native("n1")
    token, verdict = group.commit("n1", 2, {"foo": (0,)})
    assert verdict.error == ErrorCode.NONE
    group.commit_answered(token, lost=True)
    assert group.left_ms(DeadlineKind.LOST_COMMIT, str(token)) == 5_000
    assert group.fetch(of={"foo": (0,)}).error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    group.commit_answered(token)
    assert group.left_ms(DeadlineKind.LOST_COMMIT, str(token)) is None
    assert group.fetch(of={"foo": (0,)}).error == ErrorCode.NONE


def test_a_returning_static_member_waits_for_its_predecessors_commit(group: GroupScript) -> None:
    """The member would start before that commit, or the commit would overwrite a later one of its
    own."""
    foo = {"foo": (0,)}
    group.given_consumer_group(
        given_classic("c1", instance_id="i1", assigned=foo, target=foo), given_native("n1")
    )
    token, verdict = group.commit("c1", 10, foo)
    assert verdict.error == ErrorCode.NONE

    returned = group.join(instance_id="i1")
    assert group.fetch(of=foo).error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    _, too_early = group.commit(returned.member_id, returned.generation, foo)
    assert too_early.error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    group.commit_answered(token)
    assert group.fetch(of=foo).error == ErrorCode.NONE


def test_a_commit_of_an_unheld_partition_holds_no_partition(group: GroupScript) -> None:
    """A member may commit any partition at its own epoch (rule 3.15), but blocks only its own
    partitions."""
    group.given_consumer_group(
        given_native("n1", assigned={"foo": (0,)}),
        given_native("n2", target={"foo": (1, 2)}, state=MemberState.UNRELEASED_PARTITIONS),
    )
    _, verdict = group.commit("n1", 10, {"foo": (1, 2)})
    assert verdict.error == ErrorCode.NONE
    group.native("n2", 10, owned={})
    assert group.granted_partitions("n2") == {"foo": (1, 2)}


def test_a_commit_without_a_member_holds_no_partition(group: GroupScript) -> None:
    """A consumer that uses assign() commits to an empty consumer group with an id of its own."""
    group.native("n1")
    group.native("n1", -1)
    _, verdict = group.commit("somebody", -1, {"foo": (0,)})
    assert verdict.error == ErrorCode.NONE
    group.wait(group.config.consumer_assignment_interval_ms)
    assert group.native("n1").error == ErrorCode.NONE
    assert group.granted_partitions("n1")["foo"] == (0, 1, 2)


@pytest.mark.parametrize("kind", ["none", "classic", "consumer"])
def test_a_commit_without_a_member_ends_before_a_member_starts_there(
    group: GroupScript, kind: str
) -> None:
    """An admin resets an empty group of either kind. A late reset would undo the commit of a member
    that joined since. It does not block readers without a membership."""
    foo = {"foo": (0,)}
    match kind:
        case "classic":
            group.stable_classic_group({"a": foo})
            group.leave(*group.classic.members)
        case "consumer":
            group.native("n1")
            group.native("n1", -1)
        case _:
            pass
    token, verdict = group.commit("", -1, foo)
    assert verdict.error == ErrorCode.NONE
    assert group.fetch(of=foo).error == ErrorCode.NONE
    assert group.commit("", -1, {"foo": (1,)})[1].error == ErrorCode.NONE

    joined = group.native("n2")
    too_early = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert group.fetch(of=foo).error == too_early
    assert group.commit("n2", joined.member_epoch, foo)[1].error == too_early
    group.commit_answered(token)
    assert group.fetch(of=foo).error == ErrorCode.NONE
    assert group.commit("n2", joined.member_epoch, foo)[1].error == ErrorCode.NONE


def test_a_lost_commit_without_a_member_is_stray(group: GroupScript) -> None:
    """The cluster may store it at any time, over later commits."""
    foo = {"foo": (0,)}
    token, _ = group.commit("", -1, foo)
    group.commit_answered(token, lost=True)
    too_early = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert group.fetch(of=foo).error == too_early
    assert group.commit("", -1, foo)[1].error == too_early
    group.commit_answered(token)
    assert group.commit("", -1, foo)[1].error == ErrorCode.NONE


def test_a_members_commit_in_flight_does_not_delay_fetches(group: GroupScript) -> None:
    """Admin tools read offsets of partitions that members commit continually."""
    group.native("n1")
    token, _ = group.commit("n1", 2, {"foo": (0,)})
    assert group.fetch(of={"foo": (0,)}).error == ErrorCode.NONE
    group.commit_answered(token)


def test_offsets_of_topics_that_a_classic_group_subscribes_to_stay(group: GroupScript) -> None:
    """The selected protocol determines the subscriptions."""
    group.stable_classic_group({"a": {"foo": (0,)}})
    assert group.delete_offsets("foo", "bar").subscribed == {"foo"}
    group.leave(*group.classic.members)
    assert group.delete_offsets("foo", "bar").subscribed == frozenset()


def test_unknown_topics_count_as_subscribed(group: GroupScript) -> None:
    """Topics are unknown before a protocol is selected, or if a subscription is unreadable (rule
    2.9)."""
    member_id = group.take_id()
    group.send_join(member_id)
    assert group.delete_offsets("foo", "bar").subscribed == {"foo", "bar"}
    group.given_classic_group(given_classic_group_member("c1", metadata=b"junk"))
    assert group.delete_offsets("foo", "bar").subscribed == {"foo", "bar"}


def test_offsets_of_a_foreign_group_stay(group: GroupScript) -> None:
    """The engine cannot know the topics of its members."""
    group.given_classic_group(given_classic_group_member("c1"), protocol_type="connect")
    assert group.delete_offsets("foo").error == ErrorCode.NON_EMPTY_GROUP


@pytest.mark.parametrize(
    ("epoch", "version", "is_transactional", "error"),
    [
        (-1, 9, False, ErrorCode.NONE),
        (-1, 9, True, ErrorCode.NONE),
        (0, 9, False, ErrorCode.GROUP_ID_NOT_FOUND),
        (0, 8, False, ErrorCode.ILLEGAL_GENERATION),
        (3, 5, True, ErrorCode.ILLEGAL_GENERATION),
        (3, 6, True, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_a_commit_without_a_group_needs_no_generation(
    group: GroupScript, epoch: int, version: int, is_transactional: bool, error: ErrorCode
) -> None:
    """A commit with a generation is refused, with a code that the version knows (rule 2.9)."""
    foo = {"foo": (0,)}
    _, verdict = group.commit("", epoch, foo, version=version, is_transactional=is_transactional)
    assert verdict.error == error


def test_a_stray_commit_blocks_its_own_partitions_only(group: GroupScript) -> None:
    """A fetch of all partitions waits as well."""
    group.native("n1")
    token, _ = group.commit("n1", 2, {"foo": (0,)})
    group.commit_answered(token, lost=True)
    errors = [group.fetch(of=of).error for of in ({"foo": (1,)}, {"foo": (0, 1)}, None)]
    too_early = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert errors == [ErrorCode.NONE, too_early, too_early]
    assert group.commit("n1", 2, {"foo": (1,)})[1].error == ErrorCode.NONE


def test_offsets_of_topics_that_a_consumer_group_subscribes_to_stay(group: GroupScript) -> None:
    """The others of the request may be deleted."""
    group.native("n1")
    assert group.delete_offsets("bar").subscribed == frozenset()
    assert group.delete_offsets("bar", "foo").subscribed == {"foo"}
