"""Two owners of a shard: one that is paused, cut off or late, and the next one that has fenced it.

Each shard has a member, which sends heartbeats to whom it takes for the owner. An owner confirms
its ownership by writes of the shard, which the cluster refuses once another gateway has opened it,
and answers as long as its lease runs (`gateway/state_log/kafka/lease.py`, which ships). A new owner
removes a member that it has not heard for a session. From then on no answer of the former one may
tell the member that it is still in the group.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from gateway.fleet.member import NO_SLOT
from gateway.state_log.kafka import lease
from gateway.state_log.kafka.lease import LEASE_MS, Lease
from tests.simulation.broker_profiles import KAFKA_3_9, BrokerProfile
from tests.simulation.fleet.world import FIRST_RUN, SHARDS, TICK_MS, Gateway, World, disturb

RENEWAL_MS = LEASE_MS // 4
SESSION_MS = 6_000
BEAT_MS = 1_000
PATIENCES_MS = 3_000, 30_000
"""How long clients wait for an answer before they look for another coordinator."""
DELAY_MS_MAX = 300
STEPS = 40


@dataclass(slots=True)
class Member:
    """The only member of a group of a shard."""

    shard: int
    patience_ms: int
    coordinator: Gateway | None = None
    beat_at_ms: int = 0
    asked_ms: int | None = None
    """Since when it waits for an answer."""


@dataclass(eq=False)
class Owner(Gateway):
    """A gateway that answers the members of its shards."""

    leases: dict[int, Lease] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)
    """The epoch of its writer in each shard."""
    sessions: dict[int, int] = field(default_factory=dict)
    """When the session of each shard's member ends."""
    inbox: list[Callable[[], None]] = field(default_factory=list)
    """What has arrived at its sockets."""
    renew_at_ms: int = 0

    def live(self, now_ms: int) -> None:
        """Do what is due, in any order."""
        if not self.is_alive or self.is_paused:
            return
        inbox, self.inbox = self.inbox, []
        self.world.rng.shuffle(inbox)
        for handle in inbox:
            handle()
        super().live(now_ms)
        assert isinstance(self.world, Owners)
        if now_ms >= self.renew_at_ms:
            self.renew_at_ms = now_ms + RENEWAL_MS
            for shard in self.open:
                self.world.write(self, shard)
        for shard in self.open:
            if self.may_answer(shard) and now_ms >= self.sessions[shard]:
                self.world.remove_member(self, shard)

    def may_answer(self, shard: int) -> bool:
        """Whether it answers for the shard."""
        return shard in self.open and self.leases[shard].is_running

    def on_opened(self, shard: int, epoch: int, now_ms: int) -> None:
        """Answer from now on: the last owner was fenced by a request that was sent now."""
        self.leases[shard] = Lease(LEASE_MS)
        self.leases[shard].renew(now_ms)
        self.epochs[shard] = epoch
        self.sessions[shard] = now_ms + SESSION_MS

    def on_written(self, shard: int, epoch: int, asked_ms: int, *, is_fenced: bool) -> None:
        """The cluster has answered a write."""
        if shard not in self.open or self.epochs[shard] != epoch:
            return
        if is_fenced:
            self.leases[shard].end()
            self.fenced.add(shard)
        else:
            self.leases[shard].renew(asked_ms)


