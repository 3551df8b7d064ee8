"""What each state log costs: records per second, latency added to a request, time to load.

    .venv/bin/python tests/bench/bench_state_log.py [memory] [sqlite] [kafka]

Wall-clock time, in a folder of the system's (TMPDIR), whose disk is part of the result; for kafka a
broker of ours on this machine, which shares its cores (Java and Maven are needed). A request is a
native member that joins: five records in one batch. To load is what a restart does before it
serves: open the log, check it, and bring the engine of every group back.
"""

import logging
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from uuid import uuid4

import structlog
import trio

from coordinator.engine import GroupEngine
from coordinator.interface.config import GroupConfig
from coordinator.interface.events import Request
from coordinator.interface.records import (
    Assignment,
    CurrentAssignment,
    DurableRecord,
    EpochCause,
    GroupEpoch,
    Member,
    MemberMetadata,
    TargetAssignmentMember,
    TargetAssignmentMetadata,
)
from coordinator.interface.topics import Partition, Topics
from gateway.groups.group_limits import GroupLimits
from gateway.journal.journal import Journal
from gateway.state_log.kafka.kafka_log import open_kafka_log
from gateway.state_log.log import StateLog
from gateway.state_log.memory import MemoryLog
from gateway.state_log.sqlite import open_sqlite_log
from tests.support.engine_requests import native_received
from tests.support.group_values import topic_id
from tests.support.hosted_groups import ScriptedCluster, make_groups
from tests.support.kafka_broker import running_kafka

KINDS = ("memory", "sqlite", "kafka")
KAFKA_RELEASE = "4.3"

OpenLog = Callable[[Path], AbstractAsyncContextManager[StateLog]]

ALONE = 500
"""Requests, one after the other."""
GROUPS_AT_ONCE = 100
REQUESTS_PER_GROUP = 50
GROUPS = 1_000
MEMBERS = 20
JOINING = 1_000
HISTORY = 100_000
"""The number of written records. The newest of each key remain."""

PARTITIONS = [Partition(topic_id("orders"), number) for number in range(4 * MEMBERS)]


@asynccontextmanager
async def open_memory_log(_folder: Path) -> AsyncIterator[StateLog]:
    """A log in memory."""
    yield MemoryLog()


@contextmanager
def opening(name: str) -> Iterator[OpenLog]:
    """Open a log of this kind in a folder, for the length of the block."""
    match name:
        case "memory":
            yield open_memory_log
        case "sqlite":
            yield open_sqlite_log
        case "kafka":
            with running_kafka(KAFKA_RELEASE, brokers=1) as cluster:
                yield lambda folder: open_kafka_log(cluster.addresses, folder.name)
        case _:
            raise SystemExit(f"there is no log {name}")


def joining(epoch: int, number: int) -> Sequence[DurableRecord]:
    """The batch of a native member that joins."""
    member_id = f"2fb0e3a1-6f0e-4a4e-9d5b-{number:012}"
    partitions = PARTITIONS[4 * number : 4 * number + 4]
    member = Member(
        member_id=member_id,
        client_id="consumer-orders-1",
        client_host="/10.0.0.1",
        rebalance_timeout_ms=300_000,
        topic_names=("orders",),
    )
    current = Assignment(
        member_epoch=epoch, previous_epoch=epoch - 1, assigned=dict.fromkeys(partitions, epoch)
    )
    return (
        MemberMetadata(member_id=member_id, value=member),
        GroupEpoch(epoch=epoch, metadata_hash=1 << 60, cause=EpochCause.MEMBER_JOINED),
        TargetAssignmentMember(member_id=member_id, partitions=frozenset(partitions)),
        TargetAssignmentMetadata(epoch=epoch, timestamp_ms=1, assignor="uniform"),
        CurrentAssignment(member_id=member_id, value=current),
    )


async def measure_alone(log: StateLog) -> str:
    """One group, request after request."""
    taken = []
    for number in range(ALONE):
        batch = joining(number + 2, number % MEMBERS)
        started = time.perf_counter()
        await log.append("alone", batch)
        taken.append((time.perf_counter() - started) * 1000)
    slow = statistics.quantiles(taken, n=100)[98]
    return f"{statistics.median(taken):.2f} ms per request (99 % within {slow:.2f})"


