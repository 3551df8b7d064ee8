"""Takes part in the group of a fleet that runs on several machines: sends what `ShardOwnership`
wants to send, and passes on what the table says.
"""

import errno
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from time import time_ns
from uuid import uuid4

import structlog
import trio

from gateway.cluster.access import Access
from gateway.cluster.broker_connection import Address
from gateway.cluster.cluster import Cluster
from gateway.cluster.coordinator_connections import CoordinatorConnections
from gateway.cluster.errors import UpstreamError
from gateway.fleet.member import NO_SLOT, SHARDS
from gateway.fleet.ownership import Founding, ShardOwnership
from gateway.fleet.seated_member import SeatedMember
from gateway.fleet.table import FleetTable, GatewayAddress, Seat
from gateway.fleet.words import GaveUp, Lose, NotOpened, Opened, OwnerTable, Take
from gateway.state_folder import LOOK_AT_FILE, StateFolderError, write_file
from gateway.state_log.log import StateLogError, StateLogTaken
from kafka_codecs.declaration import Struct
from kafka_codecs.leave_group import LeaveGroupRequest, MemberIdentity

log = structlog.get_logger()

SLOT_FILE = "fleet_slot"
LEAVE_S = 10.0
"""How long a gateway that leaves waits for others to take its shards."""
LINGER_S = 6.0
"""How long it then stays, so that its clients hear at a heartbeat who has their group: a port that
refuses makes some of them join again."""
GOODBYE_S = 3.0
PROBE_INTERVAL_S = 0.5
PROBE_TIMEOUT_S = 1.0
REFUSALS = 2
"""How often in a row the port of a neighbour refuses until it counts as ended."""


class FleetError(Exception):
    """The gateway cannot be in the fleet. The message says in one line why and what to do."""


class NameTaken(FleetError):
    """Another gateway of the fleet has its name."""


