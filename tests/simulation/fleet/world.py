"""Gateways that share out the shards of a fleet, in simulated time, in front of a simulated broker.

They are the shipped machine (`gateway/fleet/ownership.py`, `table.py`). What they open and give up
is only noted.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from coordinator.group.classic_group import ClassicGroup
from coordinator.interface.topics import Topics
from gateway.fleet.member import NO_SLOT
from gateway.fleet.ownership import Founding, ShardOwnership
from gateway.fleet.table import GONE_MS, GatewayAddress
from gateway.fleet.words import OwnerTable, Take
from kafka_codecs.declaration import Struct
from kafka_codecs.heartbeat import HeartbeatRequest
from kafka_codecs.leave_group import LeaveGroupRequest, MemberIdentity
from tests.simulation.broker import Answer, Broker, Sender
from tests.simulation.broker_profiles import KAFKA_3_9, BrokerProfile

GROUP = "groupferry-fleet-state"
SHARDS = 16
TICK_MS = 50
QUIET_MS = 40_000
"""Longer than all sessions, rounds and pauses between attempts."""
FIRST_RUN = 7_000_000

Reply = Callable[[Struct], None]


@dataclass(eq=False)
class Gateway:
    """A gateway that opens and gives up shards as it is told."""

    world: "World"
    ownership: ShardOwnership
    is_alive: bool = True
    is_paused: bool = False
    is_cut: bool = False
    """Whether it cannot reach the cluster."""
    open: set[int] = field(default_factory=set)
    fenced: set[int] = field(default_factory=set)
    """The shards that another gateway has opened, as it notices next."""
    ending: dict[int, int] = field(default_factory=dict)
    """When the shards that it gives up are closed."""
    answers: list[Struct] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Its name in the fleet."""
        return self.ownership.name

    def live(self, now_ms: int) -> None:
        """Do what is due."""
        if not self.is_alive or self.is_paused:
            return
        owned = self.ownership
        for shard in tuple(self.fenced):
            self.fenced.discard(shard)
            self._close(shard)
            owned.on_not_opened(shard, now_ms)
        for shard, at_ms in tuple(self.ending.items()):
            if now_ms >= at_ms:
                self._close(shard)
                owned.on_given_up(shard, now_ms)
        for answer in self.answers:
            self._send(owned.on_answer(answer, now_ms), now_ms)
        self.answers = []
        if owned.leads:
            self.world.deals += 1
            founding = None
            if owned.needs_founding:
                self.world.foundings += 1
                founding = Founding("log", FIRST_RUN * self.world.foundings)
            self._send(owned.deal(founding, now_ms, now_ms), now_ms)
        self._send(owned.advance(now_ms), now_ms)
        if owned.is_superseded:
            self.world.superseded.append(self)
            self.world.kill(self)
        for order in owned.take_orders():
            self._obey(order, now_ms)
        if owned.slot != NO_SLOT and owned.slot == owned.remembered_slot:
            owned.learn_ports({1: owned.address.port + 1}, {1: owned.address.port + 2}, now_ms)

    def _obey(self, order: OwnerTable | Take, now_ms: int) -> None:
        match order:
            case Take(shards, run_id) if self.world.is_outrun(shards, run_id):
                self.ownership.on_outrun()
                for shard in shards:
                    self.ownership.on_not_opened(shard, now_ms)
            case OwnerTable(slots):
                for shard in self.open:
                    if slots[shard] != self.ownership.slot and shard not in self.ending:
                        delay_ms = self.world.rng.choice((0, 100, 3_000))
                        self.ending[shard] = now_ms + delay_ms
            case Take(shards, run_id):
                self.world.on_taken(self, shards, run_id)
                self.open |= set(shards)

    def _close(self, shard: int) -> None:
        self.open.discard(shard)
        self.ending.pop(shard, None)

    def _send(self, request: Struct | None, now_ms: int) -> None:
        if request is not None:
            world = self.world
            if not isinstance(request, HeartbeatRequest):
                world.requests += 1
            if self.is_cut or (world.loses_answers and world.rng.random() < 0.02):
                self.ownership.on_no_answer("lost", now_ms)
                return
            world.ask(request, self._hear)

    def _hear(self, answer: Struct) -> None:
        if self.is_alive:
            self.answers.append(answer)


