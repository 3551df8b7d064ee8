"""How far consumers of a group may switch: hold, pause and rest (DEV D74, D75, D76)."""

import pytest

from coordinator.interface.config import GroupConfig
from coordinator.interface.events import ConfigChange, ConfigOperation, ConfigsReceived
from coordinator.interface.roll_policy import (
    FIRST_REST_MS,
    LASTING_MS,
    NAMES,
    NATIVE_MEMBERS_MAX,
    ROLLED_SINCE,
    RollMode,
    RollPolicy,
)
from kafka_codecs.error_codes import ErrorCode
from tests.coordinator.conftest import MakeGroup
from tests.support.group_records import given_classic, given_classic_group_member, given_native
from tests.support.group_script import GroupScript

FOO_0 = {"foo": (0,)}
CODE = ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("policy", [RollMode.HOLD, RollMode.PAUSE])
def test_a_classic_group_on_hold_stays_classic(group: GroupScript, policy: RollMode) -> None:
    """The client learns why, and the next one switches once the hold has ended."""
    group.given_classic_group(given_classic_group_member("c1", FOO_0))
    group.set_policy(policy)
    refused = group.native("n1")
    assert refused.error is CODE
    assert "holds the migration of this group at 0 members" in refused.reason
    assert group.last_step.records == ()
    group.set_policy(RollMode.ALLOW)
    assert group.native("n1").error is ErrorCode.NONE


def test_a_mixed_group_on_hold_keeps_its_number_of_native_members(group: GroupScript) -> None:
    """One that restarts comes back; one more is refused; classic ones come and go."""
    group.given_consumer_group(given_classic("c1", assigned=FOO_0), given_native("n1"))
    group.set_policy(RollMode.HOLD)
    assert group.native("n2").error is CODE
    group.native("n1", -1)
    assert group.view().group_type == "classic", "the way back is open"
    assert group.native("n3").error is ErrorCode.NONE
    assert group.native("n4").error is CODE


def test_a_native_member_comes_back_to_a_group_on_hold(group: GroupScript) -> None:
    """The member is known by its id after it was fenced, or by its instance id. A classic member's
    id does not help."""
    group.given_consumer_group(
        given_classic("c1", assigned=FOO_0, instance_id="c"),
        given_native("n1"),
        given_native("n2", instance_id="i"),
    )
    group.set_policy(RollMode.HOLD)
    assert group.native("n1", 0).error is ErrorCode.NONE
    group.native("n2", -2, instance_id="i")
    assert group.native("n5", 0, instance_id="i").error is ErrorCode.NONE
    assert group.native("c1", 0, instance_id="c").error is CODE


def test_a_hold_concerns_no_group_without_classic_members(group: GroupScript) -> None:
    """Its migration is over, or has not begun: it may grow."""
    group.set_policy(RollMode.HOLD)
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
    policy = RollPolicy(rest_max_ms=45_000)
    group = make_group(config=GroupConfig(roll_policy=policy, reconnect_timeout_ms=100_000_000))
    group.given_classic_group(given_classic_group_member("c1", FOO_0, instance_id="c"))
    return group


def test_a_group_that_was_converted_to_and_fro_rests(flapping: GroupScript) -> None:
    """The first return is free, and each rest is twice as long, up to the limit."""
    busy = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert convert_there_and_back(flapping, "n1") is ErrorCode.NONE
    assert convert_there_and_back(flapping, "n2") is ErrorCode.NONE
    assert convert_there_and_back(flapping, "n3") is busy
    flapping.now_ms += FIRST_REST_MS - 1
    assert "stays classic for 1 s" in flapping.native("n3").reason
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


def policy_of(group: GroupScript) -> RollMode:
    """The policy in force."""
    return group.config.roll_policy.overridden(group.engine.state.config_overrides).mode


def test_a_policy_outlives_a_restart_and_the_group(group: GroupScript) -> None:
    """A policy is durable, like a config."""
    group.set_policy(RollMode.PAUSE)
    group.restart()
    assert policy_of(group) is RollMode.PAUSE
    group.set_policy(RollMode.HOLD)
    assert policy_of(group) is RollMode.HOLD
    group.set_policy(RollMode.ALLOW)
    assert policy_of(group) is RollMode.ALLOW
    assert group.engine.state.config_overrides == {}