class OwnershipDriver:
    """The gateway's place in its fleet. An `OrderSource` for `ShardMoves`."""

    def __init__(
        self,
        cluster: Cluster,
        connections: CoordinatorConnections,
        ownership: ShardOwnership,
        *,
        claim_log: Callable[[], Awaitable[Founding]],
        folder: Path,
        processes: int = 1,
        report_owners: Callable[[Sequence[int]], None] = lambda _owners: None,
    ) -> None:
        """`claim_log` takes the state log for a new fleet. `folder`: the process's own, which
        remembers the slot. `processes` of this machine; `report_owners` learns which of them has
        each shard, or NO_SLOT."""
        self._cluster, self._connections = cluster, connections
        self._ownership = ownership
        self._claim_log = claim_log
        self._folder = folder
        self._processes, self._report_owners = processes, report_owners
        self._looks_up = True
        self._node_id = -1
        self._changed = trio.Event()
        self._orders_in, self.orders = trio.open_memory_channel[OwnerTable | Take | Lose](math.inf)
        self._lost: set[int] = set()
        self._ports: tuple[dict[int, int], dict[int, int]] = {}, {}
        self._membership = trio.CancelScope()
        self._has_left = trio.Event()
        self._reported_trouble: str | None = None
        self.has_seat = trio.Event()
        """Set once the fleet has given the gateway a slot."""
        self.member: SeatedMember
        """The gateway's view of its fleet, once it has a seat."""

    @property
    def table(self) -> FleetTable:
        """The latest table, once it has a seat."""
        table = self._ownership.table
        assert table is not None
        return table

    @property
    def run_id(self) -> int:
        """A run for the process itself, once it has a seat."""
        return self.table.run_of(self._ownership.slot)

    async def run(self) -> None:
        """Be a member of the group until it leaves. Raises FleetError, StateFolderError, and
        StateLogUnusable from claiming the log."""
        with self._membership:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch_neighbour)
                await self._take_part()

    async def _take_part(self) -> None:
        while True:
            owned = self._ownership
            request = await self._deal() if owned.leads else owned.advance(_now_ms())
            while request is not None:
                request = await self._ask(request)
            self._pass_on()
            if owned.leads:
                continue
            next_ms = owned.next_ms()
            delay_s = 0.0 if next_ms is None else max(0, next_ms - _now_ms()) / 1000
            with trio.move_on_after(delay_s):
                await self._changed.wait()
            self._changed = trio.Event()

    async def _ask(self, request: Struct) -> Struct | None:
        """Send a request. Returns the next one that has to be sent right away."""
        owned = self._ownership
        try:
            if self._looks_up:
                self._node_id = await self._cluster.coordinator_of(owned.group_id)
                self._looks_up = False
            answer = await self._connections.ask(self._node_id, request)
        except UpstreamError as error:
            self._looks_up = True
            owned.on_no_answer(str(error), _now_ms())
            return None
        if self._membership.cancel_called:  # it has left the group meanwhile
            return None
        following = owned.on_answer(answer, _now_ms())
        self._looks_up |= getattr(answer, "error_code", 0) != 0
        return following

    async def _deal(self) -> Struct | None:
        owned = self._ownership
        founding: Founding | None = None
        if owned.needs_founding:
            reasons: list[str] = []
            try:
                founding = await self._claim_log()
            except* (StateLogError, StateLogTaken) as errors:
                reasons += map(str, errors.exceptions)
            if founding is None:
                log.warning("fleet_not_founded", reason=", ".join(reasons))
                owned.abandon_round(", ".join(reasons), _now_ms())
                return None
        return owned.deal(founding, _now_ms(), _wall_ms())

    def _pass_on(self) -> None:
        """Have the gateway do what the table says."""
        owned = self._ownership
        if owned.is_superseded:
            raise NameTaken(
                f"another gateway of the fleet has the name {owned.name}: give each its own"
                " --gateway-name"
            )
        orders = owned.take_orders()
        if owned.slot != NO_SLOT and orders:
            self._follow()
            here = map(self.member.process_in, self.table.owners)
            self._report_owners([NO_SLOT if process is None else process for process in here])
        for order in orders:
            self._orders_in.send_nowait(order)
        if owned.has_left:
            self._has_left.set()
        if owned.trouble != self._reported_trouble:
            self._reported_trouble = owned.trouble
            if owned.trouble is not None:
                log.warning(
                    "fleet_group_unavailable", group_id=owned.group_id, reason=owned.trouble
                )

    def _follow(self) -> None:
        owned, table = self._ownership, self.table
        if self.has_seat.is_set():
            if owned.slot != self.member.slot:
                raise FleetError(
                    f"the fleet has given slot {self.member.slot} of this gateway to another one:"
                    " start it again"
                )
            self.member.follow(table, _wall_ms())
            return
        self.member = SeatedMember(
            slot=owned.slot,
            slots=self._processes,
            shards=owned.shards,
            owners=list(table.owners),
            table=table,
        )
        self.member.follow(table, _wall_ms())
        address = owned.address
        write_file(self._folder / SLOT_FILE, f"{owned.slot} {address.host} {address.port}\n")
        self.has_seat.set()

    def _wake(self) -> None:
        self._changed.set()

    # -- what the gateway reports ----------------------------------------------------------------

    async def say_of_shard(self, word: GaveUp | Opened | NotOpened) -> None:
        """See `OrderSource`."""
        owned = self._ownership
        match word:
            case GaveUp(shard) if shard not in self._lost:
                owned.on_given_up(shard, _now_ms())
            case GaveUp(shard) | NotOpened(shard):
                self._lost.discard(shard)
                owned.on_not_opened(shard, _now_ms())
            case Opened():
                return
        self._wake()

    def on_taken(self, shard: int, reason: str, *, was_open: bool) -> None:
        """See `OnTaken`."""
        if was_open:
            self._lost.add(shard)
            self._orders_in.send_nowait(Lose(shard, reason))
        else:
            self._ownership.on_outrun()

    def learn_ports(self, broker_id: int, *, broker_port: int, node_port: int) -> None:
        """Announce the ports of a broker, and of the coordinator node that leads to it."""
        broker_ports, node_ports = self._ports
        broker_ports[broker_id], node_ports[broker_id] = broker_port, node_port
        self._ownership.learn_ports(broker_ports, node_ports, _now_ms())
        self._wake()

    async def leave(self) -> None:
        """Have others take all shards, if there are others, and wait until clients know."""
        self._ownership.begin_to_leave(_now_ms())
        self._wake()
        with trio.move_on_after(LEAVE_S):
            await self._has_left.wait()
        if any(seat.serves and not seat.is_leaving for seat in self.table.seats):
            await trio.sleep(LINGER_S)
        await self.leave_group()  # before the ports refuse

    async def leave_group(self) -> None:
        """Leave the group, so that the others need not wait for the end of the session."""
        self._membership.cancel()
        request = self._ownership.leave_group()
        with trio.move_on_after(GOODBYE_S), suppress(UpstreamError):
            if request is not None:
                await self._connections.ask(self._node_id, request)

    # -- the neighbour ---------------------------------------------------------------------------

    async def _watch_neighbour(self) -> None:
        """Remove a gateway whose port refuses from the group, so that the others need not wait for
        the end of its session. Each looks at the one with the next slot."""
        refusals, watched = 0, ""
        while True:
            await trio.sleep(PROBE_INTERVAL_S)
            seat = self._find_neighbour()
            if seat is None:
                continue
            refusals = refusals if watched == seat.member_id else 0
            watched = seat.member_id
            refusals = refusals + 1 if await refuses(seat) else 0
            if refusals >= REFUSALS:
                log.warning("gateway_removed", gateway=seat.name, slot=seat.slot)
                await self._remove(seat)
                refusals = 0

    def _find_neighbour(self) -> Seat | None:
        if not self.has_seat.is_set():
            return None
        own = self._ownership.slot
        others = [seat for seat in self.table.seats if seat.serves and seat.slot != own]
        return min(others, key=lambda seat: (seat.slot < own, seat.slot), default=None)

    async def _remove(self, seat: Seat) -> None:
        """Remove a gateway, but none that has taken its name since."""
        gone = MemberIdentity(
            member_id=seat.member_id,
            group_instance_id=seat.name,
            reason="its port refuses connections",
        )
        with suppress(UpstreamError):
            await self._connections.ask(
                self._node_id,
                LeaveGroupRequest(group_id=self._ownership.group_id, members=(gone,)),
            )


