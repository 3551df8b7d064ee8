"""What brokers do with a group, and our engine does not."""

from dataclasses import replace
from typing import Any

import pytest

from coordinator.interface.config import MigrationPolicy
from kafka_codecs.error_codes import ErrorCode
from tests.simulation.broker_profiles import KAFKA_2_8, KAFKA_4_3, PROFILES, BrokerProfile
from tests.simulation.broker_stage import ANCHOR, GROUP, PRIVATE, RANGE, BrokerStage
from tests.support.group_values import embedded_assignment, make_topics, subscription

on_each_release = pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.release)
ANCHORED: dict[str, Any] = {"instance_id": ANCHOR.instance_id, "protocols": (PRIVATE,)}


def two_members(stage: BrokerStage) -> tuple[str, str]:
    """The ids of a leader and a follower, in generation 2."""
    leader, _generation = stage.enter()
    outsider = stage.join_twice()
    stage.join(leader)
    follower = stage.answers[outsider].member_id
    stage.sync(leader, 2, {leader: {"foo": [0]}, follower: {"foo": [1, 2]}})
    assert stage.error_of(stage.sync(follower, 2)) == 0
    return leader, follower


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
    _member_id, generation = stage.enter(instance_id="i")
    other = (("range", subscription(("bar",))),)
    returned = stage.answers[stage.join(instance_id="i", protocols=other)]
    assert returned.generation_id == generation
    assert stage.broker.describe(GROUP).group_state == "Stable"


def test_a_leader_that_returns_after_its_topics_changed_begins_no_generation() -> None:
    stage = BrokerStage(KAFKA_4_3)
    _member_id, generation = stage.enter(instance_id="i")
    for count, version in ((4, 9), (5, 8), (6, 8)):
        stage.broker.topics = make_topics(version=count, foo=count)
        returned = stage.answers[stage.join(instance_id="i", version=version)]
        assert returned.generation_id == generation
        stage.broker.topics = make_topics(version=count + 10, foo=count + 10)
        assert stage.beat(returned.member_id, generation, "i") == 0


@on_each_release
def test_a_static_member_that_changes_the_selected_protocol_begins_a_round(
    profile: BrokerProfile,
) -> None:
    stage = BrokerStage(profile)
    other = ("roundrobin", RANGE[1])
    _member_id, generation = stage.enter(instance_id="i", protocols=(RANGE, other))
    returned = stage.answers[stage.join(instance_id="i", protocols=(other, RANGE))]
    assert returned.generation_id == generation + 1
    again = stage.answers[stage.join(instance_id="i", protocols=(other, RANGE))]
    assert again.generation_id == generation + 2


@on_each_release
def test_a_static_member_without_a_protocol_in_common_is_refused(profile: BrokerProfile) -> None:
    stage = BrokerStage(profile)
    stage.enter(instance_id="i")
    stage.join_twice()
    again = stage.join(instance_id="i")
    refused = stage.join(instance_id="i", protocols=(("roundrobin", RANGE[1]),))
    assert stage.error_of(refused) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    member_id = stage.answers[again].member_id
    assert stage.error_of(stage.join(member_id, instance_id="i")) == 0


@on_each_release
def test_a_request_that_waits_for_the_leader_is_overwritten_too(profile: BrokerProfile) -> None:
    stage = BrokerStage(profile)
    leader, follower = two_members(stage)
    stage.join(leader)
    stage.join(follower)
    first, second = stage.sync(follower, 3), stage.sync(follower, 3)
    stage.sync(leader, 3)
    assert first not in stage.answers
    assert stage.error_of(second) == 0


@on_each_release
def test_an_id_that_times_out_ends_the_initial_delay_in_kafka_4(profile: BrokerProfile) -> None:
    stage = BrokerStage(replace(profile, initial_rebalance_delay_ms=9_000))
    number = stage.join(instance_id="i")
    stage.join(timeout_ms=6_000)
    stage.wait(6_000)
    assert (number in stage.answers) == (profile is KAFKA_4_3)
    stage.wait(3_000)
    assert stage.answers[number].generation_id == 1


@on_each_release
def test_an_id_that_is_given_back_does_not_end_the_initial_delay(profile: BrokerProfile) -> None:
    stage = BrokerStage(profile)
    number = stage.join(instance_id="i")
    stage.leave(stage.answers[stage.join()].member_id)
    assert number not in stage.answers


@on_each_release
def test_an_old_broker_refuses_commits_to_a_missing_group_by_generation(
    profile: BrokerProfile,
) -> None:
    code = BrokerStage(profile).commit(1, member_id="nobody", epoch=3)
    is_new = profile is KAFKA_4_3
    assert code == (ErrorCode.GROUP_ID_NOT_FOUND if is_new else ErrorCode.ILLEGAL_GENERATION)


# -- a coordinator that moves ------------------------------------------------------------------


