"""An operator holds a migration (DEV D74), and a group rests between conversions (DEV D76)."""

import pytest

from coordinator.conversion.hold import FIRST_REST_MS, LASTING_MS
from coordinator.interface.config import GroupConfig, RollPolicy
from kafka_codecs.error_codes import ErrorCode
from tests.coordinator.conftest import MakeGroup
from tests.support.group_records import given_classic, given_classic_group_member, given_native
from tests.support.group_script import GroupScript

FOO_0 = {"foo": (0,)}
CODE = ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("policy", [RollPolicy.HOLD, RollPolicy.PAUSE])
def test_a_classic_group_on_hold_stays_classic(group: GroupScript, policy: RollPolicy) -> None:
    """The client learns why, and the next one switches once the hold has ended."""
    group.given_classic_group(given_classic_group_member("c1", FOO_0))
    group.set_policy(policy)
    refused = group.native("n1")
    assert refused.error is CODE
    assert "holds the migration of this group at 0 members" in refused.why
    assert group.last_step.records == ()
    group.set_policy(RollPolicy.ALLOW)
    assert group.native("n1").error is ErrorCode.NONE


def test_a_mixed_group_on_hold_keeps_its_number_of_native_members(group: GroupScript) -> None:
    """One that restarts comes back; one more is refused; classic ones come and go."""
    group.given_consumer_group(given_classic("c1", assigned=FOO_0), given_native("n1"))
    group.set_policy(RollPolicy.HOLD)
    assert group.native("n2").error is CODE
    group.native("n1", -1)
    assert group.view().group_type == "classic", "the way back is open"
    assert group.native("n3").error is ErrorCode.NONE
    assert group.native("n4").error is CODE


def test_whoever_is_native_comes_back_to_a_group_on_hold(group: GroupScript) -> None:
    """By member id after it was fenced, or by instance id. A classic member's id does not help."""
    group.given_consumer_group(
        given_classic("c1", assigned=FOO_0, instance_id="c"),
        given_native("n1"),
        given_native("n2", instance_id="i"),
    )
    group.set_policy(RollPolicy.HOLD)
    assert group.native("n1", 0).error is ErrorCode.NONE
    group.native("n2", -2, instance_id="i")
    assert group.native("n5", 0, instance_id="i").error is ErrorCode.NONE
    assert group.native("c1", 0, instance_id="c").error is CODE


def test_a_hold_concerns_no_group_without_classic_members(group: GroupScript) -> None:
    """Its migration is over, or has not begun: it may grow."""
    group.set_policy(RollPolicy.HOLD)
    assert group.native("n1").error is ErrorCode.NONE
    assert group.native("n2").error is ErrorCode.NONE


def convert_there_and_back(group: GroupScript, name: str) -> ErrorCode:
    """A native member comes, and goes after a second. Returns what its join got."""
    error = group.native(name).error
    if not error:
        group.wait(1_000)
        group.native(name, -1)
        assert group.view().group_type == "classic"
    return error


@pytest.fixture
def flapping(make_group: MakeGroup) -> GroupScript:
    """A classic group whose static member outlives the test."""
    group = make_group(
        config=GroupConfig(conversion_rest_max_ms=45_000, reconnect_timeout_ms=100_000_000)
    )
    group.given_classic_group(given_classic_group_member("c1", FOO_0, instance_id="c"))
    return group


def test_a_group_that_was_converted_to_and_fro_rests(flapping: GroupScript) -> None:
    """The first return is free, and each rest is twice as long, up to the limit."""
    busy = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert convert_there_and_back(flapping, "n1") is ErrorCode.NONE
    assert convert_there_and_back(flapping, "n2") is ErrorCode.NONE
    assert convert_there_and_back(flapping, "n3") is busy
    flapping.now_ms += FIRST_REST_MS - 1
    assert "stays classic for 1 s" in flapping.native("n3").why
    flapping.now_ms += 1
    assert convert_there_and_back(flapping, "n4") is ErrorCode.NONE
    flapping.now_ms += 44_999
    assert flapping.native("n5").error is busy
    flapping.now_ms += 1
    assert flapping.native("n5").error is ErrorCode.NONE


def test_a_conversion_that_lasted_ends_the_count(flapping: GroupScript) -> None:
    """Whatever happened before it."""
    convert_there_and_back(flapping, "n1")
    flapping.native("n2")
    flapping.now_ms += LASTING_MS
    flapping.native("n2", -1)
    assert convert_there_and_back(flapping, "n3") is ErrorCode.NONE
    assert flapping.native("n4").error is ErrorCode.NONE
