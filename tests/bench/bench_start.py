"""How long a gateway with many groups takes to start, from the process to the first answer.

    .venv/bin/python tests/bench/bench_start.py

The state log (SQLite) has GROUPS groups of three native members. The gateway runs in a process of
its own, in front of a broker that this process imitates. It prints wall time and the processor time
of the gateway: until its port is open, until a heartbeat of a member of the last group is answered,
and until all groups are loaded.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import trio

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
from coordinator.interface.topics import Partition
from gateway.cluster.broker_connection import BrokerConnection
from gateway.cluster.errors import UpstreamError
from gateway.state_log.last_events import LastEvents, LogRecord
from gateway.state_log.sqlite import open_sqlite_log
from kafka_codecs.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_codecs.error_codes import ErrorCode
from tests.bench.processes import Server, die_with_parent
from tests.support.fake_broker import running_fake_broker
from tests.support.group_values import topic_id
from tests.support.offset_broker import OffsetBroker
from tests.support.ports import HOST, free_port

GROUPS = 10_000
MEMBERS = 3
LAST = f"group-{GROUPS - 1}"
AT_ONCE = 256
RETRY_S = 0.01
LIMIT_S = 120
EPOCH = 4
LINE = '{"event":"current_assignment_changed","group_id":"%s","sequence":9,"filler":"%s"}'


def member_id(number: int) -> str:
    """A member id in the form that clients choose."""
    return f"2fb0e3a1-6f0e-4a4e-9d5b-{number:012}"


def records(group_id: str) -> list[LogRecord]:
    """A Stable group, and the events of its last batch."""
    records: list[DurableRecord] = [
        GroupEpoch(epoch=EPOCH, metadata_hash=1, cause=EpochCause.MEMBER_JOINED),
        TargetAssignmentMetadata(epoch=EPOCH, timestamp_ms=1, assignor="uniform"),
    ]
    for number in range(MEMBERS):
        partitions = [Partition(topic_id("numbers"), 2 * number + index) for index in range(2)]
        member = Member(
            member_id=member_id(number),
            client_id="consumer-numbers-1",
            client_host="/10.0.0.1",
            rebalance_timeout_ms=300_000,
            topic_names=("numbers",),
        )
        current = Assignment(
            member_epoch=EPOCH, previous_epoch=EPOCH - 1, assigned=dict.fromkeys(partitions, EPOCH)
        )
        records += [
            MemberMetadata(member_id=member.member_id, value=member),
            TargetAssignmentMember(member_id=member.member_id, partitions=frozenset(partitions)),
            CurrentAssignment(member_id=member.member_id, value=current),
        ]
    lines = (LINE % (group_id, "-" * 200),) * 2
    return [*records, LastEvents(sequence=9, lines=lines, began_ms=1, at_ms=1)]


async def write_groups(folder: Path) -> None:
    """All groups, into a new log."""
    limit = trio.CapacityLimiter(AT_ONCE)

    async def write(group_id: str) -> None:
        async with limit:
            await log.append(group_id, records(group_id))

    async with open_sqlite_log(folder) as log, trio.open_nursery() as nursery:
        for number in range(GROUPS):
            nursery.start_soon(write, f"group-{number}")


async def wait_for_answer(port: int) -> None:
    """Wait until a member of the last group has its answer."""
    heartbeat = ConsumerGroupHeartbeatRequest(
        group_id=LAST,
        member_id=member_id(0),
        member_epoch=EPOCH,
        rebalance_timeout_ms=300_000,
        subscribed_topic_names=("numbers",),
        topic_partitions=(),
    )
    while True:
        try:
            async with await BrokerConnection.open(HOST, port) as connection:
                while (await connection.ask(heartbeat)).error_code != ErrorCode.NONE:
                    await trio.sleep(RETRY_S)
                return
        except UpstreamError:
            await trio.sleep(RETRY_S)


async def measure(folder: Path, broker: OffsetBroker) -> None:
    """Start the gateway and print a row for each stage."""
    port = free_port()
    lines = folder / "log"
    command = [
        *(sys.executable, "-m", "gateway", "serve", f"--upstream={HOST}:{broker.address[1]}"),
        *(f"--listen={HOST}:{port}", f"--state-dir={folder}", "--log-format=json"),
        *(f"--max-groups={2 * GROUPS}", "--groups-host=*"),
    ]
    started_s = time.monotonic()
    with lines.open("wb") as output:
        process = subprocess.Popen(  # noqa: ASYNC220  # nothing else runs
            command,
            stdout=output,
            stderr=output,
            preexec_fn=die_with_parent,  # noqa: PLW1509  # this process may be killed
        )
    gateway = Server(port=port, pid=process.pid)
    try:
        with trio.fail_after(LIMIT_S):
            for what, word in (
                ("serves", b'"gateway_started"'),
                ("first heartbeat answered", None),
                ("all groups loaded", b'"groups_resumed"'),
            ):
                if word is None:
                    await wait_for_answer(port)
                while word is not None and word not in lines.read_bytes():
                    await trio.sleep(RETRY_S)
                wall_s, cpu_s = time.monotonic() - started_s, gateway.cpu_ns / 1e9
                sys.stdout.write(f"{what}: {wall_s:.2f} s, CPU {cpu_s:.2f} s\n")
                sys.stdout.flush()
    finally:
        process.kill()
        process.wait()


async def main() -> None:
    """Write the log, and measure one start."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        await write_groups(folder)
        broker = OffsetBroker()
        async with running_fake_broker(broker):
            await measure(folder, broker)


if __name__ == "__main__":
    trio.run(main)
