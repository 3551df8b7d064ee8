"""New groups depend on the health of the state log."""

from gateway.groups.log_health import TRY_AGAIN_MS, LogHealth
from gateway.hosting.inputs import Damage


def test_an_unused_log_is_healthy() -> None:
    """Nothing shows otherwise."""
    assert LogHealth().may_begin(0)


def test_after_a_failed_write_groups_begin_one_at_a_time() -> None:
    """Its write shows whether the log has recovered. The others are refused."""
    health = LogHealth()
    health.on_write(Damage.NONE, 5)
    assert not health.may_begin(5)
    assert not health.may_begin(5 + TRY_AGAIN_MS - 1)
    assert health.may_begin(5 + TRY_AGAIN_MS)
    assert not health.may_begin(5 + TRY_AGAIN_MS)
    assert health.may_begin(5 + 2 * TRY_AGAIN_MS)


def test_a_successful_write_lets_all_groups_begin() -> None:
    """The effect is immediate."""
    health = LogHealth()
    health.on_write(Damage.UNSURE, 0)
    health.on_write(None, 1)
    assert health.may_begin(1)
    assert health.may_begin(1)
