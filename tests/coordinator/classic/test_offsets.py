"""Offset requests to a classic group (rule 2.9)."""

import pytest

from coordinator.interface.volatile_records import DeadlineKind
from kafka_codecs.error_codes import ErrorCode
from tests.support.group_records import given_classic_group_member
from tests.support.group_script import GroupScript

FOO_0 = {"foo": (0,)}


@pytest.mark.parametrize(("member_id", "instance_id"), [("", None), ("", "i1"), ("somebody", None)])
def test_an_empty_group_accepts_commits_without_generation(
    group: GroupScript, member_id: str, instance_id: str | None
) -> None:
    """Admin tools send them, and consumers that use assign(), which include their instance id
    although they are not members."""
    group.take_id()
    _, verdict = group.commit(member_id, -1, FOO_0, instance_id=instance_id)
    assert verdict.error == ErrorCode.NONE


def test_an_empty_group_refuses_a_generation(group: GroupScript) -> None:
    """The client considers itself a member. 0 is a generation as well."""
    group.take_id()
    assert group.commit("a", 1, FOO_0)[1].error == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.commit("a", 0, FOO_0)[1].error == ErrorCode.UNKNOWN_MEMBER_ID


def test_commits_do_not_delay_a_completed_join_phase(group: GroupScript) -> None:
    """The join phase waits only for commits in flight. Further commits could delay it for ever."""
    ids = group.stable_classic_group({"a": {"foo": (0,)}, "b": {"foo": (1,)}})
    waiting = group.send_join(ids["a"], topics=("foo", "bar"))
    commit, verdict = group.commit(ids["b"], 1, {"foo": (1,)})
    assert verdict.error == ErrorCode.NONE
    for _ in range(10):
        group.wait(1_000)
        group.beat(ids["b"], 1)
    _, too_late = group.commit(ids["b"], 1, {"foo": (1,)})
    assert too_late.error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert group.is_parked(waiting)
    group.commit_answered(commit)
    assert not group.is_parked(waiting)


def test_a_group_with_members_accepts_only_commits_of_members(group: GroupScript) -> None:
    """Each refusal has its own code."""
    ids = group.stable_classic_group({"a": FOO_0})
    errors = [
        group.commit("", -1, FOO_0)[1].error,
        group.commit("stranger", 1, FOO_0)[1].error,
        group.commit(ids["a"], 7, FOO_0)[1].error,
        group.commit(ids["a"], 1, FOO_0, instance_id="i1")[1].error,
        group.commit("", 1, FOO_0, is_transactional=True)[1].error,
        group.commit("", -1, FOO_0, is_transactional=True)[1].error,
        group.commit(ids["a"], 1, FOO_0)[1].error,
    ]
    assert errors == [
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
        ErrorCode.NONE,
    ]


def test_a_commit_is_a_sign_of_life(group: GroupScript) -> None:
    """A commit restarts the session like a heartbeat."""
    a = group.stable_classic_group({"a": FOO_0})["a"]
    group.wait(4_000)
    group.commit(a, 1, FOO_0)
    assert group.left_ms(DeadlineKind.SESSION, a) == 10_000


def test_a_commit_between_join_and_sync_is_refused(group: GroupScript) -> None:
    """The assignment is not known yet. A transaction may still end."""
    a = group.take_id()
    group.send_join(a)
    group.wait(3_000)
    assert group.commit(a, 1, FOO_0)[1].error == ErrorCode.REBALANCE_IN_PROGRESS
    assert group.commit(a, 1, FOO_0, is_transactional=True)[1].error == ErrorCode.NONE


def test_the_next_generation_waits_for_a_commit_in_flight(group: GroupScript) -> None:
    """The generation might give the partition to a member that fetches the offset before that
    commit."""
    a = group.stable_classic_group({"a": FOO_0})["a"]
    commit, _ = group.commit(a, 1, FOO_0)
    token = group.send_join(a)
    assert group.is_parked(token)
    group.commit_answered(commit)
    assert not group.is_parked(token)
    assert group.classic.core.generation == 2


def test_a_transaction_is_no_sign_of_life(group: GroupScript) -> None:
    """The producer sends it, whatever the consumer does."""
    a = group.stable_classic_group({"a": FOO_0})["a"]
    group.wait(4_000)
    group.commit(a, 1, FOO_0, is_transactional=True)
    assert group.left_ms(DeadlineKind.SESSION, a) == 6_000


@pytest.mark.parametrize(
    ("member_id", "instance_id", "generation", "is_transactional", "error"),
    [
        ("a", None, -1, False, ErrorCode.ILLEGAL_GENERATION),
        ("a", None, -1, True, ErrorCode.ILLEGAL_GENERATION),
        ("", "i1", -1, False, ErrorCode.FENCED_INSTANCE_ID),
        ("", "i1", -1, True, ErrorCode.FENCED_INSTANCE_ID),
        ("", None, 0, True, ErrorCode.UNKNOWN_MEMBER_ID),
        ("a", "i1", 0, False, ErrorCode.NONE),
    ],
)
def test_a_commit_with_incomplete_member_data_is_checked(
    group: GroupScript,
    member_id: str,
    instance_id: str | None,
    generation: int,
    is_transactional: bool,
    error: ErrorCode,
) -> None:
    """Every given field must match. 0 is a generation."""
    group.given_classic_group(given_classic_group_member("a", FOO_0, instance_id="i1"))
    _, verdict = group.commit(
        member_id,
        generation,
        FOO_0,
        instance_id=instance_id,
        is_transactional=is_transactional,
    )
    assert verdict.error == error
