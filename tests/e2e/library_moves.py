"""Groups of consumers of many libraries, adopted and released while gateway and consumers are
killed at random moments."""

import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

import trio

from gateway.control.client import give
from gateway.control.control_socket import NoControlSocket
from gateway.control.messages import CommandRefused, ReleaseCommand
from gateway.demo.group_view import Protocol
from gateway.demo.ledger import Ledger, Ownership
from gateway.hosting.adoptable import HOSTED_ALREADY
from tests.e2e.adopted_groups import adopt
from tests.support.clients import Client
from tests.support.group_client import fresh_group
from tests.support.group_stage import GroupStage, open_groups
from tests.support.kafka_broker import KafkaCluster
from tests.support.promises import PromiseBroken

SHARED_ASSIGNOR = "roundrobin"
"""The assignor that all of these libraries have; kafkajs offers its own by that name.

kafka-go is not among them: Java, as the leader, cannot read its subscription. kafka-python 3 is
left out as well: its eager members keep their positions in partitions that others have owned
meanwhile.
"""
LIBRARIES = tuple(
    Client(library=library, assignor=SHARED_ASSIGNOR)
    for library in (
        "librdkafka",
        "java",
        "franz-go",
        "sarama",
        "kafkajs",
        "aiokafka",
    )
)
NATIVE_LIBRARIES = tuple(
    Client(library=library, protocol="consumer") for library in ("librdkafka", "java", "franz-go")
)
MEMBERS_MIN, MEMBERS_MAX = 3, 4
MOVE_LIMIT_S = 90.0
MOVED_BEFORE = (HOSTED_ALREADY, "it has been released already: nothing to do")
NEEDS_A_JOIN = "until the next member joins"
"""Why a group is not adopted after a restart of the gateway. An operator restarts a consumer."""
RETRY_S = 0.5
RESTARTS_MAX = 10
MOMENT_S = 2.0
"""A move begins, and faults happen, within this time."""
RESTART_S = 2.5
"""About as long as a gateway takes to start and to continue what it finds."""
GATEWAY_KILLS_MAX = 3
GATEWAY_KILL_SHARE, CONSUMER_KILL_SHARE, ROLL_SHARE = 0.4, 0.3, 0.3
SESSION_LIMIT_S = 3_000
Direction = Literal["adopt", "release"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A group's adoption or release, until its members own every partition and agree with it."""

    direction: Direction
    faults: str
    took_s: float
    unowned_partition_s: float
    """Seconds without an owner, summed over the partitions."""
    unowned_max_s: float
    """The longest time that one partition had no owner."""


@dataclass(slots=True)
class MoveResults:
    """The moves so far, and every promise that was broken."""

    moves: list[Move] = field(default_factory=list)
    lost: int = 0
    """Records that no consumer received."""
    owned_twice: int = 0
    """Partitions with two owners."""
    stuck: list[str] = field(default_factory=list)
    """Groups whose move did not end, or whose consumer died."""
    broken: list[str] = field(default_factory=list)
    """What else does not hold at the end of a group."""
    gateway_kills: int = 0
    consumer_kills: int = 0
    refusals: Counter[str] = field(default_factory=Counter)
    """Why a move had to be asked for again."""
    restarts: Counter[str] = field(default_factory=Counter)
    """Consumers that ended by themselves."""

    @property
    def is_clean(self) -> bool:
        return not (self.lost or self.owned_twice or self.stuck or self.broken)


def longest_unowned_s(ledger: Ledger, since_s: float, until_s: float) -> float:
    """The longest time that one partition had no owner between these times."""
    longest_s = 0.0
    for partition in ledger.owners():
        owned_until_s = since_s
        for entry in ledger.history(partition):
            if isinstance(entry, Ownership):
                longest_s = max(longest_s, min(entry.since_s, until_s) - owned_until_s)
                end_s = until_s if entry.until_s is None else entry.until_s
                owned_until_s = max(owned_until_s, end_s)
        longest_s = max(longest_s, until_s - owned_until_s)
    return longest_s


class LibraryMoves:
    """Some groups behind one gateway, which is killed at random."""

    def __init__(
        self, kafka: KafkaCluster, folder: Path, seed: int, group_count: int, results: MoveResults
    ) -> None:
        self._kafka, self._folder = kafka, folder
        self._rng = random.Random(seed)
        self._names = [fresh_group(f"libraries-{seed}-{n}") for n in range(group_count)]
        self._results = results

    async def play(self, moves_per_group: int) -> None:
        """Play this many moves of each group, and check what its consumers reported."""
        async with open_groups(
            self._kafka, self._names, self._folder, limit_s=SESSION_LIMIT_S
        ) as groups:
            stuck_before = len(self._results.stuck)
            try:
                await self._start_members(groups)
                directions: tuple[Direction, ...] = ("release", "adopt")
                for number in range(moves_per_group):
                    await self._move_all(groups, directions[number % 2])
            except* AssertionError as problems:
                self._results.stuck += [str(problem) for problem in _leaves(problems)]
            if len(self._results.stuck) == stuck_before:
                await self._check(groups)

    async def _start_members(self, groups: Sequence[GroupStage]) -> None:
        for group in groups:
            count = self._rng.randint(MEMBERS_MIN, MEMBERS_MAX)
            for name, client in zip("abcd", self._rng.sample(LIBRARIES, count), strict=False):
                await group.join(name, client)
        for group in groups:
            await self._settle(group, "classic")

    async def _move_all(self, groups: Sequence[GroupStage], direction: Direction) -> None:
        """Move all groups at about the same time. The fault of the gateway is the same for all."""
        async with trio.open_nursery() as nursery:
            kills = 0
            if self._rng.random() < GATEWAY_KILL_SHARE:
                kills = self._rng.randint(1, GATEWAY_KILLS_MAX)
                nursery.start_soon(self._kill_gateway, groups[0], kills)
            for group in groups:
                nursery.start_soon(partial(self._move, group, direction, gateway_kills=kills))
        if direction == "adopt":
            for group in groups:
                if self._rng.random() < ROLL_SHARE:
                    await self._roll(group)

    async def _move(self, group: GroupStage, direction: Direction, *, gateway_kills: int) -> None:
        begins_after_s = self._rng.uniform(0, MOMENT_S)
        faults = ["gateway killed"] if gateway_kills else []
        async with trio.open_nursery() as nursery:
            since_s = time.monotonic() + begins_after_s
            if self._rng.random() < CONSUMER_KILL_SHARE:
                faults.append("consumer killed")
                nursery.start_soon(self._kill_consumer, group)
            await trio.sleep(begins_after_s)
            with trio.move_on_after(MOVE_LIMIT_S) as limit:
                while not await self._has_moved(group, direction):
                    await trio.sleep(RETRY_S)
            assert not limit.cancelled_caught, f"{group.group}: {direction} did not end"
        await self._settle(group, "classic")
        until_s = time.monotonic()
        await group.progress()
        disturbance = group.ledger.disturbance(None, since_s, until_s)
        self._results.moves.append(
            Move(
                direction=direction,
                faults=" and ".join(faults) or "no fault",
                took_s=until_s - since_s,
                unowned_partition_s=disturbance.unowned_partition_s,
                unowned_max_s=longest_unowned_s(group.ledger, since_s, until_s),
            )
        )

    async def _has_moved(self, group: GroupStage, direction: Direction) -> bool:
        """Ask for the move, and return whether it is done."""
        try:
            if direction == "adopt":
                adoption = await adopt(self._folder, group.group)
                is_done, reasons = adoption.is_adopted, adoption.reasons
            else:
                release = await give(self._folder, ReleaseCommand(group_id=group.group))
                is_done, reasons = release.is_released, release.reasons
        except (CommandRefused, NoControlSocket) as refusal:
            is_done, reasons = False, (str(refusal).replace(f"{self._folder}", "FOLDER"),)
        is_done |= any(phrase in reason for phrase in MOVED_BEFORE for reason in reasons)
        if is_done:
            return True
        for reason in reasons:
            self._results.refusals[f"{direction}: {reason.rpartition(': ')[2]}"] += 1
        if any(NEEDS_A_JOIN in reason for reason in reasons):
            await self._restart(group, self._rng.choice(sorted(group.members)), LIBRARIES)
            await self._settle(group, "classic")
        return False

    async def _kill_gateway(self, group: GroupStage, kills: int) -> None:
        gateway = group.gateway
        await trio.sleep(self._rng.uniform(0, MOMENT_S))
        for _ in range(kills):
            self._results.gateway_kills += 1
            await gateway.kill()
            await gateway.start()
            await trio.sleep(self._rng.uniform(0, RESTART_S))

    async def _kill_consumer(self, group: GroupStage) -> None:
        """Kill a consumer, and start one of any library in its place."""
        await trio.sleep(self._rng.uniform(0, MOMENT_S))
        name = self._rng.choice(sorted(group.members))
        self._results.consumer_kills += 1
        await group.kill(name)
        await trio.sleep(self._rng.uniform(0, MOMENT_S))
        await group.join(name, self._rng.choice(LIBRARIES))

    async def _roll(self, group: GroupStage) -> None:
        """Restart a member with the new protocol, and then with the classic one."""
        name = self._rng.choice(sorted(group.members))
        steps: tuple[tuple[Sequence[Client], Protocol], ...] = (
            (NATIVE_LIBRARIES, "consumer"),
            (LIBRARIES, "classic"),
        )
        for libraries, protocol in steps:
            await self._restart(group, name, libraries)
            await self._settle(group, protocol)

    async def _restart(self, group: GroupStage, name: str, libraries: Sequence[Client]) -> None:
        await group.leave(name)
        await group.join(name, self._rng.choice(libraries))

    async def _settle(self, group: GroupStage, protocol: Protocol) -> None:
        """Wait until the group has settled. Start consumers that have ended again, as a supervisor
        does: sarama and kafkajs end where no broker answers for a while."""
        for _ in range(RESTARTS_MAX):
            for name, member in list(group.members.items()):
                if member.child.ended.is_set():
                    self._results.restarts[f"{member.client}: {member.child.fate[-200:]}"] += 1
                    await group.kill(name)
                    await trio.sleep(RETRY_S)
                    await group.join(name, member.client)
            try:
                await group.wait_until_settled(protocol)
            except AssertionError:
                if not any(member.child.ended.is_set() for member in group.members.values()):
                    raise
            else:
                return
        raise AssertionError(f"{group.group}: consumers end again and again")

    async def _check(self, groups: Sequence[GroupStage]) -> None:
        produced = await groups[0].stop_producer()
        for group in groups:
            try:
                await group.end_after(produced)
            except PromiseBroken as broken:
                lost = group.ledger.never_delivered(produced.acknowledged)
                twice = len(group.owned_twice())
                self._results.lost += lost
                self._results.owned_twice += twice
                self._results.broken.append(
                    f"{group.group}: {lost} lost, {sorted(group.owned_twice())} owned twice,"
                    f" {sorted(group.ledger.went_back())} went back; {broken}"
                )


def summary_lines(moves: Sequence[Move]) -> list[str]:
    """One line for each direction and fault: how many moves, and the time without an owner."""
    kinds = sorted({(move.direction, move.faults) for move in moves})
    lines = []
    for direction, faults in kinds:
        matching = [m for m in moves if (m.direction, m.faults) == (direction, faults)]
        worst_s = sorted(move.unowned_max_s for move in matching)
        lines.append(
            f"{direction}, {faults}: {len(matching)} moves;"
            f" longest time of a partition without an owner {_mean(worst_s):.2f} s on average,"
            f" {worst_s[len(worst_s) // 2]:.2f} s median, {worst_s[-1]:.2f} s at most;"
            f" {_mean([move.unowned_partition_s for move in matching]):.2f} partition-seconds,"
            f" {_mean([move.took_s for move in matching]):.1f} s until settled"
        )
    return lines


def _leaves(problems: BaseExceptionGroup[AssertionError]) -> Iterator[AssertionError]:
    for problem in problems.exceptions:
        if isinstance(problem, BaseExceptionGroup):
            yield from _leaves(problem)
        else:
            yield problem


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
