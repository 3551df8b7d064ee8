"""Whose clients have gone (DEV D82)."""

import pytest

from gateway.data_path.presence import CLOSED_MAX, GONE_MAX, Presence
from gateway.data_path.removal import Client
from gateway.hosting.owner import Owner

CLIENT = Client("10.0.0.1", "consumer-1")
USER = Owner("alice", is_principal=True)
MEMBER = ("orders", "m1")


@pytest.fixture
def presence() -> Presence:
    """The client has two connections."""
    made = Presence()
    made.begin(CLIENT)
    made.begin(CLIENT)
    return made


def test_a_client_has_gone_when_it_has_closed_all_its_connections(presence: Presence) -> None:
    """In any order; only one of them carried the heartbeats."""
    presence.end(CLIENT, USER, MEMBER, by_client=True)
    assert presence.gone("orders", USER) == set()
    presence.end(CLIENT, USER, None, by_client=True)
    assert presence.gone("orders", USER) == {"m1"}


@pytest.mark.parametrize("which", [0, 1])
def test_a_connection_that_its_client_has_not_closed_proves_nothing(
    presence: Presence, which: int
) -> None:
    """Neither that of the heartbeats nor a later one: the gateway may have closed it."""
    presence.end(CLIENT, USER, MEMBER, by_client=which == 1)
    presence.end(CLIENT, USER, None, by_client=which == 0)
    assert presence.gone("orders", USER) == set()


def test_what_ended_before_the_heartbeats_connection_does_not_count(presence: Presence) -> None:
    """A broker's restart, say, long ago."""
    presence.end(CLIENT, USER, None, by_client=False)
    presence.end(CLIENT, USER, MEMBER, by_client=True)
    assert presence.gone("orders", USER) == {"m1"}


def test_other_clients_and_later_connections_do_not_count(presence: Presence) -> None:
    """The client that starts again may have the same address and client id."""
    presence.begin(Client("10.0.0.1", "consumer-2"))
    presence.end(CLIENT, USER, None, by_client=True)
    presence.end(CLIENT, USER, MEMBER, by_client=True)
    presence.begin(CLIENT)
    assert presence.gone("orders", USER) == {"m1"}


def test_a_member_that_is_heard_has_not_gone(presence: Presence) -> None:
    """It has only lost its connections for a moment."""
    presence.end(CLIENT, USER, None, by_client=True)
    presence.end(CLIENT, USER, MEMBER, by_client=True)
    presence.heard(MEMBER)
    assert presence.gone("orders", USER) == set()


def test_only_the_same_user_learns_of_it(presence: Presence) -> None:
    """An address is no user of that name."""
    presence.end(CLIENT, USER, None, by_client=True)
    presence.end(CLIENT, USER, MEMBER, by_client=True)
    assert presence.gone("orders", Owner("bob", is_principal=True)) == set()
    assert presence.gone("orders", Owner("alice")) == set()
    assert presence.gone("payments", USER) == set()


def test_the_first_member_of_a_client_with_too_many_is_forgotten(presence: Presence) -> None:
    """A client may join again and again while one of its connections stays."""
    for number in range(CLOSED_MAX + 1):
        presence.begin(CLIENT)
        presence.end(CLIENT, USER, ("orders", f"m{number}"), by_client=True)
    presence.end(CLIENT, USER, None, by_client=True)
    presence.end(CLIENT, USER, None, by_client=True)
    gone = presence.gone("orders", USER)
    assert len(gone) == CLOSED_MAX
    assert "m0" not in gone


def test_the_first_of_too_many_is_forgotten() -> None:
    """It is then replaced as in Kafka."""
    presence = Presence()
    for number in range(GONE_MAX + 1):
        presence.begin(CLIENT)
        presence.end(CLIENT, USER, ("orders", f"m{number}"), by_client=True)
    gone = presence.gone("orders", USER)
    assert len(gone) == GONE_MAX
    assert "m0" not in gone