async def measure_together(log: StateLog) -> str:
    """Many groups at the same time."""
    taken = []

    async def one_group(group_id: str) -> None:
        for number in range(REQUESTS_PER_GROUP):
            batch = joining(number + 2, number % MEMBERS)
            before = time.perf_counter()
            await log.append(group_id, batch)
            taken.append((time.perf_counter() - before) * 1000)

    started = time.perf_counter()
    async with trio.open_nursery() as nursery:
        for number in range(GROUPS_AT_ONCE):
            nursery.start_soon(one_group, f"together-{number}")
    elapsed_s = time.perf_counter() - started
    records = GROUPS_AT_ONCE * REQUESTS_PER_GROUP * len(joining(1, 0))
    return (
        f"{GROUPS_AT_ONCE} groups at once: {records / elapsed_s:,.0f} records/s,"
        f" {statistics.median(taken):.1f} ms per request"
    )


def history_of(members: int) -> Iterator[Sequence[DurableRecord]]:
    """The batches of one group, its share of the whole history."""
    written, epoch = 0, 2
    while written < HISTORY // GROUPS:
        batch = joining(epoch, epoch % members)
        yield batch
        written, epoch = written + len(batch), epoch + 1


async def write_history(log: StateLog) -> None:
    """All groups, each with all of its members."""

    async def one_group(group_id: str) -> None:
        for batch in history_of(MEMBERS):
            await log.append(group_id, batch)

    async with trio.open_nursery() as nursery:
        for number in range(GROUPS):
            nursery.start_soon(one_group, f"group-{number}")


async def load_all(log: StateLog) -> int:
    """Load every engine and return the number of members."""
    members = 0
    for group_id in await log.group_ids():
        engine = GroupEngine(group_id, GroupConfig())
        engine.load(await log.read(group_id), now_ms=0)
        assert engine.state.group is not None
        members += len(engine.state.group.members)
    return members


async def measure_load(open_log: OpenLog, folder: Path) -> str:
    """Open the log as a restart does. A log in memory stays open."""
    async with open_log(folder) as log:
        await write_history(log)
        if not log.outlives_process:
            started = time.perf_counter()
            members = await load_all(log)
            elapsed_s = time.perf_counter() - started
    if log.outlives_process:
        started = time.perf_counter()
        async with open_log(folder) as log:
            members = await load_all(log)
            elapsed_s = time.perf_counter() - started
    size = size_of(folder) / 1e6  # only of the log's own files: a topic belongs to the cluster
    return (
        f"{GROUPS:,} groups of {MEMBERS} ({members:,} members), {HISTORY:,} records of history:"
        f" loaded in {elapsed_s:.2f} s, {size:.1f} MB"
    )


def size_of(folder: Path) -> int:
    """The bytes of all files."""
    return sum(file.stat().st_size for file in folder.iterdir())


async def measure_joining(log: StateLog) -> str:
    """Many native members join one group together, through the group's driver."""
    cluster = ScriptedCluster(foo=JOINING)
    async with trio.open_nursery() as nursery:
        groups = make_groups(
            nursery,
            GroupConfig(),
            GroupLimits(1),
            cluster=cluster,
            log=log,
            journal=Journal(log.id),
        )

        async def join(number: int) -> None:
            reply = await groups.drivers.ask("joining", partial(native_join, number), ("foo",))
            assert not reply.error, reply

        started = time.perf_counter()
        async with trio.open_nursery() as joining_members:
            for number in range(JOINING):
                joining_members.start_soon(join, number)
        elapsed_s = time.perf_counter() - started
        nursery.cancel_scope.cancel()
    return f"{JOINING:,} members join one group at once: {elapsed_s:.2f} s"


def native_join(number: int, token: int, _topics: Topics) -> Request:
    """The first heartbeat of a native member."""
    return native_received(f"member-{number}", token=token, fresh_id=uuid4())


async def measure(name: str, open_log: OpenLog) -> None:
    """Print a row per number."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    with tempfile.TemporaryDirectory() as made:
        async with open_log(Path(made)) as log:
            say(f"{name}: {await measure_alone(log)}")
            say(f"{name}: {await measure_together(log)}")
            say(f"{name}: {await measure_joining(log)}")
    with tempfile.TemporaryDirectory() as made:
        say(f"{name}: {await measure_load(open_log, Path(made))}")


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    """Run the named benchmarks, or all."""
    for name in sys.argv[1:] or KINDS:
        with opening(name) as open_log:
            trio.run(measure, name, open_log)


if __name__ == "__main__":
    main()