@on_each_release
def test_a_member_that_left_since_the_last_round_is_back_after_a_move(
    profile: BrokerProfile,
) -> None:
    """DEV D61 does not hold for a broker."""
    stage = BrokerStage(profile)
    _leader, follower = two_members(stage)
    assert stage.leave(follower) == [0]
    stage.move()
    assert stage.beat(follower, 2) == 0
    assert stage.broker.describe(GROUP).group_state == "Stable"


@on_each_release
def test_a_generation_without_assignments_is_lost_by_a_move(profile: BrokerProfile) -> None:
    stage = BrokerStage(profile)
    leader, follower = two_members(stage)
    stage.join(leader)
    stage.join(follower)
    stage.move()
    assert stage.beat(leader, 3) == ErrorCode.ILLEGAL_GENERATION
    assert stage.beat(leader, 2) == 0


@on_each_release
def test_sessions_have_their_usual_length_after_a_move(profile: BrokerProfile) -> None:
    stage = BrokerStage(profile)
    leader, generation = stage.enter(timeout_ms=6_000)
    stage.move()
    stage.wait(6_000)
    assert stage.beat(leader, generation) == ErrorCode.UNKNOWN_MEMBER_ID


def refusal_at_move(profile: BrokerProfile) -> ErrorCode | None:
    """What answers a parked request; 2.8 leaves it without an answer."""
    return None if profile is KAFKA_2_8 else ErrorCode.NOT_COORDINATOR


@on_each_release
def test_parked_requests_are_refused_when_the_coordinator_moves(profile: BrokerProfile) -> None:
    stage = BrokerStage(profile)
    leader, _generation = stage.enter()
    outsider = stage.join_twice()
    stage.move()
    assert stage.error_of(outsider) == refusal_at_move(profile)
    assert stage.beat(leader, 1) == 0


@on_each_release
def test_a_sync_that_waits_is_refused_when_the_coordinator_moves(profile: BrokerProfile) -> None:
    stage = BrokerStage(profile)
    leader, follower = two_members(stage)
    stage.join(leader)
    stage.join(follower)
    waiting = stage.sync(follower, 3)
    stage.move()
    assert stage.error_of(waiting) == refusal_at_move(profile)


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
        before, generation = stage.enter(instance_id="i")
        after = stage.answers[stage.join(instance_id="i")].member_id
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


def test_a_disturbed_anchor_that_comes_too_late_waits_for_its_rebalance_timeout() -> None:
    """The first round of a group ends with a timer only, whichever members wait."""
    stage = BrokerStage(KAFKA_4_3)
    first = stage.join(**ANCHORED)
    stage.native("n")
    stage.wait(KAFKA_4_3.initial_rebalance_delay_ms)
    late = stage.join(stage.answers[first].member_id, **ANCHORED)
    stage.wait(9_999)
    assert late not in stage.answers
    stage.wait(1)
    assert stage.error_of(late) == 0


def test_a_disturbed_new_member_has_the_time_of_a_new_member() -> None:
    stage = BrokerStage(KAFKA_4_3)
    stage.join(**ANCHORED)
    stage.native("n")
    stage.wait(299_999)
    assert stage.broker.describe(GROUP).members
    stage.wait(1)
    assert not stage.broker.describe(GROUP).members


def test_a_disturbed_member_that_was_replaced_is_forgotten() -> None:
    stage = BrokerStage(KAFKA_4_3)
    stage.join(**ANCHORED)
    stage.native("n")
    member_id, generation = stage.enter(**ANCHORED)
    for _ in range(60):
        stage.wait(5_000)
        assert stage.beat(member_id, generation, ANCHOR.instance_id) == 0


def test_an_anchor_that_finds_native_members_gets_an_error_without_a_reason() -> None:
    stage = BrokerStage(KAFKA_4_3)
    stage.native("n")
    assert stage.error_of(stage.join(**ANCHORED)) == ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_group_of_another_type_is_not_disturbed() -> None:
    stage = BrokerStage(KAFKA_4_3)
    waiting = stage.join_twice(protocol_type="connect")
    assert stage.native("n").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert waiting not in stage.answers


def test_a_disturbed_member_that_stays_silent_is_removed_after_its_session() -> None:
    stage = BrokerStage(KAFKA_4_3)
    leader, follower = two_members(stage)
    stage.join(leader, protocols=((RANGE[0], ANCHOR.metadata),), timeout_ms=6_000)
    assert stage.native("n").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    stage.wait(5_000)
    stage.beat(follower, 2)
    stage.wait(1_000)
    (member,) = stage.broker.describe(GROUP).members
    assert member.member_id == follower


@pytest.mark.parametrize("policy", MigrationPolicy)
def test_the_policy_decides_before_anybody_is_disturbed(policy: MigrationPolicy) -> None:
    stage = BrokerStage(KAFKA_4_3)
    stage.broker.config = replace(stage.broker.config, consumer_migration_policy=policy)
    stage.enter()
    waiting = stage.join_twice()
    error = stage.native("n").error_code
    assert error == (0 if policy.allows_upgrade else ErrorCode.GROUP_ID_NOT_FOUND)
    assert (waiting in stage.answers) == policy.allows_upgrade