class Owners(World):
    """Gateways, members and the cluster between them."""

    gateway_type = Owner

    def __init__(
        self, patch: pytest.MonkeyPatch, seed: int = 0, profile: BrokerProfile = KAFKA_3_9
    ) -> None:
        """`patch` sets the clock of the leases."""
        super().__init__(seed, profile)
        patch.setattr(lease, "now_ms", lambda: self.now_ms)
        self._epochs = dict.fromkeys(range(SHARDS), 0)
        self._removed: dict[int, int] = {}
        """The epoch of the owner that has removed the member of a shard."""
        self._later: list[tuple[int, Callable[[], None]]] = []
        self.members_of_shards = [
            Member(shard, self.rng.choice(PATIENCES_MS)) for shard in range(SHARDS)
        ]
        self.confirmed = self.removals = self.late = 0

    def run(self, length_ms: int) -> None:
        """Let time pass."""
        until_ms = self.now_ms + length_ms
        while self.now_ms < until_ms:
            super().run(TICK_MS)
            due = [happen for at_ms, happen in self._later if at_ms <= self.now_ms]
            self._later = [entry for entry in self._later if entry[0] > self.now_ms]
            for happen in due:
                happen()
            for member in self.members_of_shards:
                self._live(member)

    def after_a_while(self, happen: Callable[[], None]) -> None:
        """Have something happen late."""
        self._later.append((self.now_ms + self.rng.randint(0, DELAY_MS_MAX), happen))

    # -- the cluster -----------------------------------------------------------------------------

    def on_taken(self, taker: Gateway, shards: tuple[int, ...], run_id: int) -> None:
        """The taker has fenced the last owner, who learns it by its next write."""
        super().on_taken(taker, shards, run_id)
        assert isinstance(taker, Owner)
        for shard in shards:
            self._epochs[shard] += 1
            taker.on_opened(shard, self._epochs[shard], self.now_ms)

    def is_fenced(self, gateway: Gateway, shard: int) -> bool:
        """See `World`."""
        assert isinstance(gateway, Owner)
        return gateway.epochs[shard] != self._epochs[shard]

    def fence(self, gateway: Gateway, shard: int) -> None:
        """See `World`."""
        self._epochs[shard] += 1

    def write(self, gateway: Owner, shard: int) -> None:
        """Take a write that confirms the ownership, or refuse it; both ways take a while."""
        asked_ms, epoch = self.now_ms, gateway.epochs[shard]

        def arrive() -> None:
            if gateway.is_cut:
                return
            is_fenced = self._epochs[shard] != epoch
            self.after_a_while(lambda: answer(is_fenced))

        def answer(is_fenced: bool) -> None:
            gateway.inbox.append(
                lambda: gateway.on_written(shard, epoch, asked_ms, is_fenced=is_fenced)
            )

        self.after_a_while(arrive)

    def remove_member(self, gateway: Owner, shard: int) -> None:
        """Let an owner remove a silent member, if its writer is the latest."""
        if gateway.is_cut or self.is_fenced(gateway, shard) or shard in self._removed:
            return
        self._removed[shard] = gateway.epochs[shard]
        self.removals += 1

    # -- the members -----------------------------------------------------------------------------

    def _live(self, member: Member) -> None:
        coordinator = member.coordinator
        if coordinator is not None and not coordinator.is_alive:
            member.coordinator, member.asked_ms = None, None
        if member.asked_ms is not None:
            if self.now_ms - member.asked_ms < member.patience_ms:
                return
            member.coordinator, member.asked_ms = None, None
        if self.now_ms < member.beat_at_ms:
            return
        member.beat_at_ms = self.now_ms + BEAT_MS
        if member.coordinator is None:
            member.coordinator = self._find_coordinator(member.shard)
        if (owner := member.coordinator) is not None:
            member.asked_ms = asked_ms = self.now_ms
            assert isinstance(owner, Owner)
            owner.inbox.append(lambda: self._answer(owner, member, asked_ms))

    def _find_coordinator(self, shard: int) -> Gateway | None:
        """Who has the shard, as some gateway knows it."""
        table = self.rng.choice(self.gateways).ownership.table if self.gateways else None
        slot = NO_SLOT if table is None else table.owners[shard]
        return next((one for one in self.gateways if one.ownership.slot == slot != NO_SLOT), None)

    def _answer(self, gateway: Owner, member: Member, asked_ms: int) -> None:
        """Answer a heartbeat, and check that the answer is no former owner's."""
        shard, is_late = member.shard, member.asked_ms != asked_ms
        confirms = gateway.may_answer(shard)
        removed_by = self._removed.get(shard)
        if confirms and removed_by is not None:
            assert gateway.epochs[shard] >= removed_by, f"{gateway.name} confirms a removed member"
        self.late += is_late
        if confirms:
            gateway.sessions[shard] = self.now_ms + SESSION_MS
            if not self.is_fenced(gateway, shard):
                self._removed.pop(shard, None)  # it joins again
            self.confirmed += not is_late
        if not is_late:
            member.asked_ms = None
            if not confirms:
                member.coordinator = None


def play(patch: pytest.MonkeyPatch, seed: int, profile: BrokerProfile = KAFKA_3_9) -> Owners:
    """Have gateways come and go, stand still and lose the cluster, and then come to rest. Raises
    AssertionError if something is not as it must be."""
    world = Owners(patch, seed, profile)
    for name in "abc":
        world.start(name)
    world.forgets_slots = seed % 3 == 0
    world.loses_answers = seed % 2 == 0
    for step in range(STEPS):
        world.run(world.rng.choice((200, 1_000, 5_000, 12_000)))
        if step % 8 == 7:
            _let_a_gateway_outside_take_all(world)
        elif world.rng.random() < 0.5:
            _silence(world)
        else:
            disturb(world)
    world.loses_answers = False
    for gateway in tuple(world.gateways):
        gateway.is_paused = gateway.is_cut = False
        if gateway.ownership.is_leaving or gateway.ownership.is_superseded:
            world.kill(gateway)
    if not world.gateways:
        world.start("z")
    world.check_rest()
    confirmed = world.confirmed
    world.run(2 * BEAT_MS)
    assert world.confirmed >= confirmed + SHARDS, "a member at rest gets no answer"
    return world


def _silence(world: Owners) -> None:
    """Stop a gateway for longer than its session in the fleet and a member's with the next one, or
    cut it from the cluster for as long."""
    gateway = world.rng.choice(world.gateways)
    was_paused, was_cut = gateway.is_paused, gateway.is_cut
    if world.rng.random() < 0.5:
        gateway.is_paused = True
    else:
        gateway.is_cut = True
    world.run(world.rng.choice((1_000, 8_000, 16_000)))
    gateway.is_paused, gateway.is_cut = was_paused, was_cut


def _let_a_gateway_outside_take_all(world: Owners) -> None:
    """Fence all owners by one that is not in the fleet, and ends then."""
    world.foundings += 1
    run_id = FIRST_RUN * world.foundings
    for shard in range(SHARDS):
        world.last_run[shard] = max(world.last_run[shard], run_id)
        for gateway in world.gateways:
            world.fence(gateway, shard)
