"""The broker behind one client connection, reachable or not.

If the broker goes away while it owes the client an answer, the client's connection closes.
Otherwise the client stays connected, and the broker is reconnected when it is next needed.
"""

import itertools
import math
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import trio

from gateway.batches import batches
from gateway.cluster.broker_connection import SOFTWARE_NAME, Versions
from gateway.cluster.errors import UpstreamError
from gateway.data_path.brokers import BrokerRoute, ClientSoftware
from gateway.data_path.config import Limits
from gateway.data_path.connection_limiter import ConnectionSlot
from gateway.data_path.errors import BadAnswer, BrokerLost, UpstreamAway, UpstreamChanged
from gateway.data_path.expected_answers import ExpectedAnswer, Inspect
from gateway.data_path.offer import (
    FIRST_WITH_SOFTWARE,
    NO_VERSIONS,
    NOTHING_OFFERED,
    Offer,
    offer_of,
)
from gateway.data_path.splice import StreamEnded
from gateway.data_path.states import UpstreamState
from gateway.data_path.stream import OnWork, StreamResources
from gateway.data_path.upstream_connection import UpstreamConnection
from gateway.transport.sockets import NullSink, Sink, Transport
from kafka_codecs.api_versions import ApiVersionsRequest
from kafka_codecs.apis import ApiKey
from kafka_codecs.declaration import Struct

PATIENCE_S = 1.5
"""How long a client's own request waits for a broker that is away. A client that gets an error at
once retries immediately."""
ANSWER_TIMEOUT_S = 30.0
ASKED_TOGETHER_MAX = 64
"""Requests in flight if one client request needs many: one at a time would take long, and all at
once would fill the connection."""

_PROMPT = frozenset(
    {
        ApiKey.FIND_COORDINATOR,
        ApiKey.HEARTBEAT,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.TXN_OFFSET_COMMIT,
    }
)
_MAY_BE_PARKED = frozenset({ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP})
_numbers = itertools.count(1)


