"""Whose clients have gone (DEV D82)."""

import pytest

from gateway.data_path.connected_clients import CLOSED_MAX, GONE_MAX, ConnectedClients
from gateway.data_path.removal import ClientIdentity
from gateway.quotas.quota_key import QuotaKey

CLIENT = ClientIdentity("10.0.0.1", "consumer-1")
USER = QuotaKey("alice", is_principal=True)
MEMBER = ("orders", "m1")
FIRST, SECOND, THIRD = 1, 2, 3


@pytest.fixture
def connected_clients() -> ConnectedClients:
    """The client has two connections, and its heartbeats come on the first."""
    made = ConnectedClients()
    made.begin(CLIENT)
    made.begin(CLIENT)
    made.spoke(MEMBER, FIRST)
    return made


def test_a_client_has_gone_when_it_has_closed_all_its_connections(
    connected_clients: ConnectedClients,
) -> None:
    """The connections may close in any order; only one of them carried the heartbeats."""
    connected_clients.end(CLIENT, USER, FIRST, by_client=True)
    assert connected_clients.find_gone("orders", USER) == set()
    connected_clients.end(CLIENT, USER, SECOND, by_client=True)
    assert connected_clients.find_gone("orders", USER) == {"m1"}


@pytest.mark.parametrize("which", [0, 1])
def test_a_connection_that_its_client_has_not_closed_proves_nothing(
    connected_clients: ConnectedClients, which: int
) -> None:
    """This holds for the connection of the heartbeats and for a later one: the gateway may have
    closed it."""
    connected_clients.end(CLIENT, USER, FIRST, by_client=which == 1)
    connected_clients.end(CLIENT, USER, SECOND, by_client=which == 0)
    assert connected_clients.find_gone("orders", USER) == set()


def test_what_ended_before_the_heartbeats_connection_does_not_count(
    connected_clients: ConnectedClients,
) -> None:
    """A broker's restart, say, long ago."""
    connected_clients.end(CLIENT, USER, SECOND, by_client=False)
    connected_clients.end(CLIENT, USER, FIRST, by_client=True)
    assert connected_clients.find_gone("orders", USER) == {"m1"}


def test_other_clients_and_later_connections_do_not_count(
    connected_clients: ConnectedClients,
) -> None:
    """The client that starts again may have the same address and client id."""
    connected_clients.begin(ClientIdentity("10.0.0.1", "consumer-2"))
    connected_clients.end(CLIENT, USER, SECOND, by_client=True)
    connected_clients.end(CLIENT, USER, FIRST, by_client=True)
    connected_clients.begin(CLIENT)
    assert connected_clients.find_gone("orders", USER) == {"m1"}


def test_a_member_that_is_heard_has_not_gone(connected_clients: ConnectedClients) -> None:
    """The member has only lost its connections for a moment."""
    connected_clients.end(CLIENT, USER, SECOND, by_client=True)
    connected_clients.end(CLIENT, USER, FIRST, by_client=True)
    connected_clients.mark_seen(MEMBER)
    assert connected_clients.find_gone("orders", USER) == set()


def test_only_the_same_user_learns_of_it(connected_clients: ConnectedClients) -> None:
    """An address is no user of that name."""
    connected_clients.end(CLIENT, USER, SECOND, by_client=True)
    connected_clients.end(CLIENT, USER, FIRST, by_client=True)
    assert connected_clients.find_gone("orders", QuotaKey("bob", is_principal=True)) == set()
    assert connected_clients.find_gone("orders", QuotaKey("alice")) == set()
    assert connected_clients.find_gone("payments", USER) == set()


def test_only_the_connection_of_the_latest_heartbeat_counts(
    connected_clients: ConnectedClients,
) -> None:
    """The gateway may notice late that an older one was closed."""
    elsewhere = ClientIdentity("10.0.0.2", "consumer-1")
    connected_clients.begin(elsewhere)
    connected_clients.spoke(MEMBER, THIRD)
    connected_clients.end(CLIENT, USER, FIRST, by_client=True)
    connected_clients.end(CLIENT, USER, SECOND, by_client=True)
    assert connected_clients.find_gone("orders", USER) == set()
    connected_clients.end(elsewhere, USER, THIRD, by_client=True)
    assert connected_clients.find_gone("orders", USER) == {"m1"}


def test_a_connection_speaks_for_one_member(connected_clients: ConnectedClients) -> None:
    """The latest one."""
    connected_clients.spoke(("orders", "m2"), FIRST)
    connected_clients.end(CLIENT, USER, FIRST, by_client=True)
    connected_clients.end(CLIENT, USER, SECOND, by_client=True)
    assert connected_clients.find_gone("orders", USER) == {"m2"}


def join_and_go(connected_clients: ConnectedClients, count: int) -> None:
    """The client joins as another member each time, on a connection of its own."""
    for number in range(count):
        connected_clients.begin(CLIENT)
        connected_clients.spoke(("orders", f"n{number}"), THIRD + number)
        connected_clients.end(CLIENT, USER, THIRD + number, by_client=True)


def test_the_first_member_of_a_client_with_too_many_is_forgotten(
    connected_clients: ConnectedClients,
) -> None:
    """Its other connections stay."""
    join_and_go(connected_clients, CLOSED_MAX + 1)
    connected_clients.end(CLIENT, USER, SECOND, by_client=True)
    connected_clients.end(CLIENT, USER, FIRST, by_client=True)
    assert connected_clients.find_gone("orders", USER) == {
        "m1",
        *(f"n{n}" for n in range(2, CLOSED_MAX + 1)),
    }


def test_the_first_of_too_many_is_forgotten() -> None:
    """The forgotten client is replaced as in Kafka. One user has half the room, so that others lose
    nothing."""
    connected_clients = ConnectedClients()
    join_and_go(connected_clients, GONE_MAX // 2 + 1)
    assert connected_clients.find_gone("orders", USER) == {
        f"n{n}" for n in range(1, GONE_MAX // 2 + 1)
    }
