"""Connections to the brokers: opens them, tracks which brokers are away or slow, and remembers the
api versions of each."""

import contextlib
import math
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial

import structlog
import trio

from gateway.cluster.access import PLAIN_ACCESS, Access
from gateway.cluster.broker_connection import (
    SOFTWARE_NAME,
    SOFTWARE_VERSION,
    Address,
    BrokerConnection,
)
from gateway.cluster.errors import UpstreamError
from gateway.cluster.shared_lookups import SharedLookups
from gateway.data_path.broker_names import BrokerNames
from gateway.data_path.config import Limits
from gateway.data_path.offer import Offer, offer_of

log = structlog.get_logger()

TRY_AGAIN_S = 1.0
"""How often a broker that is away is tried. One task tries, and all clients of the broker wait for
it. The gateway's own requests have other limits: `cluster.py`, `coordinator_connections.py`."""

OPENING_MAX = 256
"""Connections to one broker that are being opened at the same time. When all clients come back at
once, each that is being opened takes 13 KiB, and each that waits for its turn 5."""

VERSIONS_FRESH_S = 30.0
"""How long a broker's api versions and features are told to new clients without asking it."""

LEARNING_S = 0.5
"""How long a start waits for the versions of slow brokers. Their clients ask for them then."""

SUSPECT_PATIENCE_S = 0.5
"""How long a new connection waits to hear whether a slow broker answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSoftware:
    """How a client introduces itself. Its upstream connection uses the same names."""

    client_id: str | None = SOFTWARE_NAME
    name: str = SOFTWARE_NAME
    version: str = SOFTWARE_VERSION


class Brokers:
    """Opens connections to brokers, and remembers which brokers fail."""

    def __init__(
        self,
        live_brokers: Callable[[], Mapping[int, Address]],
        nursery: trio.Nursery,
        *,
        access: Access = PLAIN_ACCESS,
        limits: Limits | None = None,
    ) -> None:
        """`nursery` runs the tasks that check on brokers. `access` is that of clients. The
        time to connect is limited by `broker_timeout_s`."""
        self._live_brokers = live_brokers
        self._nursery = nursery
        self._addresses: dict[int, Address] = {}
        self._offers: dict[int, Offer] = {}
        self._offers_s: dict[int, float] = {}  # when each was learned
        self.offers_asked: SharedLookups[tuple[int, Offer]] = SharedLookups()
        """The offers that clients are finding out, by the node id of their listener."""
        self._away: dict[int, trio.Event] = {}  # the event is set when the broker is back
        self._suspected: dict[int, trio.Event] = {}  # the event is set after the check
        self._opening: defaultdict[int, trio.Semaphore] = defaultdict(
            partial(trio.Semaphore, OPENING_MAX)
        )
        self._access = access
        self._limits = limits or Limits()
        self._turn = 0

    def learn(self, brokers: Mapping[int, Address]) -> None:
        """Note the brokers' addresses."""
        self._addresses.update(brokers)

    def knows(self, node_id: int) -> bool:
        """Whether the cluster has named this broker."""
        return node_id in self._addresses

    async def learn_offers(self) -> None:
        """Ask the live brokers for their versions, for at most `LEARNING_S`. When clients come back
        all at once, the first ones find them in memory."""
        live_brokers = self._live_brokers()
        self.learn(live_brokers)
        with trio.move_on_after(LEARNING_S):
            async with trio.open_nursery() as nursery:
                for node_id, address in live_brokers.items():
                    nursery.start_soon(self._learn_offer, node_id, address)

    async def _learn_offer(self, node_id: int, address: Address) -> None:
        with contextlib.suppress(UpstreamError):
            (await self._connect_to(node_id, address, ClientSoftware())).close()

    async def connect(
        self, node_id: int | None, software: ClientSoftware, preferred_id: int | None = None
    ) -> tuple[int, BrokerConnection]:
        """Connect to this broker, or to any live one: the preferred one if it can be reached.
        Returns its node id too.

        Raises UpstreamError, immediately for a broker that is known to be away.
        """
        if node_id is not None:
            return node_id, await self._connect_to(node_id, self._addresses[node_id], software)
        brokers = self._list_in_turn()
        brokers.sort(key=lambda broker: broker[0] != preferred_id)
        reason = "no broker is known"  # no error: the frame in its own traceback would be a cycle
        for found_id, address in brokers:
            try:
                return found_id, await self._connect_to(found_id, address, software)
            except UpstreamError as error:
                reason = str(error)
        raise UpstreamError(reason)

    def recall(self, node_id: int | None) -> tuple[int, Offer] | None:
        """The broker's node id and what it offered last; if the broker was never connected, what
        another broker did. None if there was no broker at all."""
        if not self._offers:
            return None
        latest = next(reversed(self._offers))
        known_id = latest if node_id is None else node_id
        return known_id, self._offers.get(known_id) or self._offers[latest]

    def find_offer(self, node_id: int | None) -> tuple[int, Offer] | None:
        """This broker, or any live one, and what its clients are offered; None if it has not been
        connected lately, or if there is doubt that it can be."""
        if node_id is not None:
            return self._find_fresh_offer(node_id)
        offers = (self._find_fresh_offer(live_id) for live_id, _ in self._list_in_turn())
        return next(filter(None, offers), None)

    def _list_in_turn(self) -> list[tuple[int, Address]]:
        """The live brokers. Each call begins with another one."""
        brokers = sorted(self._live_brokers().items())
        self._turn += 1
        start = self._turn % max(1, len(brokers))
        return brokers[start:] + brokers[:start]

    def _find_fresh_offer(self, node_id: int) -> tuple[int, Offer] | None:
        if self.is_in_doubt(node_id):
            return None
        if trio.current_time() - self._offers_s.get(node_id, -math.inf) > VERSIONS_FRESH_S:
            return None  # it may have been upgraded, or features finalized
        return node_id, self._offers[node_id]

    def is_in_doubt(self, node_id: int) -> bool:
        """Whether the broker is away, or may be."""
        return node_id in self._away or node_id in self._suspected

    def suspect(self, node_id: int) -> None:
        """Check whether a broker that was slow to answer still accepts connections. If it does, it
        counts as slow and stays in use."""
        is_ending = self._nursery.cancel_scope.cancel_called
        if node_id not in self._away and node_id not in self._suspected and not is_ending:
            self._suspected[node_id] = trio.Event()
            self._nursery.start_soon(self._check, node_id)

    def doubt(self, node_id: int, reason: str) -> None:
        """Treat the broker as away until a connection succeeds. Logs one line when the broker is
        lost and one when it is back, however often clients try."""
        if node_id not in self._away:
            log.warning("broker_unreachable", node_id=node_id, reason=reason)
            self._away[node_id] = trio.Event()
            if self._nursery.cancel_scope.cancel_called:
                return  # draining: nobody will wait for the broker
            self._nursery.start_soon(self._until_back, node_id)

    async def until_back(self, node_id: int | None) -> None:
        """Wait while the broker is away or suspected; for ever if `node_id` is None."""
        if node_id is None:
            await trio.sleep_forever()
        else:
            while node_id in self._away or node_id in self._suspected:
                await (self._suspected | self._away)[node_id].wait()

    async def _connect_to(
        self, node_id: int, address: Address, software: ClientSoftware
    ) -> BrokerConnection:
        self._expect(node_id)
        if node_id in self._suspected:
            # The client has already waited for an answer; a second full wait could end its session.
            with trio.move_on_after(SUSPECT_PATIENCE_S):
                await self._suspected[node_id].wait()
            if node_id in self._suspected or node_id in self._away:
                raise UpstreamError(f"broker {node_id} may be away")
        async with self._opening[node_id]:
            self._expect(node_id)  # those before may have waited for it in vain
            return await self._reach(node_id, address, software)

    def _expect(self, node_id: int) -> None:
        """Raises UpstreamError for a broker that is known to be away."""
        if node_id in self._away:
            raise UpstreamError(f"broker {node_id} is away")

    async def _reach(
        self, node_id: int, address: Address, software: ClientSoftware
    ) -> BrokerConnection:
        try:
            connection = await self._open(address, software)
        except UpstreamError as error:
            self.doubt(node_id, str(error))
            raise
        self._record_offer(node_id, offer_of(connection.api_versions))
        return connection

    def _record_offer(self, node_id: int, offer: Offer) -> None:
        self._offers.pop(node_id, None)  # so that the latest comes last
        self._offers[node_id] = offer
        self._offers_s[node_id] = trio.current_time()

    async def _check(self, node_id: int) -> None:
        structlog.contextvars.clear_contextvars()
        try:
            address = self._live_brokers().get(node_id) or self._addresses[node_id]
            (await self._reach(node_id, address, ClientSoftware())).close()
            timeout_s = self._limits.broker_timeout_s
            log.warning("broker_slow", node_id=node_id, broker_timeout_s=timeout_s)
        except UpstreamError:
            pass  # `_reach` has marked the broker as away
        finally:
            self._suspected.pop(node_id).set()

    async def _until_back(self, node_id: int) -> None:
        structlog.contextvars.clear_contextvars()  # inherited from the first client's connection
        while node_id in self._away:
            await trio.sleep(TRY_AGAIN_S)
            with contextlib.suppress(UpstreamError):
                address = self._live_brokers().get(node_id) or self._addresses[node_id]
                connection = await self._open(address, ClientSoftware())
                connection.close()
                # It may have been upgraded while it was away.
                self._record_offer(node_id, offer_of(connection.api_versions))
                self._away.pop(node_id).set()
        log.info("broker_back", node_id=node_id)

    async def _open(self, address: Address, software: ClientSoftware) -> BrokerConnection:
        timeout_s = self._limits.broker_timeout_s
        with trio.move_on_after(timeout_s):
            return await BrokerConnection.open(
                *address,
                access=self._access,
                client_id=software.client_id,
                software_name=software.name,
                software_version=software.version,
            )
        host, port = address
        raise UpstreamError(f"{host}:{port} did not answer in {timeout_s} s")


