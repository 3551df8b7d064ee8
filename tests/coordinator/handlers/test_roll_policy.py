"""The policy of a group: how it is kept, and what a pause does (DEV D74, D75)."""

from coordinator.handlers.roll_policy import (
    NAMES,
    NATIVE_MEMBERS_MAX,
    ROLLED_SINCE,
    in_force,
)
from coordinator.interface.config import GroupConfig, RollPolicy
from coordinator.interface.events import ConfigChange, ConfigOperation, ConfigsReceived
from tests.coordinator.conftest import MakeGroup
from tests.support.group_records import given_classic, given_native
from tests.support.group_script import GroupScript

FOO_0 = {"foo": (0,)}


def policy_of(group: GroupScript) -> RollPolicy:
    """The policy in force."""
    return in_force(group.config, group.engine.state.config_overrides).policy


def test_a_policy_outlives_a_restart_and_the_group(group: GroupScript) -> None:
    """It is durable, like a config."""
    group.set_policy(RollPolicy.PAUSE)
    group.restart()
    assert policy_of(group) is RollPolicy.PAUSE
    group.set_policy(RollPolicy.HOLD)
    assert policy_of(group) is RollPolicy.HOLD
    group.set_policy(RollPolicy.ALLOW)
    assert policy_of(group) is RollPolicy.ALLOW
    assert group.engine.state.config_overrides == {}


def test_allow_overrules_a_hold_that_is_configured(make_group: MakeGroup) -> None:
    """And `AS_CONFIGURED` brings it back."""
    group = make_group(config=GroupConfig(native_members_max=0))
    assert policy_of(group) is RollPolicy.HOLD
    group.set_policy(RollPolicy.ALLOW)
    group.restart()
    assert policy_of(group) is RollPolicy.ALLOW
    group.set_policy(RollPolicy.AS_CONFIGURED)
    assert policy_of(group) is RollPolicy.HOLD


def test_clients_neither_see_nor_change_the_policy(group: GroupScript) -> None:
    """It is the operator's, whatever ALTER_CONFIGS a client has."""
    group.given_consumer_group(given_native("n1"))
    group.set_policy(RollPolicy.HOLD)
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
    group.set_policy(RollPolicy.PAUSE)
    group.native("n2", -1)
    group.wait(20_000)
    group.native("n1", 10)
    assert (group.consumer.epoch, group.consumer.assignment_epoch) == (11, 10)
    assert group.assigned("n1") == FOO_0
    group.set_policy(RollPolicy.ALLOW)
    group.native("n1", 10)
    assert group.assigned("n1") == {"foo": (0, 1, 2)}


def test_a_paused_group_of_classic_members_goes_on_after_the_pause(make_group: MakeGroup) -> None:
    """No native heartbeat computes its target; the timer does, once it may."""
    group = make_group(config=GroupConfig(classic_max_size=1))
    group.given_consumer_group(
        given_classic("c1", assigned=FOO_0, session_timeout_ms=60_000),
        given_classic("c2", session_timeout_ms=60_000),
        given_native("n1", assigned={"foo": (1, 2)}),
    )
    group.set_policy(RollPolicy.PAUSE)
    group.native("n1", -1)
    group.wait(20_000)
    assert group.consumer.assignment_epoch == 10
    group.set_policy(RollPolicy.ALLOW)
    group.wait(0)
    assert group.consumer.assignment_epoch == 11


def test_an_announced_roll_is_kept_until_its_end(group: GroupScript) -> None:
    """Through restarts and changes of the policy. No client sees it or deletes it."""
    group.native("n1")
    group.announce_roll(announces=True)
    since_ms = group.engine._config.rolled_since_ms
    assert since_ms is not None
    assert 0 <= group.now_ms - since_ms < 60_000
    group.set_policy(RollPolicy.HOLD)
    change = ConfigChange(name=ROLLED_SINCE, operation=ConfigOperation.DELETE)
    group.feed(ConfigsReceived(token=1_000, changes=(change,)))
    group.restart()
    assert group.engine._config.rolled_since_ms == since_ms
    assert ROLLED_SINCE not in {config.name for config in group.engine.describe_configs()}
    group.announce_roll(announces=False)
    assert group.engine._config.rolled_since_ms is None
