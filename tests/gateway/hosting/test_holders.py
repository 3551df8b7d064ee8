"""The members that may still hold partitions."""

from dataclasses import replace

from gateway.hosting.adoptable import snapshot
from gateway.hosting.holders import Holders
from tests.support.adoption import NOW_MS, A, B, described, watched

MEMBERS = tuple(
    replace(each, session_timeout_ms=6_000, rebalance_timeout_ms=20_000)
    for each in snapshot(described(), watched()).members
)


def recalled() -> Holders:
    holders = Holders()
    holders.recall(MEMBERS, NOW_MS)
    return holders


def test_the_last_one_that_gives_up_its_partitions_is_noticed() -> None:
    holders = recalled()
    assert not holders.let_go(A)
    assert not holders.let_go(A)
    assert not holders.let_go("somebody else")
    assert holders.let_go(B)
    assert holders.next_ms() is None


def test_a_silent_member_holds_nothing_when_its_session_is_over() -> None:
    holders = recalled()
    holders.heard(A, NOW_MS + 5_000)
    assert holders.next_ms() == NOW_MS + 6_000
    assert not holders.let_go_silent(NOW_MS + 6_000)
    assert len(holders) == 1
    assert holders.let_go_silent(NOW_MS + 11_000)


def test_a_member_that_does_not_rejoin_is_given_up() -> None:
    """It goes on sending heartbeats."""
    holders = recalled()
    for later_ms in range(0, 20_000, 5_000):
        holders.heard(A, NOW_MS + later_ms)
        holders.heard(B, NOW_MS + later_ms)
    assert not holders.let_go_silent(NOW_MS + 19_999)
    assert holders.let_go_silent(NOW_MS + 20_000)


def test_a_member_that_is_heard_and_does_not_rejoin_is_overdue() -> None:
    holders = recalled()
    holders.heard(A, NOW_MS + 15_000)
    assert [*holders.overdue(NOW_MS + 19_999)] == []
    assert [*holders.overdue(NOW_MS + 20_000)] == [A]
