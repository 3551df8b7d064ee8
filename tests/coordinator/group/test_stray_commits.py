"""Commits in flight of members that join again (DEV D34)."""

from kafka_codecs.error_codes import ErrorCode
from tests.support.group_records import given_classic_group_member
from tests.support.group_script import GroupScript


def test_a_member_that_joins_again_waits_for_its_commit_in_flight(group: GroupScript) -> None:
    """Another process may have come back with the id of one that crashed. It would take the commit
    of its predecessor back."""
    foo = {"foo": (0,)}
    epoch = group.native("n1").member_epoch
    token, _ = group.commit("n1", epoch, foo)
    epoch = group.native("n1").member_epoch
    too_early = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert group.fetch("n1", epoch, of=foo).error == too_early
    assert group.commit("n1", epoch, foo)[1].error == too_early
    group.commit_answered(token)
    assert group.fetch("n1", epoch, of=foo).error == ErrorCode.NONE


def test_a_classic_member_of_a_mixed_group_waits_for_its_commit_in_flight(
    group: GroupScript,
) -> None:
    """A fetch before version 9 has no member id."""
    foo = {"foo": (0,)}
    group.native("n1")
    member_id = group.take_id()
    joined = group.join(member_id)
    token, _ = group.commit(member_id, joined.generation, foo)
    group.join(member_id)
    assert group.fetch(of=foo).error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    group.commit_answered(token)
    assert group.fetch(of=foo).error == ErrorCode.NONE


def test_a_member_of_a_classic_group_waits_for_its_commit_in_flight(group: GroupScript) -> None:
    """A restarted follower that offers the same protocols stays in its generation."""
    foo = {"foo": (0,)}
    group.given_classic_group(
        given_classic_group_member("a", {"foo": (1,)}),
        given_classic_group_member("b", foo, instance_id="i2"),
        generation=3,
    )
    token, _ = group.commit("b", 3, foo)
    assert group.fetch(of=foo).error == ErrorCode.NONE
    assert group.join("b", instance_id="i2").generation == 3
    assert group.fetch(of=foo).error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    group.commit_answered(token)
    assert group.fetch(of=foo).error == ErrorCode.NONE
