"""Plays short-lived sessions of many groups against one gateway, restarts its broker half-way, and
prints what they leave behind.

    python -m tests.e2e.churn_loop --minutes 10 --sessions-per-second 8

Sessions join with either protocol or both, commit, and leave or crash; name groups that nobody
knows; send what is refused; or close their connection before the answer. Two classic members and a
native one of a healthy group must notice nothing but the restart. After a third of the time, the
gateway begins to forget groups without offsets. The exit status is 1 if the healthy group was
disturbed, a line of the log is no JSON, or an error was not handled. Whoever reads the figures
judges the rest: memory, lines per minute, and what is open at the end.
"""

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path
from subprocess import DEVNULL, PIPE

import trio

from gateway.demo import producer, reports
from gateway.groups import forgetting
from gateway.journal.line_files import FOLDER_NAME, PATTERN
from tests.fuzz import memory_in_use
from tests.support.clients import Client, run_client
from tests.support.kafka_broker import PARTITIONS, TOPIC, KafkaCluster, running_kafka
from tests.support.ports import HOST, free_port
from tests.support.releases import NEWEST
from tests.support.serve_process import PROGRAM, ServeProcess, command
from tests.support.short_sessions import ShortSessions

START_LIMIT_S = 60
SETTLE_S, AFTER_RESTART_S, IDLE_S = 20.0, 30.0, 60.0
MEMBERS = {
    "classic-1": Client(library="librdkafka"),
    "classic-2": Client(library="librdkafka"),
    "native": Client(library="librdkafka", protocol="consumer"),
}
RECORDS_PER_S = 30
BROKER_SETTINGS = {"offsets.retention.check.interval.ms": 15_000}
"""The cluster forgets groups without members and offsets early."""
FLAGS = ("--group-consumer-session-timeout-ms=45000",)
SILENT_MAX_S = 10.0
CLOSE_WAIT = "08"
TASKS = "tasks_alive"


def prepare_gateway(first_look_s: float) -> None:
    """Let the gateway process forget early, and tell its memory and tasks on signals."""
    forgetting.FIRST_LOOK_S = first_look_s, first_look_s
    forgetting.COUNT_INTERVAL_S, forgetting.NEW_GROUPS_MAX = 30.0, 100
    memory_in_use.tell_on_signal()

    def tell_tasks(*_signal: object) -> None:
        tasks = trio.lowlevel.current_statistics().tasks_living
        line = {"event": TASKS, "level": "debug", "tasks": tasks}
        os.write(sys.stderr.fileno(), f"{json.dumps(line)}\n".encode())

    signal.signal(signal.SIGUSR2, tell_tasks)


class HealthyGroup:
    """Real consumers of a group that must notice nothing."""

    def __init__(self) -> None:
        self.commits = 0
        self._troubles: list[tuple[float, str]] = []
        self._committed_at_s: dict[str, float] = {}

    async def live(self, bootstrap: str) -> None:
        """Run its members and a producer until cancelled."""
        words = [f"--bootstrap={bootstrap}", f"--topic={TOPIC}"]
        async with trio.open_nursery() as nursery:
            for name, client in MEMBERS.items():
                listen = partial(self._hear, name)
                arguments = [*words, "--group=healthy"]
                nursery.start_soon(
                    partial(run_client, client, arguments, name=name, on_line=listen)
                )
            numbers = [*words, f"--partitions={PARTITIONS}", f"--rate={RECORDS_PER_S}"]
            producing = [sys.executable, "-m", producer.__name__, *numbers]
            run = partial(trio.run_process, producing, stdin=PIPE, stdout=DEVNULL, check=False)
            await nursery.start(run)

    def _hear(self, name: str, line: str) -> None:
        report, now_s = reports.decode(line), time.monotonic()
        if isinstance(report, reports.CommittedReport):
            self._look_for_gap(name, now_s)
            self._committed_at_s[name] = now_s
            self.commits += 1
        elif not isinstance(report, reports.ConsumedReport):
            self._troubles.append((now_s, f"{name}: {line}"))

    def _look_for_gap(self, name: str, now_s: float) -> None:
        silent_s = now_s - self._committed_at_s.get(name, now_s)
        if silent_s > SILENT_MAX_S:
            self._troubles.append((now_s, f"{name}: {silent_s:.0f} s without a commit"))

    def end(self) -> None:
        """Look for members that have fallen silent."""
        for name in MEMBERS:
            self._look_for_gap(name, time.monotonic())

    def disturbances(self, since_s: float, until_s: float) -> list[str]:
        """Errors, rebalances and long times without a commit, within this time."""
        return [line for at_s, line in self._troubles if since_s < at_s < until_s]


