"""The gateway's own connections to the brokers, one for each, opened on demand."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import trio

from gateway.cluster.access import Access
from gateway.cluster.broker_connection import Address, BrokerConnection
from gateway.cluster.errors import UpstreamClosed, UpstreamError
from kafka_codecs.declaration import Struct

TRY_AGAIN_S = 1.0
"""The minimum interval between attempts to connect to an unreachable broker. Requests fail
immediately in between. Clients, which have no other broker, do wait: `data_path/brokers.py`."""


class BrokerConnections:
    """Connections by node id. A broker that has just failed is not tried again immediately."""

    def __init__(self, access: Access, address_of: Callable[[int], Address | None]) -> None:
        """`address_of` returns the address of a live broker."""
        self._access = access
        self._address_of = address_of
        self._open: dict[int, BrokerConnection] = {}
        self._connecting: defaultdict[int, trio.Lock] = defaultdict(trio.Lock)
        self._failures: dict[int, tuple[float, str]] = {}  # time and reason of the latest

    async def ask(self, node_id: int, message: Struct, version: int | None = None) -> Any:
        """Send a request to one broker, by default in the highest common version.

        Brokers close idle connections, so a request on an old connection may be sent twice. Use it
        for idempotent requests only. Raises UpstreamError.
        """
        old = self._open.get(node_id)
        connection = await self.connect(node_id)
        try:
            return await connection.ask(message, version)
        except UpstreamClosed:
            if connection is not old:
                raise
        return await (await self.connect(node_id)).ask(message, version)

    async def ask_within(
        self, timeout_s: float, node_id: int, message: Struct, version: int | None = None
    ) -> Any:
        """Ask as `ask` does; a broker that does not answer in time counts as failed."""
        with trio.move_on_after(timeout_s):
            return await self.ask(node_id, message, version)
        reason = f"broker {node_id} did not answer in {timeout_s} s"
        self._failures[node_id] = trio.current_time(), reason
        raise UpstreamError(reason)

    async def connect(self, node_id: int) -> BrokerConnection:
        """The open connection to a broker, or a new one. Raises UpstreamError."""
        async with self._connecting[node_id]:
            connection = self._open.get(node_id)
            if connection is None or connection.closed:
                connection = self._open[node_id] = await self._connect(node_id)
            return connection

    async def _connect(self, node_id: int) -> BrokerConnection:
        address = self._address_of(node_id)
        if address is None:
            raise UpstreamError(f"broker {node_id} is not known")
        failed_s, reason = self._failures.get(node_id, (-math.inf, ""))
        if trio.current_time() - failed_s < TRY_AGAIN_S:
            raise UpstreamError(reason)
        try:
            return await BrokerConnection.open(*address, access=self._access)
        except UpstreamError as error:
            self._failures[node_id] = trio.current_time(), str(error)
            raise

    def reject(self, node_id: int, reason: str) -> None:
        """Close the connection to a broker that must not be used, and count it as failed."""
        if (connection := self._open.pop(node_id, None)) is not None:
            connection.close()
        self._failures[node_id] = trio.current_time(), reason

    def in_turn(self, node_ids: Iterable[int], doubtful: int | None = None) -> list[int]:
        """These brokers, connected ones first and the `doubtful` one last."""

        def is_connected(node_id: int) -> bool:
            connection = self._open.get(node_id)
            return connection is not None and not connection.closed

        return sorted(
            node_ids, key=lambda node_id: (node_id == doubtful, not is_connected(node_id), node_id)
        )

    def close(self) -> None:
        """Close all connections."""
        for connection in self._open.values():
            connection.close()