async def refuses(seat: Seat) -> bool:
    """Whether no process listens on the address of a coordinator node of this gateway."""
    port = min(seat.node_ports.values())
    with trio.move_on_after(PROBE_TIMEOUT_S):
        try:
            stream = await trio.open_tcp_stream(seat.address.host, port)
        except OSError as error:
            return _is_refusal(error)
        await stream.aclose()
    return False


def _is_refusal(error: BaseException) -> bool:
    """Whether all addresses have refused."""
    if isinstance(error.__cause__, BaseExceptionGroup):
        return all(map(_is_refusal, error.__cause__.exceptions))
    if error.__cause__ is not None:
        return _is_refusal(error.__cause__)
    return isinstance(error, OSError) and error.errno == errno.ECONNREFUSED


def _now_ms() -> int:
    return math.floor(trio.current_time() * 1000)


def _wall_ms() -> int:
    return time_ns() // 1_000_000


def read_slot(folder: Path, address: GatewayAddress) -> int:
    """The slot that the gateway had at this address, NO_SLOT if it had none. Raises
    StateFolderError."""
    path = folder / SLOT_FILE
    try:
        slot, host, port = path.read_text().split()
        is_same = (host, int(port)) == (address.host, address.port)
        return int(slot) if is_same else NO_SLOT
    except (FileNotFoundError, ValueError):
        return NO_SLOT
    except OSError as error:
        raise StateFolderError(f"cannot read {path}: {error.strerror}; {LOOK_AT_FILE}") from None


@asynccontextmanager
async def join_fleet(
    upstream: Sequence[Address],
    access: Access,
    *,
    cluster_id: str | None,
    group_id: str,
    name: str,
    address: GatewayAddress,
    claim_log: Callable[[], Awaitable[Founding]],
    folder: Path,
    process: int = 0,
    processes: int = 1,
    report_owners: Callable[[Sequence[int]], None] = lambda _owners: None,
) -> AsyncIterator[OwnershipDriver]:
    """Be in the fleet that shares its groups by this one during the block, which begins once the
    gateway has a slot. `process`: its number among the `processes` of this address. Raises
    UpstreamError, FleetError, StateFolderError, StateLogUnusable."""
    cluster = Cluster(upstream, access=access, only_id=cluster_id)
    ownership = ShardOwnership(
        group_id,
        name,
        address,
        SHARDS,
        uuid4().hex[:8],
        read_slot(folder, address),
        process,
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(cluster.run)
        connections = CoordinatorConnections(cluster)
        with closing(connections):
            driver = OwnershipDriver(
                cluster,
                connections,
                ownership,
                claim_log=claim_log,
                folder=folder,
                processes=processes,
                report_owners=report_owners,
            )
            nursery.start_soon(driver.run)
            await driver.has_seat.wait()
            try:
                yield driver
            finally:
                with trio.CancelScope(shield=True):
                    await driver.leave_group()
        nursery.cancel_scope.cancel()