class World:
    """A group in a cluster and its gateways. What must always hold is checked at each step."""

    gateway_type: type[Gateway] = Gateway

    def __init__(self, seed: int = 0, profile: BrokerProfile = KAFKA_3_9) -> None:
        self.rng = random.Random(seed)
        self._broker = Broker(profile, Topics())
        self._replies: dict[int, Reply] = {}
        self._request_ids = count(1)
        self.gateways: list[Gateway] = []
        self.superseded: list[Gateway] = []
        self.now_ms = 0
        self.deals = self.foundings = self.requests = 0
        self.forgets_slots = False
        """Whether all who know the latest table may end while others are paused."""
        self.loses_answers = False
        self._nonces = count()
        self._runs: dict[int, tuple[str, int]] = {}
        self.last_run = dict.fromkeys(range(SHARDS), -1)
        self._slots: dict[int, tuple[GatewayAddress, int]] = {}
        self.memories: dict[str, int] = {}
        """The slot that each address remembers."""

    def start(self, name: str, port: int | None = None) -> Gateway:
        """Start a gateway, at an address of its own."""
        address = GatewayAddress(host=name, port=9092 if port is None else port)
        ownership = ShardOwnership(
            GROUP,
            name,
            address,
            SHARDS,
            str(next(self._nonces)),
            self.memories.get(f"{address}", NO_SLOT),
        )
        gateway = self.gateway_type(self, ownership)
        self.gateways.append(gateway)
        return gateway

    def kill(self, gateway: Gateway) -> None:
        """End it without a word. Its shards have no owner."""
        gateway.is_alive = False
        gateway.open = set()
        self.gateways.remove(gateway)

    def ask(self, request: Struct, reply: Reply = lambda _answer: None) -> None:
        """Have the cluster answer a request, now or later."""
        request_id = next(self._request_ids)
        self._replies[request_id] = reply
        sender = Sender("groupferry")
        self._deliver(self._broker.handle(request, sender, self.now_ms, request_id=request_id))

    def _deliver(self, answers: Sequence[Answer]) -> None:
        for request_id, message in answers:
            self._replies.pop(request_id)(message)

    @property
    def members(self) -> Mapping[str, str | None]:
        """The name of each member of the group, by member id."""
        group = self._broker.group(GROUP).state
        assert group is None or isinstance(group, ClassicGroup)
        members = {} if group is None else group.members
        return {member_id: member.instance_id for member_id, member in members.items()}

    def remove(self, name: str) -> None:
        """Have a neighbour remove a killed gateway."""
        for member_id, instance_id in self.members.items():
            if instance_id == name:
                identity = MemberIdentity(member_id=member_id, group_instance_id=name)
                self.ask(LeaveGroupRequest(group_id=GROUP, members=(identity,)))

    def run(self, length_ms: int) -> None:
        """Let time pass."""
        until_ms = self.now_ms + length_ms
        while self.now_ms < until_ms:
            self.now_ms += TICK_MS
            self._deliver(self._broker.pass_time(self.now_ms))
            for gateway in self.rng.sample(self.gateways, len(self.gateways)):
                gateway.live(self.now_ms)
                self._check_slot(gateway)

    def is_outrun(self, shards: tuple[int, ...], run_id: int) -> bool:
        """Whether a gateway outside has had one of these shards in a later run."""
        return any(run_id < self.last_run[shard] for shard in shards)

    def on_taken(self, taker: Gateway, shards: tuple[int, ...], run_id: int) -> None:
        """Check that no gateway in the group holds what another one opens. The cluster fences one
        that was removed from the group."""
        assert self._runs.setdefault(run_id, (taker.name, self.now_ms)) == (taker.name, self.now_ms)
        for shard in shards:
            assert run_id > self.last_run[shard]  # else nobody could open it
            self.last_run[shard] = run_id
            for other in self.gateways:
                if other is not taker and shard in other.open:
                    is_member = other.ownership._member_id in self.members
                    assert not is_member or self.is_fenced(other, shard), (shard, other.name)
                    self.fence(other, shard)

    def is_fenced(self, gateway: Gateway, shard: int) -> bool:
        """Whether the cluster takes no more writes of this gateway in a shard."""
        return shard in gateway.fenced

    def fence(self, gateway: Gateway, shard: int) -> None:
        """Take no more writes of it."""
        gateway.fenced.add(shard)

    def _check_slot(self, gateway: Gateway) -> None:
        owned = gateway.ownership
        if owned.slot == NO_SLOT or self.forgets_slots:
            return
        self.memories[f"{owned.address}"] = owned.slot
        address, seen_ms = self._slots.get(owned.slot, (owned.address, self.now_ms))
        assert address == owned.address or self.now_ms - seen_ms > GONE_MS / 2, owned.slot
        self._slots[owned.slot] = owned.address, self.now_ms

    def check_rest(self) -> None:
        """Check that all agree, that every shard is open once, and the shares are even."""
        self.run(QUIET_MS)
        first, *others = [gateway.ownership.table for gateway in self.gateways]
        assert first is not None
        assert all(table == first for table in others)
        held = sorted(shard for gateway in self.gateways for shard in gateway.open)
        assert held == list(range(SHARDS))
        loads = [len(gateway.open) for gateway in self.gateways]
        assert max(loads) - min(loads) <= 1
        for gateway in self.gateways:
            assert gateway.ownership.holds == gateway.open


def disturb(world: World) -> None:
    """Let something happen to a gateway. None is killed soon after another one, or while one is
    paused, if the slots have to be known for ever."""
    rng = world.rng
    names = {gateway.name for gateway in world.gateways}
    running = [gateway for gateway in world.gateways if not gateway.is_paused]
    paused = [gateway for gateway in world.gateways if gateway.is_paused]

    def kill_some(number: int) -> None:
        if not world.forgets_slots:
            number = 0 if paused else 1
            world.run(15_000)
        for gateway in rng.sample(running, min(number, len(running) - 1)):
            world.kill(gateway)
            if rng.random() < 0.5:
                world.remove(gateway.name)

    def start_some() -> None:
        absent = sorted(set("abcdef") - names)
        if absent:
            world.start(rng.choice(absent), rng.choice((9092, 9092, 9292)))

    def pause_some() -> None:
        if len(running) > 1 and world.forgets_slots:
            rng.choice(running).is_paused = True

    def go_on() -> None:
        for gateway in paused:
            gateway.is_paused = False

    def leave() -> None:
        if len(running) > 1:
            rng.choice(running).ownership.begin_to_leave(world.now_ms)

    def end_leavers() -> None:
        if not world.forgets_slots and (paused or len(running) < 2):
            return
        for gateway in running[1:]:
            if gateway.ownership.has_left and (request := gateway.ownership.leave_group()):
                world.ask(request)
                world.kill(gateway)

    def lose_shard() -> None:
        gateway = rng.choice(world.gateways)
        if gateway.open:
            world.fence(gateway, rng.choice(sorted(gateway.open)))

    events: list[Callable[[], None]] = [
        lambda: kill_some(1),
        lambda: kill_some(2),
        *(start_some, start_some, pause_some, go_on, leave, end_leavers, lose_shard),
    ]
    rng.choice(events)()
