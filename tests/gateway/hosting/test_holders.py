"""The members that may still hold partitions."""

from dataclasses import replace

from gateway.hosting.adoptable import snapshot
from gateway.hosting.holders import GivenUp, Grace, Holders
from tests.support.adoption import NOW_MS, A, B, cluster_description, watched_group

MEMBERS = tuple(
    replace(member, session_timeout_ms=6_000, rebalance_timeout_ms=20_000)
    for member in snapshot(cluster_description(), watched_group()).members
)


def told_to_rejoin(grace: Grace | None = None) -> Holders:
    return Holders(MEMBERS, NOW_MS, grace or Grace())


def test_nobody_is_waited_for_once_all_have_given_up() -> None:
    holders = told_to_rejoin()
    for member_id in (A, A, "stranger"):
        holders.drop(member_id)
        assert holders
    holders.drop(B)
    assert not holders
    assert holders.next_ms() is None


def test_a_silent_member_holds_nothing_when_its_session_is_over() -> None:
    holders = told_to_rejoin()
    holders.mark_seen(A, NOW_MS + 5_000)
    assert holders.next_ms() == NOW_MS + 6_000
    assert [*holders.give_up(NOW_MS + 6_000)] == [GivenUp(B, is_alive=False)]
    assert holders.next_ms() == NOW_MS + 11_000
    assert [*holders.give_up(NOW_MS + 11_000)] == [GivenUp(A, is_alive=False)]
    assert not holders


def test_a_member_that_is_heard_and_does_not_rejoin_is_given_up() -> None:
    holders = told_to_rejoin()
    for later_ms in range(0, 20_000, 5_000):
        holders.mark_seen(A, NOW_MS + later_ms)
    assert [*holders.give_up(NOW_MS + 19_999)] == [GivenUp(B, is_alive=False)]
    assert [*holders.give_up(NOW_MS + 20_000)] == [GivenUp(A, is_alive=True)]


def test_a_paused_gateway_gives_members_as_long_as_its_pause() -> None:
    """Their requests may wait in its sockets."""
    grace = Grace()
    holders = told_to_rejoin(grace)
    grace.over_ms = NOW_MS + 24_000
    assert holders.next_ms() == NOW_MS + 24_000
    for since_ms in range(12_000, 24_000, 1_000):
        assert [*holders.give_up(NOW_MS + since_ms)] == []
    assert len([*holders.give_up(NOW_MS + 24_000)]) == 2


def test_clients_have_time_to_find_a_gateway_that_was_started() -> None:
    """Clients have as long as the members of a group that is loaded."""
    holders = told_to_rejoin(Grace(reconnect_by_ms=NOW_MS + 15_000))
    assert holders.next_ms() == NOW_MS + 15_000
    holders.mark_seen(A, NOW_MS + 1_000)
    assert [*holders.give_up(NOW_MS + 14_999)] == []
    assert len([*holders.give_up(NOW_MS + 15_000)]) == 2
