"""The simulated broker's requests, answers and views."""

from dataclasses import replace

import pytest

from gateway.hosting.lookup_outcome import LiveMembers, NoMembers
from kafka_codecs.describe_groups import DescribeGroupsRequest
from kafka_codecs.error_codes import ErrorCode
from tests.simulation.broker_profiles import KAFKA_2_8, KAFKA_4_3, PROFILES, BrokerProfile
from tests.simulation.broker_stage import ANCHOR, GROUP, PRIVATE, RANGE, BrokerStage
from tests.simulation.explorer.copies import copy, restore

on_each_release = pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.release)


@on_each_release
def test_a_commit_needs_the_ids_of_a_member(profile: BrokerProfile) -> None:
    stage = BrokerStage(profile)
    assert stage.commit(1) == 0
    member_id, generation = stage.enter(instance_id="i")
    assert stage.commit(2) == ErrorCode.UNKNOWN_MEMBER_ID
    ids = {"member_id": member_id, "instance_id": "i"}
    assert stage.commit(3, **ids, epoch=generation) == 0
    assert stage.commit(4, **ids, epoch=generation - 1) == ErrorCode.ILLEGAL_GENERATION
    stage.join(instance_id="i")
    assert stage.commit(5, **ids, epoch=generation) == ErrorCode.FENCED_INSTANCE_ID
    assert stage.broker.offsets == {(GROUP, "foo", 0): 3}


@on_each_release
def test_no_commit_is_taken_between_join_and_sync(profile: BrokerProfile) -> None:
    stage = BrokerStage(profile)
    leader, _generation = stage.enter()
    stage.join(leader)
    ids = {"member_id": leader, "epoch": 2}
    assert stage.commit(1, **ids) == ErrorCode.REBALANCE_IN_PROGRESS
    stage.sync(leader, 2, {leader: {"foo": [0]}})
    assert stage.commit(2, **ids) == 0


def test_a_look_shows_who_is_in_the_group() -> None:
    stage = BrokerStage(KAFKA_4_3)
    assert stage.broker.look(GROUP) == NoMembers()
    leader, _generation = stage.enter()
    assert stage.broker.look(GROUP) == LiveMembers("consumer", ("c",), "range")
    stage.native("n", instance_id="i")
    seen = stage.broker.look(GROUP)
    assert isinstance(seen, LiveMembers)
    assert seen.native_ids == (frozenset({"n", "i"}),)
    assert len(seen.client_ids) == 2
    stage.leave(leader)
    stage.native("n", -1)
    assert stage.broker.look(GROUP) == NoMembers()
    old = BrokerStage(KAFKA_2_8).broker.look(GROUP)
    assert isinstance(old, NoMembers)
    assert not old.takes_natives


def test_a_look_finds_an_anchor() -> None:
    stage = BrokerStage(KAFKA_2_8)
    stage.enter(instance_id=ANCHOR.instance_id, protocols=(PRIVATE,))
    seen = stage.broker.look(GROUP)
    assert isinstance(seen, LiveMembers)
    assert seen.anchored is not None


@on_each_release
def test_a_missing_group_is_an_error_where_clients_know_it(profile: BrokerProfile) -> None:
    (described,) = BrokerStage(profile).ask(DescribeGroupsRequest(groups=(GROUP,))).groups
    assert described.group_state == "Dead"
    assert bool(described.error_code) == (profile is KAFKA_4_3)


@on_each_release
def test_assignments_of_a_group_that_is_not_stable_are_shown_since_kafka_4(
    profile: BrokerProfile,
) -> None:
    stage = BrokerStage(profile)
    leader, _generation = stage.enter()
    stage.join(leader)
    (member,) = stage.broker.describe(GROUP).members
    assert bool(member.member_assignment) == (profile is KAFKA_4_3)
    assert member.member_metadata == b""


@pytest.mark.parametrize("is_newest", [False, True])
def test_a_profile_says_who_leads_once_the_leader_has_gone(is_newest: bool) -> None:
    stage = BrokerStage(replace(KAFKA_2_8, elects_newest=is_newest))
    leader, _generation = stage.enter()
    joins = [stage.join_twice(), stage.join_twice()]
    stage.leave(leader)
    joined = [stage.answers[number] for number in joins]
    assert {answer.leader for answer in joined} == {joined[is_newest].member_id}


def test_bytes_that_kill_a_coordinator_fail_the_test() -> None:
    stage = BrokerStage(KAFKA_4_3)
    with pytest.raises(AssertionError, match="hangs"):
        stage.join_twice(protocols=(("range", b"\0\0\0\0\0\1\0\5x"),))


def test_a_copy_goes_its_own_way() -> None:
    stage = BrokerStage(KAFKA_4_3)
    leader, _generation = stage.enter()
    waiting = stage.join_twice(protocols=(RANGE,))
    saved = copy(stage)
    other = restore(saved)
    assert other.broker.profile is stage.broker.profile
    other.join(leader)
    assert waiting in other.answers
    assert waiting not in stage.answers
    stage.join(leader)
    assert stage.answers == other.answers


def test_what_is_never_answered_leaves_no_trace() -> None:
    stage = BrokerStage(KAFKA_4_3)
    leader, _generation = stage.enter()
    outsider = stage.join_twice()
    stage.join(stage.answers[outsider - 1].member_id)
    assert len(stage.broker.waiting) == 1
    stage.join(leader)
    assert not stage.broker.waiting


def test_brokers_with_the_same_history_are_copied_alike() -> None:
    stages = [BrokerStage(KAFKA_4_3) for _ in range(2)]
    for stage in stages:
        stage.enter(instance_id="i")
        stage.join_twice()
        stage.commit(7)
    one, other = (copy(stage.broker) for stage in stages)
    assert one == other
    stages[0].native("n")
    assert copy(stages[0].broker) != other
