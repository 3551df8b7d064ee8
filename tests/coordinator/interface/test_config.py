"""The settings of the engine."""

import pytest

from coordinator.interface.config import INT32_MAX, GroupConfig, MigrationPolicy, StaticTakeover
from coordinator.interface.roll_policy import RollPolicy


@pytest.mark.parametrize(
    ("policy", "upgrade", "downgrade"),
    [
        ("bidirectional", True, True),
        ("upgrade", True, False),
        ("downgrade", False, True),
        ("disabled", False, False),
    ],
)
def test_each_policy_allows_its_conversions(policy: str, upgrade: bool, downgrade: bool) -> None:
    """The policy applies to groups with members (rule 1.5)."""
    value = MigrationPolicy(policy)
    assert (value.allows_upgrade, value.allows_downgrade) == (upgrade, downgrade)


def test_the_defaults_are_kafkas() -> None:
    """These are the settings that operators look up (rule 1.5)."""
    config = GroupConfig()
    assert config.classic_min_session_timeout_ms == 6_000
    assert config.classic_max_session_timeout_ms == 1_800_000
    assert config.classic_initial_rebalance_delay_ms == 3_000
    assert config.classic_new_member_join_timeout_ms == 300_000
    assert config.consumer_session_timeout_ms == 45_000
    assert (config.consumer_min_session_timeout_ms, config.consumer_max_session_timeout_ms) == (
        45_000,
        60_000,
    )
    assert config.consumer_heartbeat_interval_ms == 5_000
    assert config.consumer_min_heartbeat_interval_ms == 5_000
    assert config.consumer_max_heartbeat_interval_ms == 15_000
    assert config.consumer_assignment_interval_ms == 1_000
    assert config.consumer_min_assignment_interval_ms == 0
    assert config.consumer_max_assignment_interval_ms == 15_000
    assert config.consumer_migration_policy is MigrationPolicy.BIDIRECTIONAL


def test_what_kafka_does_not_do_is_off_by_default() -> None:
    """Each of these is a deviation that an operator chooses."""
    config = GroupConfig()
    assert (config.replacement_grace_ms, config.temporary_assignment_ms) == (0, 0)
    assert config.unsettled_heartbeat_interval_ms == INT32_MAX
    assert not any((config.client_side_assignors, config.rack_aware))
    assert config.static_takeover is StaticTakeover.KAFKA
    assert config.second_target_waits
    assert config.unaffected_members_rejoin
    assert config.eager_imbalance_percent == 0
    assert config.roll_policy == RollPolicy()


@pytest.mark.parametrize(
    ("limits", "named"),
    [
        ((), "(group.max.size)"),
        ((("group.consumer.max.size", 3),), "(group.max.size)"),
        ((("group.max.size", 3),), "(group.max.size; at the brokers 3)"),
    ],
)
def test_a_limit_is_named_with_the_brokers_value_if_that_is_known(
    limits: tuple[tuple[str, int], ...], named: str
) -> None:
    assert GroupConfig(broker_limits=limits).named_limits("group.max.size") == named


def test_an_unknown_value_among_known_ones_is_shown_as_unknown() -> None:
    config = GroupConfig(broker_limits=(("b", 3),))
    assert config.named_limits("a", "b") == "(a, b; at the brokers ?, 3)"
