"""How much passes: what open connections have counted themselves, and what was left by those that
have ended. Nothing is counted per frame."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import trio

from gateway.data_path.backpressure import BackpressureTimes
from gateway.data_path.removal import ClientIdentity
from gateway.quotas.quota_cache import QuotaCache
from gateway.quotas.quota_key import QuotaKey
from gateway.quotas.shares import ShareRule

CLIENTS_MAX = 20_000
"""Clients whose ended connections are remembered."""
TOGETHER_S = 60.0
"""Connections of a client that end within this time belong to one restart."""


class Flow(Protocol):
    """A client's connection."""

    accepted_s: float

    @property
    def client(self) -> ClientIdentity:
        """Whose it is."""
        ...

    @property
    def moved_bytes(self) -> tuple[int, int]:
        """The bytes that have come from the client, and from its broker."""
        ...

    @property
    def fetches(self) -> int:
        """The client's Fetch requests."""
        ...


class Rates(NamedTuple):
    """What passes in a second."""

    bytes_per_s: float
    """To the client."""
    fetches_per_s: float


@dataclass(slots=True)
class _Ended:
    """The connections of a client's last restart."""

    ended_s: float
    lasted_s: float
    bytes_to_client: int
    fetches: int


class Traffic:
    """The traffic of all connections."""

    def __init__(self) -> None:
        self.open: Collection[Flow] = ()
        """The open connections."""
        self.pressure = BackpressureTimes()
        self._from_clients = self._from_brokers = 0
        # By hash: a fixed size, because clients choose the lengths of names.
        self._ended: QuotaCache[int, _Ended] = QuotaCache(CLIENTS_MAX, ShareRule())

    def record_end(self, flow: Flow) -> None:
        """A connection has ended."""
        now_s, (came, went) = trio.current_time(), flow.moved_bytes
        self._from_clients += came
        self._from_brokers += went
        lasted_s, fetches = now_s - flow.accepted_s, flow.fetches
        client = flow.client
        key = hash(client)
        before = self._ended.get(key)
        if before is not None and now_s - before.ended_s <= TOGETHER_S:
            went += before.bytes_to_client
            fetches += before.fetches
            lasted_s = max(lasted_s, before.lasted_s)
        ended = _Ended(now_s, lasted_s, went, fetches)
        self._ended.put(key, ended, QuotaKey(client.host))

    def totals(self) -> tuple[int, int]:
        """All bytes from clients and from brokers. The cost follows the number of connections."""
        came, went = self._from_clients, self._from_brokers
        for flow in tuple(self.open):
            more = flow.moved_bytes
            came += more[0]
            went += more[1]
        return came, went

    def rates_before(self, client: ClientIdentity) -> Rates | None:
        """What passed to a client, over the life of the connections that it has ended last. None
        without any."""
        ended = self._ended.get(hash(client))
        if ended is None:
            return None
        return _rates(ended.bytes_to_client, ended.fetches, ended.lasted_s)

    def rates_now(self, client: ClientIdentity) -> Rates | None:
        """What passes to a client, over the life of its connections. None without any. The cost
        follows the number of all connections."""
        flows = [flow for flow in tuple(self.open) if flow.client == client]
        if not flows:
            return None
        lasted_s = max(trio.current_time() - flow.accepted_s for flow in flows)
        went = sum(flow.moved_bytes[1] for flow in flows)
        return _rates(went, sum(flow.fetches for flow in flows), lasted_s)


def _rates(count: int, fetches: int, length_s: float) -> Rates:
    if length_s <= 0:
        return Rates(0.0, 0.0)
    return Rates(round(count / length_s, 1), round(fetches / length_s, 2))
