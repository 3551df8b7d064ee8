"""New groups depend on the health of the state log."""

from gateway.groups.log_health import TRY_AGAIN_MS, LogHealth
from gateway.hosting.inputs import Damage

G, OTHER = "g", "other"


def test_an_unused_log_is_healthy() -> None:
    """Nothing shows otherwise."""
    assert LogHealth().may_begin(G, 0)


def test_after_a_failed_write_groups_begin_one_at_a_time() -> None:
    """Its write shows whether the log has recovered. The others are refused."""
    health = LogHealth()
    health.on_write(G, Damage.NONE, 5)
    assert not health.may_begin(G, 5)
    assert not health.may_begin(G, 5 + TRY_AGAIN_MS - 1)
    assert health.may_begin(G, 5 + TRY_AGAIN_MS)
    assert not health.may_begin(G, 5 + TRY_AGAIN_MS)
    assert health.may_begin(G, 5 + 2 * TRY_AGAIN_MS)


def test_a_successful_write_lets_all_groups_begin() -> None:
    """The effect is immediate."""
    health = LogHealth()
    health.on_write(G, Damage.UNSURE, 0)
    health.on_write(G, None, 1)
    assert health.may_begin(G, 1)
    assert health.may_begin(G, 1)


def test_many_failed_writes_do_not_put_the_next_attempt_off() -> None:
    """Groups that are served write more often than once a second."""
    health = LogHealth()
    for now_ms in range(0, TRY_AGAIN_MS + 1, 100):
        health.on_write(G, Damage.NONE, now_ms)
    assert health.may_begin(G, TRY_AGAIN_MS)


def test_a_shard_whose_log_fails_does_not_affect_the_others() -> None:
    """What is shown is the latest failure of any, as long as this process has the shard."""
    health = LogHealth([G, OTHER].index)
    health.on_write(G, Damage.NONE, 5)
    assert not health.may_begin(G, 6)
    assert health.may_begin(OTHER, 6)
    health.on_write(OTHER, None, 7)
    assert health.failed_ms == 5
    health.forget(lambda group_id: group_id == G)
    assert health.failed_ms is None
