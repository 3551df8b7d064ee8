"""Whether a hot path does more than it did: what CI runs.

    .venv/bin/python tests/bench/bench_guard.py [--keep] [--only TEXT] [--planted]

It counts instead of measuring time, so other load does not matter: lines of Python, calls, system
calls, bytes and blocks that are allocated, each per unit of a path, in front of a broker that this
folder imitates. A count that is above the committed one by more than the path's room fails. With
--planted each path gets a needless loop in one of its functions, which the counts must show.

Counts belong to a minor version of Python. Of another one than those committed, nothing is judged.
"""

import argparse
import ctypes
import json
import math
import socket
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple, TypeVar
from uuid import UUID, uuid4

import trio

from gateway.pipeline.fold.folding import SourceLine, fold_lines
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.join_group import JoinGroupResponse
from tests.bench import bench_relay
from tests.bench.bench_group_calls import (
    FORM_LIMIT_S,
    LONG_MS,
    classic_group,
    commits,
    heartbeats,
    is_admitted,
    native_group,
    native_heartbeats,
)
from tests.bench.bench_pipeline import write_events
from tests.bench.comparison import machine, say
from tests.bench.counted import MEMORY, PLANT, STEPS, Counts, plant
from tests.bench.processes import (
    PeerMissing,
    Requests,
    Server,
    compile_native,
    enter_private_network,
    gateway,
    storing_broker,
)
from tests.support.group_client import GroupClient, find_coordinator, group_client
from tests.support.kafka_broker import TOPIC
from tests.support.ports import HOST, free_port, is_open
from tests.support.until import until, until_answered

FLEET_ROOM = 1.1
"""How much dearer the work of a process of a fleet may be than that of a single gateway."""
AMONG_MEMBERS = 1.08
"""The room of paths with several clients, timers and log records."""
MEMBERS, JOINING = 3, 10
REQUESTS, GROUPS, STEPS_COUNTED, WARM_UP = 25, 3, 9, 5
PROCESSES = 2
GROUP_OF_LAST = "classic"
"""A group of the process of a fleet that is started last, as the other group of the guard is."""
EVENTS = 2_000
SETTLE_S = 0.01
"""The time until the gateway has done what follows its last answer."""
DELAY_MS = 5
"""The delay of the broker's answers. The gateway then has one thing to do at a time, on any
machine."""
FLAGS = (
    "--group-initial-rebalance-delay-ms=300",
    f"--group-consumer-session-timeout-ms={LONG_MS}",
    f"--group-consumer-max-session-timeout-ms={LONG_MS}",
)
COMMITTED = Path(__file__).parent / "results" / "guard.json"
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"

Cost = Mapping[str, float]
"""Counts by name."""
Look = Callable[[], Cost]
"""The counts so far."""
Work = Callable[[], Awaitable[None]]
T = TypeVar("T")


class HotPath(NamedTuple):
    """Work whose cost is guarded."""

    name: str
    planted: str
    """A function that runs for each unit."""
    room: float = 1.03
    """How much dearer it may be. Counts of single requests repeat to one percent."""
    alone: str | None = None
    """The same work of a single gateway; this is that of a process of a fleet."""


Costs = dict[HotPath, Cost]
"""Counts per unit."""

