"""The limits on connections."""

import pytest

from gateway.data_path.config import Limits
from gateway.data_path.connected_clients import ConnectedClients
from gateway.data_path.connection_limiter import ConnectionLimiter
from gateway.data_path.errors import TooManyConnections
from gateway.quotas.quota_key import QuotaKey

HERE, THERE = "10.0.0.1", "10.0.0.2"


def test_a_connection_with_a_principal_makes_room_for_its_address() -> None:
    """Users behind one address do not limit each other."""
    limiter = ConnectionLimiter(
        Limits(max_connections_per_address=1, max_connections_per_principal=2)
    )
    limiter.take(HERE, has_handshake=True).end_handshake("alice")
    limiter.take(HERE, has_handshake=True).end_handshake("bob")
    second = limiter.take(HERE, has_handshake=True)
    with pytest.raises(TooManyConnections, match="1 clients of the address"):
        limiter.take(HERE, has_handshake=True)
    second.end_handshake("alice")
    third = limiter.take(THERE, has_handshake=True)
    with pytest.raises(TooManyConnections, match="2 clients of the user alice"):
        third.end_handshake("alice")


def test_authenticating_again_changes_nothing() -> None:
    """A session of the same user continues (KIP-368)."""
    limiter = ConnectionLimiter(Limits(max_connections_per_principal=1))
    slot = limiter.take(HERE, has_handshake=True)
    for _ in range(3):
        slot.end_handshake("alice")
    slot.leave()
    limiter.take(HERE, has_handshake=True).end_handshake("alice")


def test_a_connection_that_ends_counts_no_longer() -> None:
    """The connection may have been in its handshake, or had a principal or none."""
    limits = Limits(max_connections=1, max_handshakes_per_address=1)
    limiter = ConnectionLimiter(limits)
    for principal in (None, "alice"):
        for settles in (False, True):
            slot = limiter.take(HERE, has_handshake=True)
            if settles:
                slot.end_handshake(principal)
            with pytest.raises(TooManyConnections):
                limiter.take(THERE, has_handshake=True)
            slot.leave()
    assert limiter.count == 0


def test_one_address_leaves_connections_for_others() -> None:
    """The connections of one user do not count towards an address, and leave room as well."""
    limiter = ConnectionLimiter(Limits(max_connections=8))
    for _ in range(4):
        limiter.take(HERE, has_handshake=False)
    with pytest.raises(TooManyConnections, match="4 clients of the address"):
        limiter.take(HERE, has_handshake=False)
    for number in range(2):
        limiter.take(f"10.0.1.{number}", has_handshake=True).end_handshake("alice")
    with pytest.raises(TooManyConnections, match="2 clients of the user alice"):
        limiter.take(THERE, has_handshake=True).end_handshake("alice")


def test_handshakes_of_one_address_are_limited() -> None:
    """Each handshake counts until it ends."""
    limiter = ConnectionLimiter(Limits(max_handshakes_per_address=1))
    slot = limiter.take(HERE, has_handshake=True)
    with pytest.raises(TooManyConnections, match="1 handshakes with this address are under way"):
        limiter.take(HERE, has_handshake=True)
    limiter.take(THERE, has_handshake=True)
    slot.end_handshake(None)
    limiter.take(HERE, has_handshake=True)


def test_the_table_of_connected_clients_learns_whose_connections_end() -> None:
    """Without `group.static.takeover` there is no such table."""
    for connected_clients in (None, ConnectedClients()):
        slot = ConnectionLimiter(Limits(), connected_clients).take(HERE, has_handshake=False)
        slot.introduce("consumer-1", 1)
        if connected_clients is not None:
            connected_clients.spoke(("orders", "m1"), 1)
        slot.record_end(by_client=True)
        slot.leave()
        assert connected_clients is None or connected_clients.find_gone(
            "orders", QuotaKey(HERE)
        ) == {"m1"}
