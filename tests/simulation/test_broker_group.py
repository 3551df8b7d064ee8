"""What brokers do with a group, and our engine does not. The same is compared with real brokers in
test_broker_with_kafka.py."""

from dataclasses import replace
from typing import Any

import pytest

from kafka_codecs.error_codes import ErrorCode
from tests.simulation.broker_profiles import KAFKA_2_8, KAFKA_4_3, PROFILES, BrokerProfile
from tests.support.broker_stage import ANCHOR, GROUP, PRIVATE, RANGE, BrokerStage
from tests.support.group_values import subscription

on_each_release = pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.release)
ANCHORED: dict[str, Any] = {"instance": ANCHOR.instance_id, "protocols": (PRIVATE,)}


# -- classic members ---------------------------------------------------------------------------


@on_each_release
def test_the_first_round_waits_for_the_initial_delay(profile: BrokerProfile) -> None:
    stage = BrokerStage(profile)
    number = stage.join_twice()
    stage.wait(profile.initial_rebalance_delay_ms - 1)
    assert number not in stage.answers
    stage.wait(1)
    assert stage.answers[number].generation_id == 1


@on_each_release
def test_an_unused_id_holds_up_a_round_until_its_session_timeout(profile: BrokerProfile) -> None:
    stage = BrokerStage(profile)
    leader, _generation = stage.enter()
    stage.join(timeout_ms=6_000)
    rejoined = stage.join(leader)
    stage.wait(5_999)
    assert rejoined not in stage.answers
    stage.wait(1)
    assert stage.error_of(rejoined) == 0


@on_each_release
def test_a_request_that_its_member_has_overwritten_is_never_answered(
    profile: BrokerProfile,
) -> None:
    stage = BrokerStage(profile)
    leader, _generation = stage.enter()
    outsider = stage.join_twice()
    again = stage.join(stage.answers[outsider - 1].member_id)
    stage.join(leader)
    assert outsider not in stage.answers
    assert stage.error_of(again) == 0


@on_each_release
def test_a_static_member_that_subscribes_to_other_topics_begins_no_generation(
    profile: BrokerProfile,
) -> None:
    stage = BrokerStage(profile)
    _member_id, generation = stage.enter(instance="i")
    other = (("range", subscription(("bar",))),)
    returned = stage.answers[stage.join(instance="i", protocols=other)]
    assert returned.generation_id == generation
    assert stage.broker.describe(GROUP).group_state == "Stable"


@on_each_release
def test_members_without_a_sync_are_removed_since_3_0(profile: BrokerProfile) -> None:
    stage = BrokerStage(profile)
    joined = stage.join_twice(timeout_ms=6_000)
    stage.wait(profile.initial_rebalance_delay_ms)
    answer = stage.answers[joined]
    for _ in range(3):
        stage.wait(3_000)
        code = stage.beat(answer.member_id, answer.generation_id)
    assert code == (ErrorCode.UNKNOWN_MEMBER_ID if profile.removes_silent_syncers else 0)


# -- a coordinator that moves ------------------------------------------------------------------


@on_each_release
def test_a_member_that_left_since_the_last_round_is_back_after_a_move(
    profile: BrokerProfile,
) -> None:
    """DEV D61 does not hold for a broker."""
    stage = BrokerStage(profile)
    leader, _generation = stage.enter()
    outsider = stage.join_twice()
    stage.join(leader)
    joined = stage.answers[outsider]
    stage.sync(leader, 2, {leader: {"foo": [0]}, joined.member_id: {"foo": [1, 2]}})
    stage.sync(joined.member_id, 2)
    assert stage.leave(joined.member_id) == [0]
    stage.move()
    assert stage.beat(joined.member_id, 2) == 0
    assert stage.broker.describe(GROUP).group_state == "Stable"


@on_each_release
def test_parked_requests_are_refused_when_the_coordinator_moves(profile: BrokerProfile) -> None:
    stage = BrokerStage(profile)
    leader, _generation = stage.enter()
    outsider = stage.join_twice()
    stage.move()
    assert stage.error_of(outsider) == ErrorCode.NOT_COORDINATOR
    assert stage.beat(leader, 1) == 0


