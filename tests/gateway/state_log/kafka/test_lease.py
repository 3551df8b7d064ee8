"""A gateway stops answering when it may no longer own the log."""

import pytest

from gateway.fleet.ownership import SESSION_TIMEOUTS_MS
from gateway.state_log.kafka import lease as lease_module
from gateway.state_log.kafka.lease import LEASE_MS, LEASE_MS_MAX, Lease


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A clock that the test sets."""
    time_ms = [1_000_000]
    monkeypatch.setattr(lease_module, "now_ms", lambda: time_ms[0])
    return time_ms


def test_it_does_not_run_at_first() -> None:
    """The cluster has not confirmed it yet."""
    assert not Lease(LEASE_MS).is_running


def test_the_longest_one_ends_before_others_take_the_shards_of_a_silent_gateway() -> None:
    """The others do so once its session in the group of the fleet has ended."""
    assert min(SESSION_TIMEOUTS_MS) > LEASE_MS_MAX


def test_it_counts_from_the_request(clock: list[int]) -> None:
    """Between request and answer another gateway may have taken over."""
    lease = Lease(2_000)
    lease.renew(clock[0] - 1_500)
    clock[0] += 499
    assert lease.is_running
    clock[0] += 1
    assert not lease.is_running


def test_an_earlier_request_does_not_shorten_it(clock: list[int]) -> None:
    """Answers may arrive in any order."""
    lease = Lease(2_000)
    lease.renew(clock[0])
    lease.renew(clock[0] - 1_999)
    clock[0] += 1_999
    assert lease.is_running


def test_it_ends_at_once_when_the_log_is_lost(clock: list[int]) -> None:
    """The lease runs again after the gateway has confirmed its ownership."""
    lease = Lease(2_000)
    lease.renew(clock[0])
    lease.end()
    assert not lease.is_running
    lease.renew(clock[0])
    assert lease.is_running
