"""Counts client connections: in total, in their handshakes, by address, and by principal once it is
known."""

from collections import Counter
from typing import TypeVar

from gateway.data_path.config import Limits
from gateway.data_path.connected_clients import ConnectedClients
from gateway.data_path.errors import TooManyConnections
from gateway.data_path.removal import ClientIdentity
from gateway.data_path.traffic import Traffic
from gateway.quotas.quota_key import QuotaKey
from gateway.quotas.shares import ShareRule

_T = TypeVar("_T")


class ConnectionLimiter:
    """The connections that may be open at a time."""

    def __init__(self, limits: Limits, connected_clients: ConnectedClients | None = None) -> None:
        """`connected_clients` learns whose connections they are."""
        self._limits = limits
        self.connected_clients = connected_clients
        self._handshakes: Counter[str] = Counter()
        self._by_owner: Counter[QuotaKey] = Counter()
        self.count = 0
        self.traffic = Traffic()
        """What passes on the connections."""

    def take(self, client_host: str, *, has_handshake: bool) -> "ConnectionSlot":
        """Count a new connection. `has_handshake`: whether it begins with one, of TLS or SASL.
        Raises TooManyConnections."""
        limits = self._limits
        if has_handshake and self._handshakes[client_host] >= limits.max_handshakes_per_address:
            count = limits.max_handshakes_per_address
            raise TooManyConnections(f"{count} handshakes with this address are under way")
        if self.count >= limits.max_connections:
            raise TooManyConnections(f"{self.count} clients are connected, the most allowed")
        owner = QuotaKey(client_host)
        self.add(owner)
        self.count += 1
        if has_handshake:
            self._handshakes[client_host] += 1
        return ConnectionSlot(self, client_host, in_handshake=has_handshake)

    def move(self, before: QuotaKey, owner: QuotaKey) -> None:
        """Count a connection towards another owner. Raises TooManyConnections."""
        self.count -= 1
        try:
            self.add(owner)
        finally:
            self.count += 1
        self.remove(before)

    def add(self, owner: QuotaKey) -> None:
        """Count a new connection towards its owner. Raises TooManyConnections."""
        limits, count = self._limits, self._by_owner[owner]
        rule = ShareRule(
            per_address=limits.max_connections_per_address,
            per_principal=limits.max_connections_per_principal,
        )
        if count >= rule.limit_of(owner, limits.max_connections - self.count + count):
            raise TooManyConnections(f"{count} clients of the {owner} are connected")
        self._by_owner[owner] += 1

    def remove(self, owner: QuotaKey) -> None:
        """The connection no longer counts towards its owner."""
        _reduce(self._by_owner, owner)

    def end_handshake(self, client_host: str) -> None:
        """A handshake with this address has ended."""
        _reduce(self._handshakes, client_host)


class ConnectionSlot:
    """A connection that counts towards the limits, and its owner."""

    __slots__ = ("_client", "_client_host", "_in_handshake", "_limiter", "_number", "owner")

    def __init__(self, limiter: ConnectionLimiter, client_host: str, *, in_handshake: bool) -> None:
        self._limiter = limiter
        self._client_host = client_host
        self._in_handshake = in_handshake
        self._client: ClientIdentity | None = None
        self._number = 0
        self.owner = QuotaKey(client_host)

    def end_handshake(self, principal: str | None) -> None:
        """The handshake has ended. If it has shown a principal, the connection counts towards that
        instead of its address. Raises TooManyConnections."""
        if self._in_handshake:
            self._in_handshake = False
            self._limiter.end_handshake(self._client_host)
        if principal is None:
            return
        owner = QuotaKey(principal, is_principal=True)
        if owner != self.owner:
            self._limiter.move(self.owner, owner)
            self.owner = owner

    def introduce(self, client_id: str | None, number: int) -> None:
        """The client has told its id. `number` is that of the connection."""
        if (connected_clients := self._limiter.connected_clients) is not None:
            self._number = number
            self._client = ClientIdentity(self._client_host, client_id)
            connected_clients.begin(self._client)

    def record_end(self, *, by_client: bool) -> None:
        """Nothing more comes on the connection."""
        client, self._client = self._client, None
        connected_clients = self._limiter.connected_clients
        if client is not None and connected_clients is not None:
            connected_clients.end(client, self.owner, self._number, by_client=by_client)

    def leave(self) -> None:
        """The connection has ended."""
        self.record_end(by_client=False)
        if self._in_handshake:
            self._limiter.end_handshake(self._client_host)
        self._limiter.remove(self.owner)
        self._limiter.count -= 1


def _reduce(counts: Counter[_T], key: _T) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
