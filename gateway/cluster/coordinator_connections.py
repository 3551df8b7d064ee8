"""Connections to the coordinators: one per broker for prompt requests, and a few more for joins.

A broker may park a JoinGroup for seconds, and with it all later requests on the same connection.
"""

import math
from collections import defaultdict
from typing import Any

import trio

from gateway.cluster.broker_connection import BrokerConnection
from gateway.cluster.cluster import Cluster
from gateway.cluster.errors import UpstreamError
from kafka_codecs.apis import ApiKey
from kafka_codecs.declaration import Struct
from kafka_codecs.join_group import JoinGroupRequest
from kafka_codecs.leave_group import FIRST_LEAVE_VERSION_WITH_MEMBERS, LeaveGroupRequest

ANSWER_TIMEOUT_S = 10.0
"""A broker that hangs still accepts connections. After this time its groups look for another
one."""
JOINS_AT_ONCE_MAX = 16
"""Per coordinator. With Kafka's default initial delay of 3 s that is five new groups a second."""


_Pool = tuple[int, bool]
"""A coordinator, and whether the connections are those for members that rejoin. These are answered
immediately, and commits wait for them: they must not queue behind joins of new members that are
parked."""


class CoordinatorConnections:
    """Opens connections on demand and reopens lost ones."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._connections: dict[int, BrokerConnection] = {}
        self._opening: defaultdict[int, trio.Lock] = defaultdict(trio.Lock)
        self._joins: defaultdict[_Pool, trio.CapacityLimiter] = defaultdict(
            lambda: trio.CapacityLimiter(JOINS_AT_ONCE_MAX)
        )
        self._failures: dict[int, tuple[float, str]] = {}
        self._spare: defaultdict[_Pool, list[BrokerConnection]] = defaultdict(list)

    async def ask(self, node_id: int, message: Struct) -> Any:
        """The coordinator's answer. Raises UpstreamError."""
        if isinstance(message, JoinGroupRequest):
            return await self._ask_patiently(node_id, message)
        asked_s = trio.current_time()
        async with self._opening[node_id]:
            connection = self._connections.get(node_id)
            if connection is None or connection.closed:
                self._check_recent_failure(node_id, asked_s)
                connection = self._connections[node_id] = await self._open(node_id)
        if isinstance(message, LeaveGroupRequest):
            message = _leave_for(connection, message)
        with trio.move_on_after(ANSWER_TIMEOUT_S):
            return await connection.ask(message)
        raise UpstreamError(f"broker {node_id} did not answer in {ANSWER_TIMEOUT_S:.0f} s")

    async def _ask_patiently(self, node_id: int, message: JoinGroupRequest) -> Any:
        """Send a request that a broker may park. Raises UpstreamError."""
        pool = node_id, bool(message.member_id)
        limiter, spare = self._joins[pool], self._spare[pool]
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

    def close(self) -> None:
        """Close all connections."""
        for connections in (self._connections.values(), *self._spare.values()):
            for connection in connections:
                connection.close()

    def _check_recent_failure(self, node_id: int, asked_s: float) -> None:
        """Fail immediately if another request has found this broker away since `asked_s`, so that a
        thousand waiting anchors do not try one after the other. Later requests try again, unlike in
        `cluster.py`, because each anchor has its own backoff."""
        failed_s, reason = self._failures.get(node_id, (-math.inf, ""))
        if failed_s > asked_s:
            raise UpstreamError(reason)

    async def _open(self, node_id: int) -> BrokerConnection:
        if node_id not in self._cluster.brokers:
            raise UpstreamError(f"broker {node_id} is not known")
        reason = f"broker {node_id} did not answer in {ANSWER_TIMEOUT_S:.0f} s"
        try:
            with trio.move_on_after(ANSWER_TIMEOUT_S):
                return await BrokerConnection.open(
                    *self._cluster.brokers[node_id], access=self._cluster.access
                )
        except UpstreamError as error:
            reason = str(error)
        self._failures[node_id] = trio.current_time(), reason
        raise UpstreamError(reason)


def _leave_for(connection: BrokerConnection, message: LeaveGroupRequest) -> LeaveGroupRequest:
    """A LeaveGroup of one member in the shape that the broker knows. Raises UpstreamError if it has
    none."""
    if connection.highest_version(ApiKey.LEAVE_GROUP) >= FIRST_LEAVE_VERSION_WITH_MEMBERS:
        return message
    (member,) = message.members
    return LeaveGroupRequest(group_id=message.group_id, member_id=member.member_id)
