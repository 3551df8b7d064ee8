"""How fast the pipeline makes a report, and how that grows with the events.

    python tests/bench/bench_pipeline.py [--groups 10000] [--events 1000000,10000000]
                                         [--partitions 12]
    python tests/bench/bench_pipeline.py --follow [--groups 1000] [--events 100000,1000000]

writes the events of a day, as that many groups that are rolled to the new protocol would tell them,
and runs `groupferry report` on each amount: events per second, the memory of all its processes at
the peak, and how many times as long it takes as the amount before. Each of a group's three members
commits for its share of the partitions in one event. Next to it stands what one core does without
Spark: it folds the same lines into the same tables, and as a reference only decodes their JSON.
DuckDB, if it is installed, only reads the envelope's columns. CPU seconds say more than wall time
on a busy machine.

With --follow a report has taken in that many events, and continues in small rounds: the CPU seconds
of a round of 1,000 events, ten of each of 100 groups.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

from pydantic_core import from_json

from coordinator.interface.records import EpochCause, RemovalCause
from gateway.events.event import GatewayEvent
from gateway.events.gateway_events import GatewayStarted
from gateway.events.group_events import (
    GroupConverted,
    GroupCreated,
    GroupEpochBumped,
    TargetComputed,
)
from gateway.events.member_events import (
    ClientSeen,
    GrantEnded,
    MemberJoined,
    MemberLeft,
    PartitionsAssigned,
    PartitionsStated,
    Protocol,
)
from gateway.events.offset_events import CommittedOffsets, OffsetsCommitted
from gateway.loading import without_garbage_collection
from gateway.pipeline.fold.folding import SourceLine, fold_lines
from tests.support.event_writer import START_MS, EventWriter

GATEWAYS = 4
MEMBERS = 3
PARTITIONS = 12
DAY_S = 24 * 60 * 60
SAMPLE_S = 0.5
FOLDED_MAX = 100_000
"""Lines that are folded in this process."""

_GROUP, _GATEWAY, _PROCESS = "GROUP-ID", "GATEWAY-ID", "PROCESS-ID"
"""The fields that each group replaces."""
_EVENTS_BESIDES = 35
"""The events of a group apart from its commits."""


def life(commits: int, span_s: float = DAY_S, partitions: int = PARTITIONS) -> EventWriter:
    """A group's day: three classic members join, are replaced one by one, and commit meanwhile."""
    writer = EventWriter(gateway_id=_GATEWAY, process_id=_PROCESS, group_id=_GROUP)
    writer.emit(0, GroupCreated(kind="classic"))
    members = [f"old-{number}" for number in range(MEMBERS)]
    for member_id in members:
        _comes(writer, 1, member_id, "classic")
    shares = _shares(members, partitions)
    writer.emit(
        2, *(_partitions_assigned(member_id, numbers) for member_id, numbers in shares.items())
    )
    between_s = span_s / (MEMBERS + 1)
    per_phase = commits // (MEMBERS + 1)
    position = 0
    for step in range(MEMBERS + 1):
        start_s = 10 + step * between_s
        for number in range(per_phase):
            position += 10
            at_s = start_s + number * (between_s - 60) / max(1, per_phase)
            member_id = members[number % MEMBERS]
            writer.beside(at_s, _commit(member_id, shares[member_id], position, at_s))
        if step < MEMBERS:
            at_s = start_s + between_s - 30
            _replace(writer, at_s, step, members, shares)
    return writer


