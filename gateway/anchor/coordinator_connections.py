"""Connections to the coordinators: one each for what is answered at once, a few more for joins.

A broker may keep a JoinGroup waiting for seconds, and with it everything behind it on the same
connection. Must not know what is asked.
"""

import math
from collections import defaultdict
from typing import Any

import trio

from gateway.cluster.broker_connection import BrokerConnection, Versions
from gateway.cluster.cluster import Cluster
from gateway.cluster.errors import UpstreamError
from kafka_codecs.declaration import Struct

ANSWER_TIMEOUT_S = 10.0
"""A broker that hangs still accepts connections; whoever it coordinated for finds another one."""
JOINS_AT_ONCE_MAX = 16
"""Per coordinator. At Kafka's usual initial delay of 3 s that is five new groups a second."""


class CoordinatorConnections:
    """Opened when first needed, opened anew when lost."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._connections: dict[int, BrokerConnection] = {}
        self._opening: defaultdict[int, trio.Lock] = defaultdict(trio.Lock)
        self._joins: defaultdict[int, trio.CapacityLimiter] = defaultdict(
            lambda: trio.CapacityLimiter(JOINS_AT_ONCE_MAX)
        )
        self._failures: dict[int, tuple[float, str]] = {}
        self._spare: defaultdict[int, list[BrokerConnection]] = defaultdict(list)

    async def ask(self, node_id: int, message: Struct) -> Any:
        """The answer of a broker, which does not keep us waiting. Raises UpstreamError."""
        asked_s = trio.current_time()
        async with self._opening[node_id]:
            connection = self._connections.get(node_id)
            if connection is None or connection.closed:
                self._check_others_luck(node_id, asked_s)
                connection = self._connections[node_id] = await self._open(node_id)
        with trio.move_on_after(ANSWER_TIMEOUT_S):
            return await connection.ask(message)
        raise UpstreamError(f"broker {node_id} did not answer in {ANSWER_TIMEOUT_S:.0f} s")

    async def ask_patiently(self, node_id: int, message: Struct) -> Any:
        """The answer of a broker, which may take its time. Raises UpstreamError."""
        limiter, spare = self._joins[node_id], self._spare[node_id]
        async with limiter:
            connection = spare.pop() if spare else await self._open(node_id)
            try:
                answer = await connection.ask(message)
                if limiter.statistics().tasks_waiting:
                    spare.append(connection)
                return answer
            finally:
                if connection not in spare:
                    connection.close()

    async def versions_of(self, node_id: int) -> Versions:
        """What a broker speaks. Raises UpstreamError."""
        return await self._cluster.versions_of(node_id)

    def close(self) -> None:
        """Close all of them."""
        for connections in (self._connections.values(), *self._spare.values()):
            for connection in connections:
                connection.close()

    def _check_others_luck(self, node_id: int, asked_s: float) -> None:
        """A thousand that wait for a broker which is away are told at once, not one by one. Who
        comes later tries anew, unlike in `cluster.py`: each anchor has its own backoff."""
        failed_s, why = self._failures.get(node_id, (-math.inf, ""))
        if failed_s > asked_s:
            raise UpstreamError(why)

    async def _open(self, node_id: int) -> BrokerConnection:
        if node_id not in self._cluster.brokers:
            raise UpstreamError(f"broker {node_id} is not known")
        why = f"broker {node_id} did not answer in {ANSWER_TIMEOUT_S:.0f} s"
        try:
            with trio.move_on_after(ANSWER_TIMEOUT_S):
                return await BrokerConnection.open(*self._cluster.brokers[node_id])
        except UpstreamError as error:
            why = str(error)
        self._failures[node_id] = trio.current_time(), why
        raise UpstreamError(why)