def test_nothing_but_the_generation_counts_after_a_downgrade() -> None:
    """DEV D8 does not hold for a broker."""
    stage = BrokerStage(KAFKA_4_3)
    leader, generation = stage.enter()
    stage.native("n")
    stage.native("n", -1)
    assert stage.broker.describe(GROUP).members
    assert stage.beat(leader, generation) == ErrorCode.ILLEGAL_GENERATION


def test_a_short_subscription_keeps_a_group_classic() -> None:
    stage = BrokerStage(KAFKA_4_3)
    stage.enter(protocols=(("range", b"\0\1\0\0\0\1\0\3foo\xff\xff\xff\xff"),))
    assert stage.native("n").error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_user_data_in_an_assignment_keeps_a_group_classic() -> None:
    """The sticky assignors have such user data."""
    stage = BrokerStage(KAFKA_4_3)
    sticky = ("cooperative-sticky", RANGE[1])
    joined = stage.answers[stage.join(protocols=(sticky,))]
    stage.join(joined.member_id, protocols=(sticky,))
    stage.wait(KAFKA_4_3.initial_rebalance_delay_ms)
    share = embedded_assignment({"foo": range(3)}, user_data=b"!")
    stage.sync(joined.member_id, 1, {joined.member_id: share}, protocol=sticky[0])
    assert stage.native("n").error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_native_heartbeat_finds_no_classic_group() -> None:
    stage = BrokerStage(KAFKA_4_3)
    assert stage.native("n", 3).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    stage.enter()
    assert stage.native("n", 3).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_native_consumer_subscribes_by_a_regular_expression() -> None:
    stage = BrokerStage(KAFKA_4_3)
    stage.native("n", topics=(), regex=".*")
    assigned = stage.native("n", 1).assignment
    assert assigned is not None
    assert assigned.topic_partitions


def test_a_native_instance_that_joins_again_is_refused() -> None:
    stage = BrokerStage(KAFKA_4_3)
    assert stage.native("n", instance_id="i").error_code == 0
    assert stage.native("n", instance_id="i").error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert stage.native("n", -2, instance_id="i").error_code == 0
    assert stage.native("n", instance_id="i").error_code == 0


def test_a_native_consumer_takes_the_place_of_a_classic_instance() -> None:
    stage = BrokerStage(KAFKA_4_3)
    stage.enter(instance_id="i")
    stage.native("n")
    assert stage.native("m", instance_id="i").error_code == 0


def test_an_invalid_native_join_disturbs_nobody() -> None:
    stage = BrokerStage(KAFKA_4_3)
    waiting = stage.join_twice()
    assert stage.native("").error_code == ErrorCode.INVALID_REQUEST
    assert waiting not in stage.answers


def test_a_native_consumer_disturbs_a_member_that_waits_for_its_assignment() -> None:
    stage = BrokerStage(KAFKA_4_3)
    leader, follower = two_members(stage)
    unreadable = ((RANGE[0], ANCHOR.metadata),)
    stage.join(leader, protocols=unreadable)
    stage.join(follower, timeout_ms=6_000)
    waiting = stage.sync(follower, 3)
    assert stage.native("n").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert stage.error_of(waiting) == ErrorCode.REBALANCE_IN_PROGRESS
    stage.sync(leader, 3)
    stage.wait(6_000)
    assert stage.beat(follower, 3) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_native_consumer_meets_a_member_that_no_longer_offers_the_protocol() -> None:
    stage = BrokerStage(KAFKA_4_3)
    other = ("roundrobin", RANGE[1])
    leader, follower = two_members(stage)
    stage.join(leader, protocols=(RANGE, other))
    stage.join(follower, protocols=(RANGE, other))
    stage.sync(leader, 3)
    stage.join(leader, protocols=(other,))
    assert stage.native("n").error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_epochs_begin_again_in_an_empty_group_of_the_other_kind() -> None:
    stage = BrokerStage(KAFKA_4_3)
    for _ in range(3):
        leader, generation = stage.enter()
        stage.leave(leader)
    joined = stage.native("n")
    assert (generation, joined.member_epoch) == (5, 2)
    stage.move()
    assert stage.native("n", -1).error_code == 0
    leader, generation = stage.enter()
    assert generation == 1
    stage.move()
    assert stage.beat(leader, generation) == 0


def test_a_refused_join_deletes_an_empty_group_of_the_other_kind() -> None:
    stage = BrokerStage(KAFKA_4_3)
    first = stage.native("n").member_epoch
    stage.native("n", -1)
    refused = stage.join(protocols=())
    assert stage.error_of(refused) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert stage.native("n").member_epoch == first