_SEND = "gateway.data_path.group_requests:GroupRequests._send"
_COMMIT = "gateway.data_path.group_requests:GroupRequests._send_commit"
_ENGINE = "coordinator.engine:GroupEngine.handle"
_RELAY = "gateway.data_path.connection:ClientConnection._relay_requests"
HEARTBEAT: Final = HotPath("Heartbeat", _SEND)
NATIVE_HEARTBEAT: Final = HotPath("ConsumerGroupHeartbeat", _SEND)
CONNECTION: Final = HotPath("Connection with a first Heartbeat", _SEND)
COMMIT: Final = HotPath("OffsetCommit, classic group", _COMMIT)
NATIVE_COMMIT: Final = HotPath("OffsetCommit, native group", _COMMIT)
JOIN: Final = HotPath("Join", _ENGINE, AMONG_MEMBERS)
STEP: Final = HotPath("Step of a roll", _ENGINE, AMONG_MEMBERS)
ROUND_TRIP: Final = HotPath("Round trip", _RELAY)
FETCH: Final = HotPath("Fetch 64 KiB", _RELAY)
PRODUCE: Final = HotPath("Produce 64 KiB", _RELAY)
SERVED = (
    *(HEARTBEAT, NATIVE_HEARTBEAT, CONNECTION, COMMIT, NATIVE_COMMIT, JOIN, STEP),
    *(ROUND_TRIP, FETCH, PRODUCE),
)
IN_FLEET = {
    path: path._replace(name=f"{path.name}, in a fleet of two", alone=path.name)
    for path in (HEARTBEAT, NATIVE_HEARTBEAT, COMMIT, NATIVE_COMMIT, ROUND_TRIP)
}
"""The paths of a fleet that are counted too, by those of a single gateway."""
EVENT: Final = HotPath("Event of a report", "gateway.pipeline.fold.folding:number_of")
PATHS = (*SERVED, *IN_FLEET.values(), EVENT)


# What counts


@contextmanager
def counted_gateway(
    broker: Server, library: Path, what: str, planted: str | None, *, processes: int = 0
) -> Iterator[tuple[Server, Look]]:
    """A gateway in front of the broker, and its counts so far: of a fleet, those of the process
    that was started last."""
    port = free_port()
    flags = (*FLAGS, f"--processes={processes}") if processes else FLAGS
    program = [f"{Path(__file__).with_name('counted.py')}", f"{library}", f"{port}", what]
    if planted is not None:
        program += [PLANT, planted]
    with gateway(f"{HOST}:{broker.port}", *flags, program=program) as server:

        def look() -> Cost:
            time.sleep(SETTLE_S)
            with socket.create_connection((HOST, port + processes)) as connection:
                counts: Cost = json.loads(connection.makefile("rb").read())
                return counts

        yield server, look


@contextmanager
def counting_here(library: Path, what: str, planted: str | None) -> Iterator[Look]:
    """The counts so far of this process."""
    if planted is not None:
        plant(planted)
    counting = ctypes.PyDLL(f"{library}")
    counts = Counts.in_dll(counting, "counts")
    (counting.count_steps if what == STEPS else counting.count_memory)()
    yield counts.as_dict
    counting.stop()


