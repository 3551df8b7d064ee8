"""Which broker configs are in the gateway's way."""

import pytest

from gateway.check.limits import RULES, ConfigRule

DEFAULTS = {
    "group.min.session.timeout.ms": 6_000,
    "group.max.session.timeout.ms": 1_800_000,
    "group.initial.rebalance.delay.ms": 3_000,
    "group.max.size": 2_147_483_647,
    "offsets.retention.minutes": 10_080,
}
TOO_TIGHT = {
    "group.min.session.timeout.ms": 90_000,
    "group.max.session.timeout.ms": 6_000,
    "group.initial.rebalance.delay.ms": 60_000,
    "group.max.size": 1,
    "offsets.retention.minutes": 60,
}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.config)
def test_each_rule_accepts_kafkas_defaults_and_refuses_tighter_limits(
    rule: ConfigRule,
) -> None:
    assert rule.fits(DEFAULTS[rule.config])
    assert not rule.fits(TOO_TIGHT[rule.config])