@on_each_release
def test_ids_that_were_not_used_are_lost_when_the_coordinator_moves(
    profile: BrokerProfile,
) -> None:
    stage = BrokerStage(profile)
    leader, _generation = stage.enter()
    stage.join()
    stage.move()
    assert stage.error_of(stage.join(leader)) == 0


def test_a_move_brings_back_the_old_id_where_replacements_are_not_stored() -> None:
    for is_stored in (True, False):
        profile = replace(KAFKA_2_8, stores_static_replacements=is_stored)
        stage = BrokerStage(profile)
        before, generation = stage.enter(instance="i")
        after = stage.answers[stage.join(instance="i")].member_id
        stage.move()
        codes = [stage.beat(member_id, generation, "i") for member_id in (before, after)]
        fenced = ErrorCode.FENCED_INSTANCE_ID
        assert codes == ([fenced, 0] if is_stored else [0, fenced])


@on_each_release
def test_only_the_selected_protocol_survives_a_move(profile: BrokerProfile) -> None:
    stage = BrokerStage(profile)
    stage.enter(protocols=(RANGE, PRIVATE))
    stage.move()
    refused = stage.join(protocols=(PRIVATE,))
    assert stage.error_of(refused) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


# -- native members ----------------------------------------------------------------------------


def test_brokers_without_the_new_protocol_take_no_native_members() -> None:
    for profile in PROFILES:
        error = BrokerStage(profile).native("n").error_code
        assert error == (0 if profile.has_native_members else ErrorCode.UNSUPPORTED_VERSION)


def test_a_native_consumer_converts_a_group_that_it_can_read() -> None:
    stage = BrokerStage(KAFKA_4_3)
    leader, generation = stage.enter()
    assert stage.native("n").error_code == 0
    assert stage.beat(leader, generation) == ErrorCode.REBALANCE_IN_PROGRESS
    assert stage.broker.describe(GROUP).group_state == "Dead"


def test_a_native_consumer_is_refused_by_an_anchor_that_is_stable() -> None:
    stage = BrokerStage(KAFKA_4_3)
    member_id, generation = stage.enter(**ANCHORED)
    assert stage.native("n").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert stage.beat(member_id, generation, ANCHOR.instance_id) == 0


def test_a_native_consumer_disturbs_an_anchor_that_waits() -> None:
    stage = BrokerStage(KAFKA_4_3)
    waiting = stage.join(**ANCHORED)
    assert stage.native("n").error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert stage.error_of(waiting) == ErrorCode.REBALANCE_IN_PROGRESS
    again = stage.join(stage.answers[waiting].member_id, **ANCHORED)
    stage.wait(KAFKA_4_3.initial_rebalance_delay_ms)
    assert stage.error_of(again) == 0


def test_a_group_of_another_type_is_not_disturbed() -> None:
    stage = BrokerStage(KAFKA_4_3)
    waiting = stage.join_twice(protocol_type="connect")
    assert stage.native("n").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert waiting not in stage.answers


def test_user_data_in_an_assignment_keeps_a_group_classic() -> None:
    stage = BrokerStage(KAFKA_4_3)
    stage.enter(protocols=(("range", b"\0\1\0\0\0\1\0\3foo\xff\xff\xff\xff"),))
    assert stage.native("n").error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_native_heartbeat_finds_no_classic_group() -> None:
    stage = BrokerStage(KAFKA_4_3)
    assert stage.native("n", 3).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    stage.enter()
    assert stage.native("n", 3).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_native_instance_that_joins_again_is_refused() -> None:
    stage = BrokerStage(KAFKA_4_3)
    assert stage.native("n", instance="i").error_code == 0
    assert stage.native("n", instance="i").error_code == ErrorCode.UNRELEASED_INSTANCE_ID


def test_epochs_begin_again_in_an_empty_group_of_the_other_kind() -> None:
    stage = BrokerStage(KAFKA_4_3)
    for _ in range(3):
        leader, generation = stage.enter()
        stage.leave(leader)
    joined = stage.native("n")
    assert (generation, joined.member_epoch) == (5, 2)
    stage.native("n", -1)
    _leader, generation = stage.enter()
    assert generation == 1