class Upstream:
    """A client connection's view of its broker, and its upstream connection if there is one.

    Serves one request at a time, from one task.
    """

    __slots__ = (
        "_client",
        "_limits",
        "_received_before",
        "_resources",
        "_route",
        "_sink",
        "_slot",
        "_tasks",
        "client_id",
        "connection",
        "is_bound",
        "member",
        "node_id",
        "number",
        "offer",
        "sent_elsewhere_s",
        "software",
    )

    newest_number = 0
    """The number of the newest connection of all clients."""

    def __init__(
        self,
        route: BrokerRoute,
        client: Transport,
        *,
        limits: Limits,
        resources: StreamResources,
        slot: ConnectionSlot,
    ) -> None:
        """The broker's answers go to `client`. `slot`: whose connection it is."""
        self.number = Upstream.newest_number = next(_numbers)
        """Counts the client connections of the process."""
        self.node_id = -1
        self.offer = NOTHING_OFFERED
        """What the broker speaks."""
        self.client_id: str | None = None
        """The client id for our requests: that of the client's latest group request."""
        self.member: tuple[str, str] | None = None
        """The group and the member id of the client's latest request as a member."""
        self.sent_elsewhere_s: tuple[float, float] | None = None
        """When a member was sent to another gateway, the first and the latest time in a row."""
        self._route = route
        self._client = client
        self._sink: Sink = client
        self._tasks: trio.Nursery | None = None
        self._limits = limits
        self._resources = resources
        self._slot = slot
        self.software = ClientSoftware()
        """The client's software name and version."""
        self.is_bound = False
        """Whether the connection carries the client's authentication, so that no other can replace
        it."""
        self.connection: UpstreamConnection | None = None
        """The latest connection, if any. It may have ended."""
        self._received_before = 0

    @property
    def has_client(self) -> bool:
        """Whether the client's connection is open."""
        return self._client.fileno() >= 0

    @property
    def introduction(self) -> ClientSoftware | None:
        """The client's software if it has introduced itself; otherwise the connection has our
        name."""
        return None if self.software.name == SOFTWARE_NAME else self.software

    @property
    def versions(self) -> Versions:
        """The broker's versions, by api key; none before they are known."""
        return self.offer.versions

    def version_for(self, key: int, version: int, since_version: int = 0) -> int:
        """The client's version of an api, moved into the broker's range and to `since_version` if
        possible."""
        low, high = self.offer.versions[key]
        return max(low, min(high, max(version, since_version)))

    @property
    def is_negotiated(self) -> bool:
        """Whether the broker's versions are known."""
        return self.offer is not NOTHING_OFFERED

    @property
    def is_open(self) -> bool:
        """Whether there is a connection."""
        return self.connection is not None and self.connection.state is UpstreamState.OPEN

    @property
    def is_idle(self) -> bool:
        """Whether no answer for the client is outstanding."""
        return self.connection is None or self.connection.is_idle

    @property
    def owes_one(self) -> bool:
        """Whether exactly one answer for the client is outstanding, and every request has one."""
        return self.connection is not None and self.connection.owes_one

    @property
    def has_room(self) -> bool:
        """Whether there is a connection to which a request can be sent immediately."""
        connection = self.connection
        return connection is not None and connection.has_room()

    @property
    def received_bytes(self) -> int:
        """The bytes that the broker has sent, on one connection after another."""
        now = self.connection
        return self._received_before + (0 if now is None else now.received_bytes)

    def stands_for(self, node_id: int) -> bool:
        """Whether clients find this node at the client's listener. At the one of bootstrap they
        find any."""
        route = self._route
        own_id = route.node_id if route.listed_id is None else route.listed_id
        return own_id in (None, node_id) or route.stands_in_for(node_id)

    @property
    def is_at_coordinator_node(self) -> bool:
        """Whether the client has connected to a coordinator node of a fleet."""
        return self._route.listed_id is not None

    def is_in_doubt(self, node_id: int) -> bool:
        """Whether a broker is away, or may be."""
        return self._route.brokers.is_in_doubt(node_id)

    def find_offer(self) -> tuple[int, Offer] | None:
        """The broker, and its versions, from memory. None if they are not there.

        Many clients never ask for anything that goes up: members at rest.
        """
        return self._route.find_offer()

    def take_offer(self, software: ClientSoftware, known: tuple[int, Offer]) -> None:
        """Serve this client with what `find_offer` has found."""
        self.software, (self.node_id, self.offer) = software, known

    async def negotiate(self, software: ClientSoftware) -> None:
        """Learn the broker's versions: from memory, or from the broker if this is the first
        connection to it. Meanwhile others wait for what it learns.

        Raises UpstreamError if the broker is away and nothing is remembered.
        """
        known = self.find_offer()
        if known is None:
            self.software = software
            try:
                known = await self._route.share_offer(self._learn_offer)
            except UpstreamError:
                known = self._route.recall()
                if known is None:
                    raise
        self.take_offer(software, known)

    async def _learn_offer(self) -> tuple[int, Offer]:
        await self._open_connection()
        return self.node_id, self.offer

    async def introduce(self, software: ClientSoftware, *, to_broker: bool) -> None:
        """Learn the software of a client that has not said it at first. If `to_broker`, the broker
        learns it as well (KIP-511)."""
        if software == self.software:
            return
        self.software = software
        _low, high = self.versions.get(ApiKey.API_VERSIONS, NO_VERSIONS)
        if to_broker and self.is_open and high >= FIRST_WITH_SOFTWARE:
            request = ApiVersionsRequest(
                client_software_name=software.name, client_software_version=software.version
            )
            with suppress(BrokerLost, BadAnswer):
                await self.ask(request, FIRST_WITH_SOFTWARE)

    async def is_there(self) -> bool:
        """Whether there is a connection, or one could be opened."""
        try:
            await self._open_connection()
        except UpstreamError:
            return False
        return True

    async def get_connection(self) -> UpstreamConnection:
        """The connection for the client's own requests. Waits a little if the broker is away.

        Raises UpstreamError, UpstreamChanged.
        """
        try:
            return await self._open_connection()
        except UpstreamError:
            with trio.move_on_after(PATIENCE_S):
                await self._route.until_back()
            return await self._open_connection()

    async def ask(self, message: Struct, version: int) -> Any:
        """Ask the broker as the client, while the client's request is being answered. Returns the
        response.

        Raises BrokerLost if no answer came, so that it is unknown whether the broker acted;
        UpstreamAway if the request was not sent. Raises BadAnswer if the answer is malformed,
        ValueError for a version that the broker does not support. The connection stays usable if
        the caller is cancelled.
        """
        (answer,) = await self.ask_in_order((message,), version)
        if answer is None:
            raise BrokerLost
        return answer

    async def ask_in_order(self, messages: Sequence[Struct], version: int) -> Sequence[Any | None]:
        """Send requests of one api without waiting in between. The result is None for each answer
        that did not come.

        All requests use one connection, so the broker handles them in this order or not at all.
        Raises UpstreamAway, BadAnswer, ValueError as `ask` does.
        """
        try:
            connection = await self._open_connection()
        except UpstreamError:
            raise UpstreamAway from None
        key = messages[0].SCHEMA.api_key
        assert key is not None
        timeout_s = self._timeout_s(key)
        answers: list[Any | None] = []
        sent: Sequence[ExpectedAnswer] = ()
        with trio.CancelScope(deadline=trio.current_time() + timeout_s) as patience:
            try:
                sent = await connection.send(messages, version, self.client_id)
            except UpstreamAway:
                raise
            except BrokerLost:
                pass
            try:
                for expected in sent:
                    await expected.wait_until_arrived()
                    patience.deadline = math.inf
                    answers.append(await expected.answer())  # now, so that the next finds room
                    patience.deadline = trio.current_time() + timeout_s
            finally:
                for expected in sent:
                    expected.forget()
        if patience.cancelled_caught:
            self._give_up(connection)
        return answers + [None] * (len(messages) - len(answers))

    def send_inspected(
        self, key: ApiKey, request: bytearray, correlation_id: int, inspect: Inspect
    ) -> memoryview:
        """Send a client's request, with its size, as it is except for its correlation id. The
        client gets the answer if `inspect` lets it pass. Returns what could not be sent
        immediately.

        For the poller's task. The connection must be open and have room.
        """
        connection = self.connection
        assert connection is not None
        expected, rest = connection.send_inspected(request, correlation_id, inspect)
        until_s = self._resources.poller.turn_s + self._timeout_s(key)
        self._resources.broker_timeouts.wait(expected, until_s, partial(self._give_up, connection))
        return rest

    async def send_rest(self, rest: memoryview) -> None:
        """Send what `send_inspected` could not. Raises BrokerLost."""
        assert self.connection is not None
        await self.connection.send_rest(rest)

    async def ask_all(self, messages: Sequence[Struct], version: int) -> Sequence[Any]:
        """Ask many requests of one api, ASKED_TOGETHER_MAX at a time. Raises as `ask` does."""
        answers: list[Any] = []
        for batch in batches(messages, ASKED_TOGETHER_MAX):
            answers += await self.ask_in_order(batch, version)
            if answers[-1] is None:  # and no answer behind a lost one
                raise BrokerLost
            await trio.lowlevel.checkpoint()
        return answers

    def resume(self, tasks: trio.Nursery) -> None:
        """From now on a task in `tasks` sends the broker's answers to the client."""
        self._tasks = tasks
        if self.connection is not None:
            tasks.start_soon(self._pump, self.connection)

    @property
    def is_parked(self) -> bool:
        """Whether that task has nothing to do."""
        return self.connection is None or self.connection.is_parked

    def go_idle(self) -> None:
        """Let that task, which has nothing to do, end."""
        if self.connection is not None:
            self.connection.go_idle()

    def sleep(self, on_work: OnWork) -> None:
        """Send the broker's answers to the client without a task, until there is work for one."""
        self._tasks = None
        if self.connection is not None:
            self.connection.sleep(self._sink, on_work)

    def end_sleep(self) -> None:
        """Until `resume`, no answers are sent."""
        if self.connection is not None:
            self.connection.end_sleep()

    def silence(self) -> None:
        """Send none of the broker's answers to the client from now on."""
        self._sink = NullSink()
        if self.connection is not None:
            self.connection.silence()

    async def idle(self) -> None:
        """Wait until all outstanding answers have been sent to the client."""
        if self.connection:
            await self.connection.idle()

    async def finish(self) -> None:
        """Wait until the client has all answers, and the broker has all requests without one."""
        if self.connection:
            await self.connection.finish()

    def close(self) -> None:
        """Close the connection. No task may be waiting on it."""
        self._tasks = None
        if self.connection:
            self.connection.close()

    async def _open_connection(self) -> UpstreamConnection:
        if self.connection is not None and self.connection.state is UpstreamState.FAILED:
            raise BrokerLost  # what follows the lost answer would be taken for it
        if self.connection is None or self.connection.state is not UpstreamState.OPEN:
            opened = await self._open()
            self._leave()
            self.connection = opened
            assert self._tasks is not None, "a task asks"
            self._tasks.start_soon(self._pump, self.connection)
        return self.connection

    def _leave(self) -> None:
        """Forget a connection that has ended, but not what it has received."""
        self._received_before = self.received_bytes
        self.connection = None

    async def _open(self) -> UpstreamConnection:
        self.node_id, opened = await self._route.connect(self.software, self.node_id)
        offer = offer_of(opened.api_versions)
        if self.is_bound or (self.is_negotiated and offer.versions != self.versions):
            opened.close()
            raise UpstreamChanged
        self.offer = offer
        return UpstreamConnection(
            opened.detach(),
            offer.versions,
            limits=self._limits,
            resources=self._resources,
            slot=self._slot,
        )

    async def _pump(self, connection: UpstreamConnection) -> None:
        try:
            await connection.pump(self._sink)
        except (BrokerLost, StreamEnded, OSError):
            if connection.state is UpstreamState.FAILED:
                raise
            if self.connection is connection:
                self._leave()
        finally:
            if self.connection is not connection:
                connection.close()

    def _give_up(self, connection: UpstreamConnection) -> None:
        """The broker has not answered in time."""
        connection.give_up()
        self._route.suspect(self.node_id)

    def _timeout_s(self, key: ApiKey) -> float:
        if key in _MAY_BE_PARKED:
            return float("inf")
        return self._limits.broker_timeout_s if key in _PROMPT else ANSWER_TIMEOUT_S
