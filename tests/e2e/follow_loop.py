"""Kills `groupferry report --follow` at random moments while its files grow, and compares the
result with that of one batch.

    python -m tests.e2e.follow_loop --minutes 5

The files have the lines of many groups, from two gateways with logs of their own and clocks that
differ: most of them in order, some late, twice or damaged. Some groups move between the gateways.
"""

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gateway.events.event import GatewayEvent
from gateway.events.gateway_events import GatewayStarted
from gateway.events.group_events import GroupForwarded, GroupStateChanged, HostingStarted
from gateway.events.offset_events import OffsetsCommitted
from gateway.pipeline.spark.session import open_session
from tests.support.event_writer import START_MS, EventWriter
from tests.support.followed_tables import differences, offsets_of
from tests.support.group_events import EMPTY, STABLE
from tests.support.simulated_events import SimulatedStep, simulate_events
from tests.support.spark import SETTINGS

LEFT = GroupStateChanged(from_state=STABLE, to_state=EMPTY, generation=0)
STARTED = GatewayStarted(version="1", bootstrap="h:1", cluster_id="c", brokers=(1,))
GATEWAYS = 0, 1
AHEAD_S_MAX = 20.0
"""How far the clock of the second gateway may be ahead or behind."""
GROUPS = 40
STEPS = 120
FILES = 3
LINES_MAX = 60
"""The limit of lines that appear between two looks at the files."""
BETWEEN_S_MAX = 2.0
LIVES_S = 4.0, 45.0
"""How long a process lives."""
CAUGHT_UP_S_MAX = 1_200.0


def history(dice: random.Random, groups: int = GROUPS) -> list[str]:
    """All lines, most of them in the order of their times."""
    lines: list[tuple[float, str]] = []
    ahead_s = 0.0, dice.uniform(-AHEAD_S_MAX, AHEAD_S_MAX)
    for number in range(groups):
        writers = [
            EventWriter(f"gateway-{n}", f"process-{number}", f"group-{number}") for n in GATEWAYS
        ]
        begins_s, ended_s = dice.uniform(0, 600), 0.0
        for gateway, steps in hosts(number):
            writer = writers[gateway]
            if not writer.lines:
                writer.gateway(0, STARTED)
            # Another run begins when the one before it has ended.
            after_s = begins_s + max(0.0, ended_s - steps[0].at_ms / 1000) + ahead_s[gateway]
            for number_there, step in enumerate(steps):
                later_s = after_s
                if number_there == 0:
                    writer.beside(later_s + step.at_ms / 1000, HostingStarted(reason="moves"))
                for at_ms, event in step.offsets:
                    writer.beside(later_s + at_ms / 1000, later(event, later_s))
                tell = writer.emit if step.is_durable else writer.beside
                tell(later_s + step.at_ms / 1000, *step.events)
            ended_s = steps[-1].at_ms / 1000
            writer.beside(later_s + ended_s, LEFT, GroupForwarded(reason="moves"))
        lines += [
            (json.loads(line)["at_ms"] - ahead_s[gateway] * 1000, line)
            for gateway in GATEWAYS
            for line in writers[gateway].lines
        ]
    for told_ms, line in dice.sample(lines, len(lines) // 50):
        lines.append((told_ms + dice.uniform(0, 300_000), line))
    for told_ms, line in dice.sample(lines, len(lines) // 100):
        lines.append((told_ms, line[: dice.randrange(len(line))]))
    late = set(dice.sample(range(len(lines)), len(lines) // 100))
    placed = [
        (told_ms + (dice.uniform(0, 600_000) if number in late else 0), line)
        for number, (told_ms, line) in enumerate(lines)
    ]
    return [line for _told_ms, line in sorted(placed)]


def hosts(number: int) -> Sequence[tuple[int, Sequence[SimulatedStep]]]:
    """The gateways that serve a group one after another, with what happens at each."""
    steps, half = simulate_events(number)[:STEPS], STEPS // 2
    match number % 4:
        case 0:  # epochs tell the order
            return (0, steps[:half]), (1, steps[half:])
        case 1:  # they do not, because the group returns
            return (0, steps[: half // 2]), (1, steps[half // 2 : half]), (0, steps[half:])
        case 2:  # they begin again
            return (0, steps[:half]), (1, simulate_events(number + GROUPS)[:half])
        case _:
            return [(number // 4 % 2, steps)]


def later(event: GatewayEvent, by_s: float) -> GatewayEvent:
    """The same event, as so long after the first second of all."""
    if not isinstance(event, OffsetsCommitted):
        return event
    by_ms = START_MS + round(by_s * 1000)
    return replace(event, from_ms=event.from_ms + by_ms, to_ms=event.to_ms + by_ms)


def grow(folder: Path, lines: list[str], dice: random.Random) -> None:
    """Move some lines to the files."""
    batch = [lines.pop(0) for _ in range(min(len(lines), dice.randrange(LINES_MAX)))]
    for line in batch:
        with (folder / f"{dice.randrange(FILES)}.jsonl").open("a") as file:
            file.write(f"{line}\n")


def follow_files(folder: Path, output: Path, lines: list[str], options: argparse.Namespace) -> int:
    """Follow the growing files. Returns how often the process was killed."""
    dice = random.Random(options.seed)
    until_s, kills = time.monotonic() + 60 * options.minutes, 0
    grow(folder, lines, dice)
    while time.monotonic() < until_s:
        process = start(folder, output)
        dies_s = time.monotonic() + dice.uniform(*LIVES_S)
        while time.monotonic() < dies_s:
            time.sleep(dice.uniform(0, BETWEEN_S_MAX))
            grow(folder, lines, dice)
        process.kill()
        process.wait()
        kills += 1
    while lines:
        grow(folder, lines, dice)
    process = start(folder, output)
    try:
        until_s = time.monotonic() + CAUGHT_UP_S_MAX
        while not has_caught_up(folder, output):
            if process.poll() is not None or time.monotonic() > until_s:
                sys.exit("the last process does not catch up")
            time.sleep(1)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
    return kills


def start(folder: Path, output: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "gateway", "report", str(folder), "--output", str(output)]
    return subprocess.Popen([*command, "--follow", "--interval", "1"], stdout=subprocess.DEVNULL)


def has_caught_up(folder: Path, output: Path) -> bool:
    """Whether all bytes of the files have been read."""
    read = offsets_of(output)
    return all(read.get(str(path)) == path.stat().st_size for path in folder.iterdir())


def main() -> None:
    """Follow, kill and compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, output = Path(name, "events"), Path(name, "followed")
        folder.mkdir()
        lines = history(random.Random(options.seed))
        total = len(lines)
        kills = follow_files(folder, output, lines, options)
        print(f"{total} lines, {kills} kills", flush=True)
        with open_session("compare", master="local[2]", settings=SETTINGS) as spark:
            differ = differences(spark, output, folder, Path(name, "at-once"))
    if differ:
        sys.exit(f"differs from one batch: {', '.join(differ)}")
    print("equal to one batch")


if __name__ == "__main__":
    main()