async def typical(look: Look, work: Work, *, rounds: int, units: int = 1) -> Cost:
    """What the work costs per unit: the lower quartile, because timers add to some rounds."""
    costs: defaultdict[str, list[float]] = defaultdict(list)
    for _ in range(rounds):
        start = look()
        before = look()
        await work()
        after = look()
        for name, amount in after.items():
            own = before[name] - start[name]  # of looking
            costs[name].append((amount - before[name] - own) / units)
    return {name: sorted(amounts)[rounds // 4] for name, amounts in costs.items()}


async def ask(stream: trio.SocketStream, requests: Requests) -> None:
    """Send the first of these requests, and take its answer."""
    answer, error_at = bytearray(), requests.error_at
    await stream.send_all(requests.frames[0])
    while len(answer) < requests.answer_bytes:
        received = await stream.receive_some(requests.answer_bytes)
        assert received, "the gateway has closed the connection"
        answer += received
    assert len(answer) == requests.answer_bytes
    assert error_at < 0 or not any(answer[error_at : error_at + 2])


async def cost_of_requests(look: Look, port: int, requests: Requests) -> Cost:
    """What one request costs while nothing else is to do."""
    async with await trio.open_tcp_stream(HOST, port) as earlier:
        await ask(earlier, requests)  # the next one finds the broker's versions remembered
    async with await trio.open_tcp_stream(HOST, port) as stream:
        for _ in range(WARM_UP):
            await ask(stream, requests)
        return await typical(look, partial(ask, stream, requests), rounds=REQUESTS)


async def cost_of_connections(look: Look, port: int, requests: Requests) -> Cost:
    """What a connection costs from its beginning to its end, with one request."""

    async def connect_and_ask() -> None:
        async with await trio.open_tcp_stream(HOST, port) as stream:
            await ask(stream, requests)

    await connect_and_ask()
    return await typical(look, connect_and_ask, rounds=REQUESTS)


async def answer_at_rest(answer: Awaitable[T]) -> T:
    """The answer, once the gateway has nothing left to do."""
    awaited = await answer
    await trio.sleep(SETTLE_S)
    return awaited


async def join_in_order(clients: Sequence[GroupClient]) -> list[JoinGroupResponse]:
    """All join as classic members of one new group, in this order."""
    joined: dict[int, JoinGroupResponse] = {}

    async def join(number: int, member_id: str) -> None:
        joined[number] = await clients[number].join(member_id, session_timeout_ms=LONG_MS)

    async def sync(number: int) -> None:
        answer = joined[number]
        shares = {member.member_id: {TOPIC: [i]} for i, member in enumerate(answer.members)}
        synced = await clients[number].sync(answer, shares)
        assert not synced.error_code, synced

    asked = []
    for client in clients:
        ask = partial(client.join, session_timeout_ms=LONG_MS)
        asked.append(await answer_at_rest(until_answered(ask, is_admitted)))
    async with trio.open_nursery() as nursery:
        for number, answer in enumerate(asked):
            assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED, answer
            nursery.start_soon(join, number, answer.member_id)
            await trio.sleep(SETTLE_S)
    leaders_last = sorted(joined, key=lambda number: bool(joined[number].members))
    async with trio.open_nursery() as nursery:
        for number in leaders_last:
            assert not joined[number].error_code, joined[number]
            nursery.start_soon(sync, number)
            await trio.sleep(SETTLE_S)
    return [joined[number] for number in range(len(clients))]


async def connect(port: int, group_id: str, size: int, stack: AsyncExitStack) -> list[GroupClient]:
    """Connect this many clients of a group."""
    return [
        await stack.enter_async_context(group_client((HOST, port), group_id)) for _ in range(size)
    ]


class RolledGroup:
    """A group of three, mixed throughout. One member is restarted again and again, with the other
    protocol each time."""

    def __init__(self, rolled: GroupClient, classic: GroupClient, native: GroupClient) -> None:
        self._rolled, self._classic, self._native = rolled, classic, native
        self._joined: dict[GroupClient, JoinGroupResponse] = {}
        self._native_id, self._epoch = f"{uuid4()}", 0

    async def form(self) -> None:
        """All members join, the native one last, and each gets one partition."""
        clients = (self._rolled, self._classic)
        self._joined = dict(zip(clients, await join_in_order(clients), strict=True))
        owned: Mapping[UUID, Sequence[int]] = {}
        while not owned:
            answer = await answer_at_rest(self._native.native(self._native_id, self._epoch))
            assert not answer.error_code, answer
            self._epoch = answer.member_epoch
            if answer.assignment is not None:
                shares = answer.assignment.topic_partitions
                owned = {share.topic_id: share.partitions for share in shares}
            async with trio.open_nursery() as nursery:
                for client in clients:
                    beat = await client.beat(self._joined[client])
                    if beat.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
                        nursery.start_soon(self._enter, client, self._joined[client].member_id)
        await self._native.native(self._native_id, self._epoch, owned=owned)

    async def _enter(self, client: GroupClient, member_id: str = "") -> None:
        joined = await answer_at_rest(client.join(member_id, session_timeout_ms=LONG_MS))
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            joined = await answer_at_rest(client.join(joined.member_id, session_timeout_ms=LONG_MS))
        assert not joined.error_code, joined
        synced = await answer_at_rest(client.sync(joined))
        assert not synced.error_code, synced
        self._joined[client] = joined

    async def roll_there_and_back(self) -> None:
        """One member is restarted with the new protocol, and then with the classic one."""
        left = await answer_at_rest(self._rolled.leave(self._joined[self._rolled].member_id))
        assert not left.error_code, left
        member_id = f"{uuid4()}"
        answer = await answer_at_rest(self._rolled.native(member_id))
        await self._beat()
        assert answer.assignment is not None, answer
        assert answer.assignment.topic_partitions, answer
        owned = {share.topic_id: share.partitions for share in answer.assignment.topic_partitions}
        for epoch in (answer.member_epoch, -1):
            answer = await answer_at_rest(self._rolled.native(member_id, epoch, owned=owned))
            assert not answer.error_code, answer
        await self._enter(self._rolled)
        await self._beat()

    async def _beat(self) -> None:
        classic = await answer_at_rest(self._classic.beat(self._joined[self._classic]))
        assert not classic.error_code, classic
        native = await answer_at_rest(self._native.native(self._native_id, self._epoch))
        assert not native.error_code, native
        self._epoch = native.member_epoch


# The paths


async def count_group_calls(server: Server, look: Look, paths: Collection[HotPath]) -> Costs:
    """Requests of members at rest, a group that forms, and one that is rolled."""
    costs: Costs = {}
    classic, _ = await classic_group(server, "classic", MEMBERS)
    native = await native_group(server, "native", MEMBERS)
    for path, group, requests_of in (
        (HEARTBEAT, classic, heartbeats),
        (NATIVE_HEARTBEAT, native, native_heartbeats),
        (COMMIT, classic, commits),
        (NATIVE_COMMIT, native, commits),
    ):
        if path in paths:
            costs[path] = await cost_of_requests(look, group.port, requests_of(group))
    if CONNECTION in paths:
        costs[CONNECTION] = await cost_of_connections(look, classic.port, heartbeats(classic))
    numbers = count()
    if JOIN in paths:

        async def form() -> None:
            group_id = f"joining-{next(numbers)}"
            async with AsyncExitStack() as stack:
                await join_in_order(await connect(classic.port, group_id, JOINING, stack))

        costs[JOIN] = await typical(look, form, rounds=GROUPS, units=JOINING)
    if STEP in paths:
        async with AsyncExitStack() as stack:
            rolled = RolledGroup(*await connect(classic.port, "rolled", MEMBERS, stack))
            await rolled.form()
            await rolled.roll_there_and_back()
            costs[STEP] = await typical(
                look, rolled.roll_there_and_back, rounds=STEPS_COUNTED, units=2
            )
    return costs


async def count_relay(server: Server, look: Look, paths: Collection[HotPath]) -> Costs:
    """Short and long requests and answers that pass."""
    port = await bench_relay.listener(server.port)
    rows = {
        ROUND_TRIP: bench_relay.fetch(12),
        FETCH: bench_relay.fetch(14),
        PRODUCE: bench_relay.produce(64 * bench_relay.KIB),
    }
    return {
        path: await cost_of_requests(look, port, requests)
        for path, requests in rows.items()
        if path in paths
    }


async def count_fleet(server: Server, look: Look, paths: Collection[HotPath]) -> Costs:
    """The requests at rest and those that pass, at one process of a fleet."""
    wanted = {path: of_fleet for path, of_fleet in IN_FLEET.items() if of_fleet in paths}
    await until_served(server, GROUP_OF_LAST)
    coordinator = await find_coordinator((HOST, server.port), GROUP_OF_LAST)
    costs = await count_group_calls(server, look, wanted)
    if ROUND_TRIP in wanted:
        requests = bench_relay.fetch(12)
        costs[ROUND_TRIP] = await cost_of_requests(look, coordinator.port, requests)
    return {wanted[path]: cost for path, cost in costs.items()}


async def until_served(server: Server, group_id: str) -> None:
    """Wait until the process of the group accepts clients."""
    with trio.fail_after(FORM_LIMIT_S):
        coordinator = await find_coordinator((HOST, server.port), group_id)
        await until(lambda: is_open(coordinator.port))


def count_fold(look: Look) -> Costs:
    """The events of a report, in this process."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_events(folder, groups=10, events=EVENTS, partitions=MEMBERS)
        lines = [
            SourceLine(path.name, f"line {number}", text)
            for path in sorted(folder.iterdir())
            for number, text in enumerate(path.read_text().splitlines(), 1)
        ]

    async def fold() -> None:
        for _tables in fold_lines(lines):
            pass

    trio.run(fold)
    return {EVENT: trio.run(partial(typical, look, fold, rounds=1, units=len(lines)))}


def count_all(library: Path, paths: Collection[HotPath], planted: str | None = None) -> Costs:
    """The costs of these paths."""
    costs: defaultdict[HotPath, dict[str, float]] = defaultdict(dict)

    def record(counted: Costs) -> None:
        for path, cost in counted.items():
            costs[path] |= {name: amount for name, amount in cost.items() if amount}

    for what in (STEPS, MEMORY):
        if any(path in SERVED for path in paths):
            with (
                storing_broker(DELAY_MS) as broker,
                counted_gateway(broker, library, what, planted) as (server, look),
            ):
                record(trio.run(count_group_calls, server, look, paths))
                record(trio.run(count_relay, server, look, paths))
        if any(path.alone for path in paths):
            with (
                storing_broker(DELAY_MS) as broker,
                counted_gateway(broker, library, what, planted, processes=PROCESSES) as (
                    server,
                    look,
                ),
            ):
                record(trio.run(count_fleet, server, look, paths))
        if EVENT in paths:
            with counting_here(library, what, planted) as look:
                record(count_fold(look))
    return dict(costs)


# The judgment


def judge(costs: Costs, committed: Mapping[str, Cost]) -> dict[HotPath, set[str]]:
    """Print the costs next to the committed ones. Returns the names of the counts that are
    dearer."""
    dearer = {}
    alone = {path.name: cost for path, cost in costs.items()}
    for path, cost in costs.items():
        before = committed.get(path.name, cost)
        limits = {name: amount * path.room for name, amount in before.items()}
        if path.alone in alone:
            for name, amount in alone[path.alone].items():
                limits[name] = min(limits.get(name, math.inf), amount * FLEET_ROOM)
        dearer[path] = {name for name in cost if cost[name] > limits[name]}
        comparisons = [
            f"{name} {cost[name]:,.0f} ({cost[name] / before[name] - 1:+.1%})" for name in cost
        ]
        say(f"{path.name}: {', '.join(comparisons)}{' DEARER' if dearer[path] else ''}")
    return {path: names for path, names in dearer.items() if names}


def main() -> None:
    """Count, and judge or keep."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--keep", action="store_true", help="replace the committed counts")
    parser.add_argument(
        "--only", metavar="TEXT", action="append", default=[], help="paths with TEXT in their name"
    )
    parser.add_argument("--planted", action="store_true", help="with a needless loop in each path")
    options = parser.parse_args()
    paths = [path for path in PATHS if any(text in path.name for text in options.only or [""])]
    try:
        library = compile_native("counts", "-shared", "-fPIC")
    except PeerMissing as reason:
        sys.exit(f"nothing is counted: {reason}")
    enter_private_network()
    if options.keep:
        costs = {path.name: cost for path, cost in count_all(library, PATHS).items()}
        text = json.dumps({"machine": machine(), "costs": costs}, indent=2)
        COMMITTED.write_text(f"{text}\n")
        return
    baseline = json.loads(COMMITTED.read_text())
    committed, counted_with = baseline["costs"], baseline["machine"]["python"]
    if not counted_with.startswith(f"{PYTHON}."):
        say(
            f"nothing is judged: the committed counts are those of Python {counted_with},"
            f" and this is {PYTHON}"
        )
        committed = {}
    if options.planted:
        tell_planted(library, paths, committed)
        return
    dearer = judge(count_all(library, paths), committed)
    if dearer:
        say("again, to be sure")
        dearer = judge(count_all(library, list(dearer)), committed)
    if dearer:
        sys.exit(f"dearer than committed: {'; '.join(path.name for path in dearer)}")


def tell_planted(library: Path, paths: Sequence[HotPath], committed: Mapping[str, Cost]) -> None:
    """Fail if a needless loop in one of the paths does not make it dearer."""
    unnoticed = []
    for path in paths:
        dearer = judge(count_all(library, [path], path.planted), committed)
        if not {"lines", "bytes"} <= dearer.get(path, set()):
            unnoticed.append(path.name)
    if unnoticed:
        sys.exit(f"a needless loop is not noticed in: {'; '.join(unnoticed)}")


if __name__ == "__main__":
    main()
