"""Whose clients have gone (DEV D82)."""

import pytest

from gateway.data_path.presence import CLOSED_MAX, GONE_MAX, Presence
from gateway.data_path.removal import ClientIdentity
from gateway.quotas.owner import Owner

CLIENT = ClientIdentity("10.0.0.1", "consumer-1")
USER = Owner("alice", is_principal=True)
MEMBER = ("orders", "m1")
FIRST, SECOND, THIRD = 1, 2, 3


@pytest.fixture
def presence() -> Presence:
    """The client has two connections, and its heartbeats come on the first."""
    made = Presence()
    made.begin(CLIENT)
    made.begin(CLIENT)
    made.spoke(MEMBER, FIRST)
    return made


def test_a_client_has_gone_when_it_has_closed_all_its_connections(presence: Presence) -> None:
    """In any order; only one of them carried the heartbeats."""
    presence.end(CLIENT, USER, FIRST, by_client=True)
    assert presence.find_gone("orders", USER) == set()
    presence.end(CLIENT, USER, SECOND, by_client=True)
    assert presence.find_gone("orders", USER) == {"m1"}


@pytest.mark.parametrize("which", [0, 1])
def test_a_connection_that_its_client_has_not_closed_proves_nothing(
    presence: Presence, which: int
) -> None:
    """Neither that of the heartbeats nor a later one: the gateway may have closed it."""
    presence.end(CLIENT, USER, FIRST, by_client=which == 1)
    presence.end(CLIENT, USER, SECOND, by_client=which == 0)
    assert presence.find_gone("orders", USER) == set()


def test_what_ended_before_the_heartbeats_connection_does_not_count(presence: Presence) -> None:
    """A broker's restart, say, long ago."""
    presence.end(CLIENT, USER, SECOND, by_client=False)
    presence.end(CLIENT, USER, FIRST, by_client=True)
    assert presence.find_gone("orders", USER) == {"m1"}


def test_other_clients_and_later_connections_do_not_count(presence: Presence) -> None:
    """The client that starts again may have the same address and client id."""
    presence.begin(ClientIdentity("10.0.0.1", "consumer-2"))
    presence.end(CLIENT, USER, SECOND, by_client=True)
    presence.end(CLIENT, USER, FIRST, by_client=True)
    presence.begin(CLIENT)
    assert presence.find_gone("orders", USER) == {"m1"}


def test_a_member_that_is_heard_has_not_gone(presence: Presence) -> None:
    """It has only lost its connections for a moment."""
    presence.end(CLIENT, USER, SECOND, by_client=True)
    presence.end(CLIENT, USER, FIRST, by_client=True)
    presence.mark_seen(MEMBER)
    assert presence.find_gone("orders", USER) == set()


def test_only_the_same_user_learns_of_it(presence: Presence) -> None:
    """An address is no user of that name."""
    presence.end(CLIENT, USER, SECOND, by_client=True)
    presence.end(CLIENT, USER, FIRST, by_client=True)
    assert presence.find_gone("orders", Owner("bob", is_principal=True)) == set()
    assert presence.find_gone("orders", Owner("alice")) == set()
    assert presence.find_gone("payments", USER) == set()


def test_only_the_connection_of_the_latest_heartbeat_counts(presence: Presence) -> None:
    """The gateway may notice late that an older one was closed."""
    elsewhere = ClientIdentity("10.0.0.2", "consumer-1")
    presence.begin(elsewhere)
    presence.spoke(MEMBER, THIRD)
    presence.end(CLIENT, USER, FIRST, by_client=True)
    presence.end(CLIENT, USER, SECOND, by_client=True)
    assert presence.find_gone("orders", USER) == set()
    presence.end(elsewhere, USER, THIRD, by_client=True)
    assert presence.find_gone("orders", USER) == {"m1"}


def test_a_connection_speaks_for_one_member(presence: Presence) -> None:
    """The latest one."""
    presence.spoke(("orders", "m2"), FIRST)
    presence.end(CLIENT, USER, FIRST, by_client=True)
    presence.end(CLIENT, USER, SECOND, by_client=True)
    assert presence.find_gone("orders", USER) == {"m2"}


def join_and_go(presence: Presence, count: int) -> None:
    """The client joins as another member each time, on a connection of its own."""
    for number in range(count):
        presence.begin(CLIENT)
        presence.spoke(("orders", f"n{number}"), THIRD + number)
        presence.end(CLIENT, USER, THIRD + number, by_client=True)


def test_the_first_member_of_a_client_with_too_many_is_forgotten(presence: Presence) -> None:
    """Its other connections stay."""
    join_and_go(presence, CLOSED_MAX + 1)
    presence.end(CLIENT, USER, SECOND, by_client=True)
    presence.end(CLIENT, USER, FIRST, by_client=True)
    assert presence.find_gone("orders", USER) == {
        "m1",
        *(f"n{n}" for n in range(2, CLOSED_MAX + 1)),
    }


def test_the_first_of_too_many_is_forgotten() -> None:
    """It is then replaced as in Kafka. A user has half, so that others lose nothing."""
    presence = Presence()
    join_and_go(presence, GONE_MAX // 2 + 1)
    assert presence.find_gone("orders", USER) == {f"n{n}" for n in range(1, GONE_MAX // 2 + 1)}