def test_allow_overrules_a_hold_that_is_configured(make_group: MakeGroup) -> None:
    """`AS_CONFIGURED` brings the hold back."""
    group = make_group(config=GroupConfig(roll_policy=RollPolicy(native_members_max=0)))
    assert policy_of(group) is RollMode.HOLD
    group.set_policy(RollMode.ALLOW)
    group.restart()
    assert policy_of(group) is RollMode.ALLOW
    group.set_policy(RollMode.AS_CONFIGURED)
    assert policy_of(group) is RollMode.HOLD


def test_clients_neither_see_nor_change_the_policy(group: GroupScript) -> None:
    """The policy is the operator's, whatever ALTER_CONFIGS a client has."""
    group.given_consumer_group(given_native("n1"))
    group.set_policy(RollMode.HOLD)
    assert not {view.name for view in group.engine.describe_configs()} & set(NAMES)
    changes = tuple(ConfigChange(name=name, operation=ConfigOperation.DELETE) for name in NAMES)
    group.feed(ConfigsReceived(token=900, changes=changes))
    assert group.engine.state.config_overrides == {NATIVE_MEMBERS_MAX: 1}
    changes = (ConfigChange(name=NATIVE_MEMBERS_MAX, operation=ConfigOperation.SET, value="9"),)
    group.feed(ConfigsReceived(token=901, changes=changes))
    assert group.engine.state.config_overrides == {NATIVE_MEMBERS_MAX: 1}


def test_a_paused_group_keeps_its_target(group: GroupScript) -> None:
    """A member that leaves leaves its partitions without an owner, until the pause ends."""
    group.given_consumer_group(
        given_native("n1", assigned=FOO_0), given_native("n2", assigned={"foo": (1, 2)})
    )
    group.set_policy(RollMode.PAUSE)
    group.native("n2", -1)
    group.wait(20_000)
    group.native("n1", 10)
    assert (group.consumer.epoch, group.consumer.assignment_epoch) == (11, 10)
    assert group.granted_partitions("n1") == FOO_0
    group.set_policy(RollMode.ALLOW)
    group.native("n1", 10)
    assert group.granted_partitions("n1") == {"foo": (0, 1, 2)}


def test_a_paused_group_of_classic_members_continues_after_the_pause(make_group: MakeGroup) -> None:
    """No native heartbeat computes its target; the timer does, once it may."""
    group = make_group(config=GroupConfig(classic_max_size=1))
    group.given_consumer_group(
        given_classic("c1", assigned=FOO_0, session_timeout_ms=60_000),
        given_classic("c2", session_timeout_ms=60_000),
        given_native("n1", assigned={"foo": (1, 2)}),
    )
    group.set_policy(RollMode.PAUSE)
    group.native("n1", -1)
    group.wait(20_000)
    assert group.consumer.assignment_epoch == 10
    group.set_policy(RollMode.ALLOW)
    group.wait(0)
    assert group.consumer.assignment_epoch == 11


def test_an_announced_roll_is_kept_until_its_end(group: GroupScript) -> None:
    """Restarts and changes of the policy do not end it. No client sees it or deletes it."""
    group.native("n1")
    group.announce_roll(announces=True)
    since_ms = group.engine._config.rolled_since_ms
    assert since_ms is not None
    assert 0 <= group.now_ms - since_ms < 60_000
    group.set_policy(RollMode.HOLD)
    change = ConfigChange(name=ROLLED_SINCE, operation=ConfigOperation.DELETE)
    group.feed(ConfigsReceived(token=1_000, changes=(change,)))
    group.restart()
    assert group.engine._config.rolled_since_ms == since_ms
    assert ROLLED_SINCE not in {config.name for config in group.engine.describe_configs()}
    group.announce_roll(announces=False)
    assert group.engine._config.rolled_since_ms is None
