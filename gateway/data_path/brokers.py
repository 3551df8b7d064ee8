"""The ways to the brokers: connections for clients, who does not answer, what each spoke last.

Must not know ports, or what clients say.
"""

import contextlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import structlog
import trio

from gateway.cluster.broker_connection import (
    SOFTWARE_NAME,
    SOFTWARE_VERSION,
    Address,
    BrokerConnection,
)
from gateway.cluster.errors import UpstreamError
from gateway.data_path.config import BROKER_TIMEOUT_S
from kafka_codecs.api_versions import ApiVersionsResponse

log = structlog.get_logger()

TELL_SLOW_S = 60.0
"""How often it is said of a broker that it is slow."""
TRY_AGAIN_S = 1.0
"""A broker that is away is tried so often, however many clients want it, by one task that they
wait for. What the gateway itself asks has limits of its own: `cluster.py`, `anchor/links.py`."""


SUSPECT_PATIENCE_S = 0.5
"""How long a new connection waits until it is known whether a broker that took long is away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSoftware:
    """How a client introduces itself, and how we introduce its upstream connection."""

    client_id: str | None = SOFTWARE_NAME
    name: str = SOFTWARE_NAME
    version: str = SOFTWARE_VERSION


class Brokers:
    """Opens connections to brokers, and remembers how that went."""

    def __init__(
        self,
        live_brokers: Callable[[], Mapping[int, Address]],
        nursery: trio.Nursery,
        *,
        timeout_s: float = BROKER_TIMEOUT_S,
    ) -> None:
        """In `nursery` run those tasks that look after a broker. `timeout_s`: how long it may take
        to connect to one."""
        self._live_brokers = live_brokers
        self._nursery = nursery
        self._addresses: dict[int, Address] = {}
        self._spoken: dict[int, ApiVersionsResponse] = {}
        self._away: dict[int, trio.Event] = {}  # set when it is back
        self._suspected: dict[int, trio.Event] = {}  # set when it was checked
        self._told_slow_s: dict[int, float] = {}
        self._timeout_s = timeout_s
        self._turn = 0

    def learn(self, brokers: Mapping[int, Address]) -> None:
        """Where brokers are."""
        self._addresses.update(brokers)

    async def connect(
        self, node_id: int | None, software: ClientSoftware
    ) -> tuple[int, BrokerConnection]:
        """A connection to this broker, or to any live one; and its node id.

        Raises UpstreamError, at once for a broker that is known to be away.
        """
        if node_id is not None:
            return node_id, await self._connect_to(node_id, self._addresses[node_id], software)
        brokers = sorted(self._live_brokers().items())
        self._turn += 1
        failure = UpstreamError("no broker is known")
        for place in range(len(brokers)):
            found_id, address = brokers[(self._turn + place) % len(brokers)]
            try:
                return found_id, await self._connect_to(found_id, address, software)
            except UpstreamError as error:
                failure = error
        raise failure

    def recall(self, node_id: int | None) -> tuple[int, ApiVersionsResponse] | None:
        """The broker's node id, and what it spoke when it was last connected to; if it never was,
        what some other did."""
        if not self._spoken:
            return None
        latest = next(reversed(self._spoken))
        known_id = latest if node_id is None else node_id
        return known_id, self._spoken.get(known_id) or self._spoken[latest]

    def suspect(self, node_id: int) -> None:
        """It took long to answer somebody: see whether it answers at all. One that does is slow,
        and goes on being asked."""
        is_ending = self._nursery.cancel_scope.cancel_called
        if node_id not in self._away and node_id not in self._suspected and not is_ending:
            self._suspected[node_id] = trio.Event()
            self._nursery.start_soon(self._check, node_id)

    def doubt(self, node_id: int, why: str) -> None:
        """Take it to be away, until it can be connected to: one line when a broker is lost and one
        when it is back, however often clients try."""
        if node_id not in self._away:
            log.warning("broker_unreachable", node_id=node_id, reason=why)
            self._away[node_id] = trio.Event()
            if self._nursery.cancel_scope.cancel_called:
                return  # draining: whoever is still here will not wait for it
            self._nursery.start_soon(self._until_back, node_id)

    async def until_back(self, node_id: int | None) -> None:
        """Wait for a broker that is away."""
        if node_id is None:
            await trio.sleep_forever()
        else:
            while node_id in self._away or node_id in self._suspected:
                await (self._suspected | self._away)[node_id].wait()

    async def _connect_to(
        self, node_id: int, address: Address, software: ClientSoftware
    ) -> BrokerConnection:
        if node_id in self._away:
            raise UpstreamError(f"broker {node_id} is away")
        if node_id in self._suspected:
            # Whoever has waited for its answer must not wait as long again: a session would end.
            with trio.move_on_after(SUSPECT_PATIENCE_S):
                await self._suspected[node_id].wait()
            if node_id in self._suspected or node_id in self._away:
                raise UpstreamError(f"broker {node_id} may be away")
        return await self._reach(node_id, address, software)

    async def _reach(
        self, node_id: int, address: Address, software: ClientSoftware
    ) -> BrokerConnection:
        try:
            connection = await self._open(address, software)
        except UpstreamError as error:
            self.doubt(node_id, str(error))
            raise
        self._spoken.pop(node_id, None)  # the latest comes last
        self._spoken[node_id] = connection.spoken
        return connection

    async def _check(self, node_id: int) -> None:
        structlog.contextvars.clear_contextvars()
        try:
            address = self._live_brokers().get(node_id) or self._addresses[node_id]
            (await self._reach(node_id, address, ClientSoftware())).close()
            self._tell_slow(node_id)
        except UpstreamError:
            pass  # doubted by now
        finally:
            self._suspected.pop(node_id).set()

    def _tell_slow(self, node_id: int) -> None:
        now_s = trio.current_time()
        if now_s - self._told_slow_s.get(node_id, -math.inf) >= TELL_SLOW_S:
            self._told_slow_s[node_id] = now_s
            log.warning("broker_slow", node_id=node_id, broker_timeout_s=self._timeout_s)

    async def _until_back(self, node_id: int) -> None:
        structlog.contextvars.clear_contextvars()  # whoever came first is not the broker
        while node_id in self._away:
            await trio.sleep(TRY_AGAIN_S)
            with contextlib.suppress(UpstreamError):
                address = self._live_brokers().get(node_id) or self._addresses[node_id]
                (await self._open(address, ClientSoftware())).close()
                self._away.pop(node_id).set()
        log.info("broker_back", node_id=node_id)

    async def _open(self, address: Address, software: ClientSoftware) -> BrokerConnection:
        with trio.move_on_after(self._timeout_s):
            return await BrokerConnection.open(
                *address,
                client_id=software.client_id,
                software_name=software.name,
                software_version=software.version,
            )
        host, port = address
        raise UpstreamError(f"{host}:{port} does not answer in {self._timeout_s} s")


@dataclass(frozen=True, slots=True)
class BrokerRoute:
    """The way to the broker that a listener stands for."""

    brokers: Brokers
    node_id: int | None
    """None: any live broker."""

    async def connect(self, software: ClientSoftware) -> tuple[int, BrokerConnection]:
        """A connection, and the node id. Raises UpstreamError."""
        return await self.brokers.connect(self.node_id, software)

    async def until_back(self) -> None:
        """Wait for the broker, if it is away; nobody waits for just any."""
        await self.brokers.until_back(self.node_id)

    def suspect(self, node_id: int) -> None:
        """See whether this broker still answers."""
        self.brokers.suspect(node_id)

    def recall(self) -> tuple[int, ApiVersionsResponse] | None:
        """The node id, and what the broker spoke last; None if that is not known."""
        return self.brokers.recall(self.node_id)
