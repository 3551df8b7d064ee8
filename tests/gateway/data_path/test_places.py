"""The limits on connections."""

import pytest

from gateway.data_path.config import Limits
from gateway.data_path.connected_clients import ConnectedClients
from gateway.data_path.errors import TooManyConnections
from gateway.data_path.places import ConnectionLimiter
from gateway.quotas.quota_key import QuotaKey

HERE, THERE = "10.0.0.1", "10.0.0.2"


def test_a_connection_with_a_principal_makes_room_for_its_address() -> None:
    """Users behind one address do not limit each other."""
    places = ConnectionLimiter(
        Limits(max_connections_per_address=1, max_connections_per_principal=2)
    )
    places.take(HERE, has_handshake=True).settle("alice")
    places.take(HERE, has_handshake=True).settle("bob")
    second = places.take(HERE, has_handshake=True)
    with pytest.raises(TooManyConnections, match="1 clients of the address"):
        places.take(HERE, has_handshake=True)
    second.settle("alice")
    third = places.take(THERE, has_handshake=True)
    with pytest.raises(TooManyConnections, match="2 clients of the user alice"):
        third.settle("alice")


def test_authenticating_again_changes_nothing() -> None:
    """A session of the same user goes on (KIP-368)."""
    places = ConnectionLimiter(Limits(max_connections_per_principal=1))
    place = places.take(HERE, has_handshake=True)
    for _ in range(3):
        place.settle("alice")
    place.leave()
    places.take(HERE, has_handshake=True).settle("alice")


def test_a_connection_that_ends_counts_no_longer() -> None:
    """In its handshake, or with a principal, or without one."""
    limits = Limits(max_connections=1, max_handshakes_per_address=1)
    places = ConnectionLimiter(limits)
    for principal in (None, "alice"):
        for settles in (False, True):
            place = places.take(HERE, has_handshake=True)
            if settles:
                place.settle(principal)
            with pytest.raises(TooManyConnections):
                places.take(THERE, has_handshake=True)
            place.leave()
    assert places.count == 0


def test_one_address_leaves_connections_for_others() -> None:
    """The connections of one user do not count towards an address, and leave room as well."""
    places = ConnectionLimiter(Limits(max_connections=8))
    for _ in range(4):
        places.take(HERE, has_handshake=False)
    with pytest.raises(TooManyConnections, match="4 clients of the address"):
        places.take(HERE, has_handshake=False)
    for number in range(2):
        places.take(f"10.0.1.{number}", has_handshake=True).settle("alice")
    with pytest.raises(TooManyConnections, match="2 clients of the user alice"):
        places.take(THERE, has_handshake=True).settle("alice")


def test_handshakes_of_one_address_are_limited() -> None:
    """Until they end."""
    places = ConnectionLimiter(Limits(max_handshakes_per_address=1))
    place = places.take(HERE, has_handshake=True)
    with pytest.raises(TooManyConnections, match="1 handshakes with this address go on"):
        places.take(HERE, has_handshake=True)
    places.take(THERE, has_handshake=True)
    place.settle(None)
    places.take(HERE, has_handshake=True)


def test_only_a_presence_learns_whose_connections_end() -> None:
    """Without `group.static.takeover` nobody keeps that."""
    for connected_clients in (None, ConnectedClients()):
        place = ConnectionLimiter(Limits(), connected_clients).take(HERE, has_handshake=False)
        place.introduce("consumer-1", 1)
        if connected_clients is not None:
            connected_clients.spoke(("orders", "m1"), 1)
        place.note_end(by_client=True)
        place.leave()
        assert connected_clients is None or connected_clients.find_gone(
            "orders", QuotaKey(HERE)
        ) == {"m1"}
