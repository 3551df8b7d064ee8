"""Whether anything has become twice as expensive: what CI runs.

    .venv/bin/python tests/bench/bench_guard.py [--keep]

The work of `bench_group_calls` and `bench_relay` in half a minute: in front of a broker that this
folder imitates, beside the bare Trio server and the C relay. Only ratios of processor time count.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import trio

from tests.bench import bench_relay
from tests.bench.bench_group_calls import (
    LONG_MS,
    Group,
    classic_group,
    commits,
    echo_arm,
    heartbeats,
    native_group,
    native_heartbeats,
)
from tests.bench.comparison import SUBJECT, Arm, Form, Results, compare, guard_of
from tests.bench.processes import (
    PeerMissing,
    Requests,
    Server,
    compiled,
    enter_private_network,
    gateway,
    load,
    running,
)
from tests.support.ports import HOST, free_port

FORM = Form(name="guard", rounds=5, work=1.0)
MEMBERS = 3
"""As many as the topic of the imitated broker has partitions."""
JOINING = 100
GROUP_CALLS, ROUND_TRIPS, LONG_FETCHES = 600, 2_000, 500
FLAGS = (
    "--group-initial-rebalance-delay-ms=1500",
    f"--group-consumer-session-timeout-ms={LONG_MS}",
    f"--group-consumer-max-session-timeout-ms={LONG_MS}",
)


@contextmanager
def storing_broker() -> Iterator[Server]:
    """A broker that stores commits."""
    port = free_port()
    command = [sys.executable, f"{Path(__file__).with_name('fake_broker.py')}", f"{port}"]
    with running("broker", command, port) as server:
        yield server


def measure_group_calls(results: Results) -> None:
    """Requests of members at rest, and a group that forms."""
    with storing_broker() as broker, gateway(f"{HOST}:{broker.port}", *FLAGS) as ours:
        native = trio.run(native_group, ours, "native", MEMBERS)
        classic, _cost = trio.run(classic_group, ours, "classic", MEMBERS)
        rows: Mapping[str, tuple[Group, Callable[[Group], Requests]]] = {
            "Heartbeat": (classic, heartbeats),
            "ConsumerGroupHeartbeat": (native, native_heartbeats),
            "OffsetCommit, classic group": (classic, commits),
            "OffsetCommit, native group": (native, commits),
        }
        for row, (group, requests_of) in rows.items():
            requests = requests_of(group)
            subject = Arm(name=SUBJECT, server=ours, requests=requests, port=group.port)
            with echo_arm(requests) as echo:
                arms = [echo, subject]
                # One for each member: a member's commits on two connections wait for each other.
                compare(results, row, arms, FORM, connections=MEMBERS, count=GROUP_CALLS)
        measure_joins(results, ours, heartbeats(classic))


def measure_joins(results: Results, ours: Server, requests: Requests) -> None:
    """Beside as many heartbeats of the bare server as there are members."""
    samples: dict[str, list[dict[str, float]]] = {"echo": [], SUBJECT: []}
    with echo_arm(requests) as echo, load(echo.server, requests, MEMBERS) as beats:
        for number in range(3):
            _group, cost = trio.run(classic_group, ours, f"joining-{number}", JOINING)
            cpu_us = beats.measure(GROUP_CALLS).cpu_us
            samples["echo"].append({"cpu_us": cpu_us})
            samples[SUBJECT].append({"cpu_us": cost["cpu_s"] * 1e6 / JOINING})
    results.note(f"{JOINING} classic members join at once", samples)


def measure_relay(results: Results) -> None:
    """Short and long answers through the relay."""
    with ExitStack() as stack:
        behind = stack.enter_context(bench_relay.broker())
        servers = {
            "C relay": stack.enter_context(bench_relay.c_relay(behind)),
            SUBJECT: stack.enter_context(bench_relay.groupferry(behind)),
        }

        def compare_fetches(row: str, version: int, connections: int, count: int) -> None:
            requests = bench_relay.fetch(version)
            arms = [Arm(name=n, server=each, requests=requests) for n, each in servers.items()]
            compare(results, row, arms, FORM, connections=connections, count=count)

        compare_fetches("Round trip", 12, 1, ROUND_TRIPS)
        compare_fetches("Round trip", 12, 100, ROUND_TRIPS)
        compare_fetches("Fetch 64 KiB", 14, 4, LONG_FETCHES)


def measure(results: Results) -> None:
    """All rows."""
    try:
        compiled("load")
    except PeerMissing as reason:
        results.skip(f"{reason}")
        return
    measure_group_calls(results)
    measure_relay(results)


if __name__ == "__main__":
    enter_private_network()
    guard_of("guard", measure)