def _replace(
    writer: EventWriter,
    at_s: float,
    step: int,
    members: list[str],
    shares: dict[str, tuple[int, ...]],
) -> None:
    """One member leaves, and a native one takes its partitions."""
    old, new = members[step], f"new-{step}"
    numbers = shares.pop(old)
    writer.emit(
        at_s, _grant_ended(old, numbers), MemberLeft(member_id=old, cause=RemovalCause.LEFT)
    )
    if step == 0:
        writer.emit(
            at_s + 2,
            GroupConverted(
                direction="classic->consumer",
                is_live=True,
                group_epoch=2,
                members=MEMBERS - 1,
                cause=f"{new} joined",
            ),
        )
    _comes(writer, at_s + 2, new, "consumer")
    writer.emit(
        at_s + 2,
        GroupEpochBumped(group_epoch=3 + step, cause=EpochCause.MEMBER_JOINED),
        TargetComputed(
            assignment_epoch=3 + step, assignor="uniform", partitions_moved=len(numbers)
        ),
    )
    writer.emit(at_s + 3, _partitions_assigned(new, numbers))
    stated = PartitionsStated(member_id=new, member_epoch=3 + step, partitions={"t": numbers})
    writer.beside(at_s + 4, stated)
    members[step] = new
    shares[new] = numbers


def _shares(members: list[str], partitions: int) -> dict[str, tuple[int, ...]]:
    return {
        member_id: tuple(range(place, partitions, MEMBERS))
        for place, member_id in enumerate(members)
    }


def _comes(writer: EventWriter, at_s: float, member_id: str, protocol: Protocol) -> None:
    writer.beside(
        at_s,
        ClientSeen(
            member_id=member_id,
            client_id="bench",
            client_host="/127.0.0.1",
            instance_id=None,
            software_name="apache-kafka-java",
            software_version="4.3.1" if protocol == "consumer" else "3.9.2",
            protocol=protocol,
            protocol_type="consumer",
            embedded_version=None if protocol == "consumer" else 3,
            assignors=("range",),
        ),
    )
    writer.emit(
        at_s,
        MemberJoined(
            member_id=member_id,
            client_id="bench",
            client_host="/127.0.0.1",
            instance_id=None,
            protocol=protocol,
        ),
    )


def _partitions_assigned(member_id: str, numbers: tuple[int, ...]) -> GatewayEvent:
    return PartitionsAssigned(member_id=member_id, member_epoch=1, partitions={"t": numbers})


def _grant_ended(member_id: str, numbers: tuple[int, ...]) -> GatewayEvent:
    return GrantEnded(
        cause="revoked", member_id=member_id, member_epoch=1, partitions={"t": numbers}
    )


def _commit(member_id: str, numbers: tuple[int, ...], position: int, at_s: float) -> GatewayEvent:
    at_ms = START_MS + round(at_s * 1000)
    return OffsetsCommitted(
        member_id=member_id,
        is_transactional=False,
        from_ms=at_ms - 4_000,
        to_ms=at_ms,
        offsets={
            "t": tuple(
                CommittedOffsets(
                    partition=number,
                    commits=5,
                    first=position,
                    lowest=position,
                    last=position + 5,
                )
                for number in numbers
            )
        },
    )