def _stands_in_for_none(_node_id: int) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class BrokerRoute:
    """The way to the broker that a listener represents."""

    brokers: Brokers
    node_id: int | None
    """None stands for any live broker."""
    names: BrokerNames | None = None
    """The brokers' host names, if the listener represents each of them."""
    listed_id: int | None = None
    """The id of the node that clients have connected to, if it is not the broker's."""
    stands_in_for: Callable[[int], bool] = _stands_in_for_none
    """Whether clients also find another node at this address."""

    def to(self, host: str | None) -> "BrokerRoute | None":
        """The way that leads to the host a client asked for by SNI, if any. None if that is the
        name of a broker that the cluster does not have."""
        node_id = None if self.names is None else self.names.node_of(host)
        if node_id is None:
            return self
        return BrokerRoute(self.brokers, node_id) if self.brokers.knows(node_id) else None

    async def connect(
        self, software: ClientSoftware, preferred_id: int | None = None
    ) -> tuple[int, BrokerConnection]:
        """Connect, if the listener represents several brokers to the preferred one first. Returns
        the node id and the connection. Raises UpstreamError."""
        return await self.brokers.connect(self.node_id, software, preferred_id)

    async def until_back(self) -> None:
        """Wait for the broker if it is away."""
        await self.brokers.until_back(self.node_id)

    def suspect(self, node_id: int) -> None:
        """Check whether this broker still answers."""
        self.brokers.suspect(node_id)

    def find_offer(self) -> tuple[int, Offer] | None:
        """The broker, and what its clients are offered; None if it has to be connected to learn
        it."""
        return self.brokers.find_offer(self.node_id)

    async def share_offer(
        self, learn: Callable[[], Awaitable[tuple[int, Offer]]]
    ) -> tuple[int, Offer]:
        """What `learn` finds out by connecting, or what another client finds out just now. Raises
        UpstreamError."""
        return await self.brokers.offers_asked.run(f"{self.node_id}", learn)

    def recall(self) -> tuple[int, Offer] | None:
        """The node id and what the broker offered last; None if unknown."""
        return self.brokers.recall(self.node_id)
