"""Gives up shards and opens others, as ordered by the parent of the fleet, or by the group of a
fleet that runs on several machines.

The groups that a process gives up end as in a gateway that shuts down: waiting requests are
refused, writes and commits under way end, and the state log has the rest. The groups that it takes
begin as in a gateway that starts. Clients find the other process by FindCoordinator.
"""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

import structlog
import trio

from gateway.events.gateway_events import ShardsTaken
from gateway.fleet.member import FleetMember, is_in_shard
from gateway.fleet.words import GaveUp, Lose, NotOpened, Opened, OwnerTable, Take
from gateway.groups.clock import Clock
from gateway.groups.groups import Groups
from gateway.hosting.rules import HostingRules
from gateway.journal.fleet_journal import FleetJournal
from gateway.observers.offset_reporter import OffsetReporter
from gateway.state_log.sharded import NOT_OPENED, ShardedLog

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class LastMove:
    """The last time that the process has taken or given up shards."""

    at_ms: int
    took_ms: int


class OrderSource(Protocol):
    """The party that decides which shards the process has."""

    @property
    def orders(self) -> trio.MemoryReceiveChannel[OwnerTable | Take | Lose]:
        """What the process has to do, one after another."""
        ...

    async def say_of_shard(self, word: GaveUp | Opened | NotOpened) -> None:
        """Report what has become of a shard."""
        ...


class ShardMoves:
    """Carries out orders about shards, one after another."""

    def __init__(
        self,
        member: FleetMember,
        link: OrderSource,
        groups: Groups,
        rules: HostingRules,
        *,
        state_log: ShardedLog,
        journal: FleetJournal,
        offsets: OffsetReporter,
        clock: Clock,
        slots_folder: Path | None,
    ) -> None:
        """`slots_folder`: a folder of all processes; None if they have none."""
        self.member = member
        self._slots_folder = slots_folder
        self._link = link
        self._groups = groups
        self._rules = rules
        self._state_log = state_log
        self._journal = journal
        self._offsets = offsets
        self._clock = clock
        self._opening: dict[int, trio.Event] = {}
        """The shards that are being opened; set when that is over."""
        self._closing: set[int] = set()
        """The shards that are being given up."""
        self.last: LastMove | None = None

    async def run(self) -> None:
        """Obey until cancelled. A shard that cannot be opened does not affect the others: the
        parent decides later which process tries it again."""
        for shard, reason in self._state_log.unopened.items():
            await self._report_unopened(shard, reason)
        async with trio.open_nursery() as nursery:
            async for order in self._link.orders:
                match order:
                    case OwnerTable(slots):
                        self.member.learn_owners(slots)
                        self._give_up_others(nursery)
                    case Take(shards, run_id):
                        self._take(shards, run_id, nursery)
                    case Lose(shard, reason):
                        log.warning("shard_lost", shard=shard, reason=reason)
                        self.member.serving.discard(shard)
                        nursery.start_soon(partial(self._give_up_once_open, shard, is_lost=True))

    def _give_up_others(self, nursery: trio.Nursery) -> None:
        """Give up what other slots own, all at the same time: from now on their requests are
        refused. The next order does not wait for that: one of them may hang while it is opened."""
        held = self._state_log.open_shards | self._opening.keys()
        for shard in sorted(held - set(self.member.own_shards)):
            nursery.start_soon(self._give_up_once_open, shard)

    async def _give_up_once_open(self, shard: int, *, is_lost: bool = False) -> None:
        """Give up a shard that is lost, or that no later table has given back meanwhile."""
        if shard in self._opening:
            await self._opening[shard].wait()
        if shard in self.member.own_shards and not is_lost:
            return
        if shard in self._state_log.open_shards - self._closing:  # it may not have been opened
            self._closing.add(shard)
            await self._give_up(shard)
            self._closing.discard(shard)

    async def _give_up(self, shard: int) -> None:
        started_ms = self._clock.now_ms()
        concerns = partial(is_in_shard, shard, self.member.shards)
        hosted = await self._groups.give_up(concerns)
        self._keep_members_away(shard, self._groups.orders.away.hand_over(concerns))
        self._offsets.flush()  # the commits of its groups are reported before their hostings end
        took_ms = self._clock.now_ms() - started_ms
        self._journal.give_up(shard, groups=hosted, took_ms=took_ms)
        await self._state_log.close_shard(shard)
        await self._link.say_of_shard(GaveUp(shard))
        self._record_move(started_ms)

    def _take(self, shards: tuple[int, ...], run_id: int, nursery: trio.Nursery) -> None:
        # Anchors of the groups' last holder have an older run.
        self._rules.gateway = replace(self._rules.gateway, run_id=run_id)
        self._journal.begin_run(run_id, shards, ShardsTaken(shards=shards))
        for shard in shards:
            self._opening[shard] = trio.Event()
            nursery.start_soon(self._open, shard, run_id, nursery)

    async def _open(self, shard: int, run_id: int, nursery: trio.Nursery) -> None:
        started_ms = self._clock.now_ms()
        try:
            opened = await self._state_log.open_shard(shard, run_id)
        except NOT_OPENED as error:
            self._journal.give_up(shard, groups=0, took_ms=0)
            self._opening.pop(shard).set()
            await self._report_unopened(shard, str(error))
            return
        self._learn_members_away(shard)
        await nursery.start(self._groups.resume, opened)
        if self.member.owners[shard] == self.member.slot:
            self.member.serving.add(shard)
        self._opening.pop(shard).set()
        self._record_move(started_ms)
        await self._link.say_of_shard(Opened(shard))

    def _keep_members_away(self, shard: int, handed_over: bytes | None) -> None:
        """Leave the next process a file with the members that are away."""
        path = self._away_file(shard)
        if path is None:
            return
        try:
            path.unlink(missing_ok=True)
            if handed_over is not None:
                path.write_bytes(handed_over)
        except OSError as error:
            log.warning("members_away_forgotten", shard=shard, reason=str(error))

    def _learn_members_away(self, shard: int) -> None:
        path = self._away_file(shard)
        if path is None:
            return
        try:
            if path.exists():
                self._groups.orders.away.take_over(path.read_bytes())
        except (OSError, ValueError) as error:
            log.warning("members_away_forgotten", shard=shard, reason=str(error))

    def _away_file(self, shard: int) -> Path | None:
        folder = self._slots_folder
        return None if folder is None else folder / f"away-{shard:03}.json"

    async def _report_unopened(self, shard: int, reason: str) -> None:
        log.error("shard_not_opened", shard=shard, reason=reason)
        await self._link.say_of_shard(NotOpened(shard))

    def _record_move(self, started_ms: int) -> None:
        now_ms = self._clock.now_ms()
        self.last = LastMove(now_ms, now_ms - started_ms)