def write_events(folder: Path, groups: int, events: int, partitions: int) -> int:
    """Write files of GATEWAYS gateways and return the number of events."""
    own = life(max(0, events // groups - _EVENTS_BESIDES), partitions=partitions).lines
    for gateway in range(GATEWAYS):
        sequence = count(1)
        with (folder / f"events-{gateway}.jsonl").open("w") as file:
            file.write(_start(gateway, sequence))
            for group in range(gateway, groups, GATEWAYS):
                file.write(_of_group(own, gateway, group, sequence))
    return groups * len(own) + GATEWAYS


def _start(gateway: int, sequence: Iterator[int]) -> str:
    head = EventWriter(f"gateway-{gateway}", f"process-{gateway}")
    head.gateway(0, _gateway_started())
    assert next(sequence) == 1
    return f"{head.lines[0]}\n"


def _of_group(own: Sequence[str], gateway: int, group: int, sequence: Iterator[int]) -> str:
    """The lines of a group. The gateway also counts its process's events."""
    numbered = (
        line
        if '"process_id":null' in line
        else _SEQUENCE.sub(f'"sequence":{next(sequence)}', line, count=1)
        for line in own
    )
    text = "".join(f"{line}\n" for line in numbered).replace(_GROUP, f"group-{group}")
    return text.replace(_GATEWAY, f"gateway-{gateway}").replace(_PROCESS, f"process-{gateway}")


_SEQUENCE = re.compile(r'"sequence":\d+')


def _gateway_started() -> GatewayEvent:
    return GatewayStarted(version="0", bootstrap="h:1", cluster_id="bench", brokers=(1,))


class Usage:
    """What a process and all below it use. Spark does not wait for its Python processes, so the
    system does not count them for it."""

    def __init__(self, pid: int) -> None:
        self.peak_bytes = 0
        """The memory of all at the peak."""
        self._cpu_s: dict[int, float] = {}
        self._pid = pid
        self._is_over = threading.Event()
        self._watching = threading.Thread(target=self._watch)
        self._watching.start()

    @property
    def cpu_s(self) -> float:
        """CPU seconds of all processes, but for the last SAMPLE_S of each."""
        return sum(self._cpu_s.values())

    def stop(self) -> None:
        self._is_over.set()
        self._watching.join()

    def _watch(self) -> None:
        while not self._is_over.wait(SAMPLE_S):
            family = list(_family(self._pid))
            self.peak_bytes = max(self.peak_bytes, sum(dict(map(_memory, family)).values()))
            for pid in family:
                with suppress(OSError):
                    self._cpu_s[pid] = _cpu_s(pid, with_ended=False)


def _family(pid: int) -> Iterator[int]:
    yield pid
    for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # it may have ended meanwhile
            for child in tasks.read_text().split():
                yield from _family(int(child))


def _memory(pid: int) -> tuple[str, int]:
    """A name for a process, and its memory in bytes, counting shared pages by their share. A JVM
    that starts a program exists twice for a moment, with the same memory and the same name."""
    with suppress(OSError):
        process = Path(f"/proc/{pid}")
        command = (process / "cmdline").read_text()  # before it may start that program
        its_name = command if "java" in command.partition("\0")[0] else str(pid)
        for line in (process / "smaps_rollup").read_text().splitlines():
            name, _, value = line.partition(":")
            if name == "Pss":
                return its_name, int(value.removesuffix("kB")) * 1024
    return "", 0


def in_this_process(folder: Path) -> tuple[float, float]:
    """CPU seconds that decoding the lines takes, and folding them. At most FOLDED_MAX lines."""
    lines = [
        SourceLine(path.name, f"line {number}", text)
        for path in sorted(folder.iterdir())
        for number, text in enumerate(path.read_text().splitlines()[: FOLDED_MAX // GATEWAYS], 1)
    ]
    with without_garbage_collection():
        began = time.process_time()
        for line in lines:
            from_json(line.text)
        decoded = time.process_time()
        for _tables in fold_lines(lines):
            pass
        folded = time.process_time()
    return (decoded - began) / len(lines), (folded - decoded) / len(lines)


def read_by_duckdb(folder: Path) -> float:
    """CPU seconds in which DuckDB reads the columns of all lines. Raises ImportError."""
    duckdb: Any = import_module("duckdb")
    columns = ", ".join(f"{name}: '{kind}'" for name, kind in _COLUMNS.items())
    query = (
        "SELECT count(DISTINCT group_id), max(at_ms), sum(sequence), sum(length(fields))"
        f" FROM read_json('{folder}/*.jsonl', format='newline_delimited', columns={{{columns}}})"
    )
    began = time.process_time()
    duckdb.sql(query).fetchall()
    return time.process_time() - began


_COLUMNS = {
    **dict.fromkeys(("event", "gateway_id", "group_id", "process_id", "fields"), "VARCHAR"),
    **dict.fromkeys(("sequence", "began_ms", "after", "at_ms"), "BIGINT"),
}


def measure(folder: Path, output: Path) -> tuple[float, Usage]:
    """Seconds of one report, and what it used."""
    command = [sys.executable, "-m", "gateway", "report", str(folder), "--output", str(output)]
    began = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        usage = Usage(process.pid)
        status = process.wait()
        usage.stop()
    if status != 0:
        sys.exit(f"groupferry report ended with {status}")
    return time.monotonic() - began, usage


def follow(folder: Path, groups: int, events: int) -> Iterator[tuple[int, float]]:
    """The events and CPU seconds of each round: first those that take in most of the events, then
    ROUNDS small ones."""
    from gateway.pipeline.folder import Folder
    from gateway.pipeline.following import Following

    own = life(events // groups - _EVENTS_BESIDES + ROUNDS * PER_GROUP).lines
    sequences = [count(1) for _ in range(GATEWAYS)]
    last = len(own) - ROUNDS * PER_GROUP
    first = range(0, last, max(1, FOLDED_MAX // groups))
    parts = [own[place : min(place + first.step, last)] for place in first]
    parts += [own[place : place + PER_GROUP] for place in range(last, len(own), PER_GROUP)]
    following = Following(Folder(f"{folder}"), top=50)
    for number, part in enumerate(parts):
        lines = [_start(*item) for item in enumerate(sequences)] if number == 0 else []
        is_small = number >= len(first)
        for group in range(0, groups, max(1, groups // ACTIVE) if is_small else 1):
            gateway = group % GATEWAYS
            lines.append(_of_group(part, gateway, group, sequences[gateway]))
        texts = "".join(lines).splitlines()
        began = time.process_time()
        following.take_in((SourceLine("f", f"{n}", text) for n, text in enumerate(texts)), {})
        yield len(texts), time.process_time() - began


def _cpu_s(pid: int, *, with_ended: bool) -> float:
    """CPU seconds of a process, also of its children that have ended if wanted. Raises OSError."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11 : 15 if with_ended else 13])) / os.sysconf("SC_CLK_TCK")


ROUNDS = 3
PER_GROUP = 10
ACTIVE = 100


def tell_rounds(groups: int, amounts: str) -> None:
    for wanted in map(int, amounts.split(",")):
        with tempfile.TemporaryDirectory() as name:
            rounds = list(follow(Path(name), groups, wanted))
        first, small = rounds[:-ROUNDS], rounds[-ROUNDS:]
        print(
            f"{median(used for _events, used in small):.1f} CPU s for a round of {small[0][0]:,}"
            f" events after {sum(events for events, _used in first):,} events of {groups:,} groups,"
            f" which took {sum(used for _events, used in first):.0f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--groups", type=int)
    parser.add_argument("--events")
    parser.add_argument("--partitions", type=int, default=PARTITIONS)
    parser.add_argument("--follow", action="store_true")
    options = parser.parse_args()
    if options.follow:
        tell_rounds(options.groups or 1_000, options.events or "100000,1000000")
    else:
        events = options.events or "1000000,10000000"
        tell_batches(options.groups or 10_000, events, options.partitions)


def tell_batches(groups: int, amounts: str, partitions: int) -> None:
    before: tuple[int, float] | None = None
    for wanted in map(int, amounts.split(",")):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "events"
            folder.mkdir()
            events = write_events(folder, groups, wanted, partitions)
            size = sum(path.stat().st_size for path in folder.iterdir())
            decode_s, fold_s = in_this_process(folder)
            try:
                duckdb = f"{events / read_by_duckdb(folder):,.0f}"
            except ImportError:
                duckdb = "(not installed)"
            taken_s, usage = measure(folder, Path(name) / "out")
        print(
            f"{events:>12,} events of {groups:,} groups ({size / 1e9:.2f} GB): "
            f"{taken_s:7.1f} s, {usage.cpu_s:7.1f} CPU s, {events / taken_s:>9,.0f} events/s,"
            f" {usage.peak_bytes / 1e6:,.0f} MB; one core without Spark:"
            f" folds {1 / fold_s:,.0f} events/s, decodes {1 / decode_s:,.0f};"
            f" DuckDB per core: {duckdb}"
        )
        if before is not None:
            print(f"{events / before[0]:.1f} times the events, {taken_s / before[1]:.1f} the time")
        before = events, taken_s


if __name__ == "__main__":
    main()