async def _print_figures(label: str, gateway: ServeProcess, state: Path) -> None:
    memory = await memory_in_use.look(gateway)
    process = Path(f"/proc/{gateway.pid}")
    answers = len(gateway.events(TASKS)) + 1
    os.kill(gateway.pid, signal.SIGUSR2)
    tasks = (await gateway.until_event(TASKS, answers))["tasks"]
    files = [path.resolve().name for path in (process / "fd").iterdir()]
    sockets = [line.split() for line in (process / "net/tcp").read_text().splitlines()[1:]]
    left_open = sum(row[3] == CLOSE_WAIT and f"socket:[{row[9]}]" in files for row in sockets)
    threads = len([*(process / "task").iterdir()])
    event_bytes = sum(path.stat().st_size for path in (state / FOLDER_NAME).glob(PATTERN))
    print(f"{label}: {memory}, {tasks} tasks, {threads} threads, {len(files)} files,", end=" ")
    print(f"{left_open} in CLOSE-WAIT, {event_bytes} bytes of events", flush=True)


def _print_lines(gateway: ServeProcess) -> None:
    """Print how often each event was logged, and which lines say the same."""
    minutes: dict[str, Counter[str]] = {}
    equal: Counter[str] = Counter()
    for line in gateway.log:
        if "timestamp" in line:
            minutes.setdefault(line["event"], Counter())[line["timestamp"][:16]] += 1
            fields = {name: line[name] for name in line.keys() - {"timestamp", "more"}}
            equal[json.dumps(fields, sort_keys=True)] += 1
    for event, counts in sorted(minutes.items(), key=lambda item: -max(item[1].values())):
        print(f"{counts.total():7} {event}, {max(counts.values())} in a minute at most")
    for text, count in equal.most_common(5):
        print(f"{count:7} times equal: {text[:200]}")


async def play(kafka: KafkaCluster, state: Path, options: argparse.Namespace) -> int:
    """Play the churn, print the figures, and return the exit status."""
    address = HOST, free_port()
    bootstrap = f"{HOST}:{address[1]}"
    prepare = f"churn_loop.prepare_gateway({options.minutes * 20})"
    program = f"from tests.e2e import churn_loop; {prepare}; {PROGRAM}"
    healthy = HealthyGroup()
    sessions = ShortSessions(address, random.Random(options.seed))
    quarter_s = options.minutes * 15
    async with trio.open_nursery() as nursery:
        words = command(kafka.bootstrap_servers, bootstrap, state, *FLAGS)
        gateway = ServeProcess(nursery, words, bootstrap)
        await gateway.start(program)
        with trio.fail_after(START_LIMIT_S):
            await gateway.until_event("gateway_started")
        async with trio.open_nursery() as living:
            living.start_soon(healthy.live, bootstrap)
            await trio.sleep(SETTLE_S)
            settled_s = time.monotonic()
            await _print_figures("start", gateway, state)
            async with trio.open_nursery() as churn:
                churn.start_soon(sessions.play, options.minutes, options.sessions_per_second)
                await trio.sleep(quarter_s)
                await _print_figures("quarter", gateway, state)
                await trio.sleep(quarter_s)
                await _print_figures("half", gateway, state)
                stopped_s = time.monotonic()
                await kafka.brokers[1].stop()
                await kafka.start()
                restarted_s = time.monotonic() + AFTER_RESTART_S
            await _print_figures("end", gateway, state)
            await trio.sleep(IDLE_S)
            await _print_figures("idle", gateway, state)
            healthy.end()
            ended_s = time.monotonic()
            living.cancel_scope.cancel()
        status = await gateway.terminate()
        nursery.cancel_scope.cancel()
    _print_lines(gateway)
    print(f"{sessions.ends.total()} sessions of {len(sessions.groups)} groups")
    for end, count in sorted(sessions.ends.items()):
        print(f"{count:7} {end}")
    during = healthy.disturbances(stopped_s, restarted_s)
    disturbances = [
        *healthy.disturbances(settled_s, stopped_s),
        *healthy.disturbances(restarted_s, ended_s),
    ]
    unhandled = [line for line in gateway.log if "Traceback" in json.dumps(line)]
    print(f"the healthy group committed {healthy.commits} times, {len(during)} troubles around")
    print(f"the restart: {during[:5]}; besides {len(disturbances)}: {disturbances[:20]}")
    print(f"{len(unhandled)} tracebacks {unhandled[:3]}; no JSON: {gateway.other_lines[:20]}")
    return int(bool(disturbances or unhandled or gateway.other_lines or status))


def main() -> None:
    """Play with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--release", default=NEWEST)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--sessions-per-second", type=float, default=8.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with (
        running_kafka(options.release, brokers=1, settings=BROKER_SETTINGS) as kafka,
        tempfile.TemporaryDirectory() as state,
    ):
        sys.exit(trio.run(play, kafka, Path(state), options))


if __name__ == "__main__":
    main()
