"""Share consumers and Streams applications under load, while gateway and brokers are killed.

    python -m tests.e2e.other_groups_loop --release 4.4 --minutes 10 --processes 2

Each application runs at the broker and behind the gateway at the same time, and ends once it has
read every record that a producer has written meanwhile. Prints what each of them says, and how long
after the last record. The exit status is 1 if one of them fails, or misses or counts twice what it
promises.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import trio
from confluent_kafka import Producer

from tests.support.applications import printed_lines, streams_class_path
from tests.support.group_client import fresh_group
from tests.support.kafka_broker import PARTITIONS, KafkaCluster, running_kafka
from tests.support.serve_process import ServeProcess, serving

AFTERWARDS_S = 240
"""The limit for reading what is left once the last record is written."""
BETWEEN_FAULTS_S = (8.0, 20.0)
BROKER_AWAY_S = 3.0
FLUSH_LIMIT_S = 60
FAILURE_SHOWN = 3_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """An application, and what it prints if it has read every record."""

    program: str
    options: tuple[str, ...] = ()
    expected: str

    def __str__(self) -> str:
        return " ".join((self.program, *self.options))


STREAMS = "StreamsProgram"
KINDS = (
    Kind(program="ShareGroupClient", expected="values 0 to {last}"),
    Kind(program=STREAMS, options=("streams", "exactly_once_v2"), expected="counted {count}"),
    Kind(program=STREAMS, options=("classic", "exactly_once_v2"), expected="counted {count}"),
)


@dataclass(slots=True)
class Load:
    """The records of a trial, and the faults while they are written."""

    topic: str
    count: int
    rate: float
    ended: trio.Event = field(default_factory=trio.Event)
    ended_s: float = 0.0
    broker_kills: int = 0
    gateway_kills: int = 0

    async def write(self, bootstrap: str) -> None:
        """Write the records, at this rate per second."""
        producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        started_s = trio.current_time()
        for number in range(self.count):
            producer.produce(self.topic, b"%d" % number, partition=number % PARTITIONS)
            producer.poll(0)
            await trio.sleep_until(started_s + number / self.rate)
        left = await trio.to_thread.run_sync(producer.flush, FLUSH_LIMIT_S)
        assert left == 0, f"{left} records were not written"
        self.ended_s = time.monotonic()
        self.ended.set()

    async def disturb(self, kafka: KafkaCluster, gateway: ServeProcess, rng: random.Random) -> None:
        """Kill the gateway, or a process of it, or a broker, again and again."""
        while True:
            with trio.move_on_after(rng.uniform(*BETWEEN_FAULTS_S)):
                await self.ended.wait()
                return
            if rng.random() < 0.5:
                self.gateway_kills += 1
                await kill_gateway(gateway, rng)
            else:
                self.broker_kills += 1
                await kafka.brokers[rng.choice(sorted(kafka.brokers))].kill()
                await trio.sleep(BROKER_AWAY_S)
                await kafka.start()


async def kill_gateway(gateway: ServeProcess, rng: random.Random) -> None:
    """Kill a process of a fleet, which its parent starts again, or the gateway, and start it. Wait
    until it has started."""
    if started := gateway.events("process_started"):
        slot = rng.choice(sorted({line["slot"] for line in started}))
        os.kill([line["pid"] for line in started if line["slot"] == slot][-1], signal.SIGKILL)
        await gateway.until_event("process_started", len(started) + 1)
    else:
        starts = len(gateway.events("gateway_started"))
        await gateway.kill()
        await gateway.start()
        await gateway.until_event("gateway_started", starts + 1)


async def play(kafka: KafkaCluster, folder: Path, options: argparse.Namespace) -> bool:
    """Play one trial, and print it. Returns whether every application has done what it promises."""
    load = Load(fresh_group("load"), round(options.rate * 60 * options.minutes), options.rate)
    await kafka.make_topic(load.topic)
    class_path, results = streams_class_path(kafka.release), []

    async def run(kind: Kind, side: str, servers: str) -> None:
        arguments = (servers, load.topic, fresh_group(side), load.count, *kind.options)
        limit_s = 60 * options.minutes + AFTERWARDS_S
        try:
            lines: Sequence[str] = await printed_lines(
                kind.program, class_path, *arguments, limit_s=limit_s
            )
        except (AssertionError, trio.TooSlowError) as failure:
            print(f"{kind}, {side}: failed: {str(failure)[-FAILURE_SHOWN:]}", flush=True)
            lines = ["failed"]
        await load.ended.wait()
        after_s = time.monotonic() - load.ended_s
        results.append(kind.expected.format(count=load.count, last=load.count - 1) in lines)
        print(f"{kind}, {side}: {'; '.join(lines)}; {after_s:.1f} s after the end", flush=True)

    flags = [f"--processes={options.processes}"] if options.processes > 1 else []
    async with (
        serving(kafka.bootstrap_servers, folder, *flags) as gateway,
        trio.open_nursery() as nursery,
    ):
        if flags:
            await gateway.until_event("fleet_started")
        nursery.start_soon(load.write, kafka.bootstrap_servers)
        nursery.start_soon(load.disturb, kafka, gateway, random.Random(options.seed))
        for kind in KINDS:
            nursery.start_soon(run, kind, "direct", kafka.bootstrap_servers)
            nursery.start_soon(run, kind, "behind", gateway.bootstrap)
    print(
        f"{load.count} records; killed: gateway {load.gateway_kills} times,"
        f" a broker {load.broker_kills} times"
    )
    return len(results) == 2 * len(KINDS) and all(results)


def main() -> None:
    """Play one trial."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--release", default="4.4")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--processes", type=int, default=1, help="of the gateway")
    parser.add_argument("--rate", type=float, default=50.0, help="records per second")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with (
        running_kafka(options.release, brokers=3) as kafka,
        tempfile.TemporaryDirectory() as folder,
    ):
        is_clean = trio.run(play, kafka, Path(folder), options)
    sys.exit(0 if is_clean else 1)


if __name__ == "__main__":
    main()
