"""What leaves cost a group outside a migration, through groupferry, compared with Apache Kafka
itself.

    .venv/bin/python tests/bench/bench_leaves.py [--only TEXT]... [--keep]

The members of each group are restarted one by one without changing their protocol, then one leaves
for good, and at last the application of one is stuck for longer than max.poll.interval.ms. Two
groups of the same clients run at the same time, one at Kafka 4.3 and one behind groupferry in front
of it, so they share what else the machine does. The figures come from the clients' callbacks
(`roll_costs.py`). `--only TEXT` runs the clients that have TEXT in their name; `--keep` writes the
table into `gateway/docs/rolls.md`.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import trio

from gateway.demo.group_view import Protocol
from tests.bench.bench_roll import MEMBER, NEW, PAGE, Roll, RolledGroup, Size
from tests.bench.comparison import say
from tests.bench.processes import PeerMissing, gateway, required_peer
from tests.bench.roll_costs import RollStep, costs_of
from tests.support.client_programs import Library, program
from tests.support.kafka_broker import KafkaCluster, running_kafka
from tests.support.kafka_release import kafka_release
from tests.support.ports import HOST

BEGIN = "<!-- Generated: poe bench leaves --keep -->\n"
END = "<!-- End of what poe bench leaves --keep generates -->\n"
SIZE = Size(
    members=4, partitions=12, gaps_s=(1,), libraries=(("librdkafka",), ("java",)), repeats=1
)
"""The number of partitions divides evenly among four, three and two members."""
POLL_INTERVAL = "max.poll.interval.ms=6000\n"
TIMERS = "session.timeout.ms=6000\nheartbeat.interval.ms=3000\n"
"""A classic session may not be longer than the poll interval."""
CONFIGS: Mapping[Protocol, str] = {"classic": TIMERS + POLL_INTERVAL, "consumer": POLL_INTERVAL}
EVENTS = ("rolling restart", "scale-in", "poll timeout")
KAFKA, GROUPFERRY = "Kafka 4.3", "groupferry"

Costs = Mapping[str, float]


def clients_of(library: Library) -> Iterator[tuple[str, Roll, Protocol]]:
    """The kinds of groups of this library, with their names."""
    roll = Roll(libraries=(library,), kind="eager", assignor="range", gap_s=1)
    cooperative = Roll(
        libraries=(library,), kind="cooperative", assignor="cooperative-sticky", gap_s=1
    )
    yield f"{library} classic, eager", roll, "classic"
    yield f"{library} classic, cooperative", cooperative, "classic"
    yield f"{library} native", roll, "consumer"


async def measure_leaves(
    roll: Roll, protocol: Protocol, bootstrap: str, cluster: KafkaCluster
) -> Mapping[str, Costs]:
    """The costs of each of `EVENTS`. Raises NotSettledError."""
    names = [f"{MEMBER}{number}" for number in range(SIZE.members)]
    costs: dict[str, Costs] = {}
    with tempfile.TemporaryDirectory(prefix="groupferry-leaves-") as folder:
        async with trio.open_nursery() as nursery:
            group = RolledGroup(nursery, roll, SIZE, bootstrap, Path(folder), configs=CONFIGS)
            await cluster.make_topic(group.topic)
            await group.produce(cluster.bootstrap_servers)
            for name in names:
                await group.join(name, protocol)
            await group.wait_until_settled()

            async def step(name: str) -> RollStep:
                return RollStep(
                    member=name,
                    protocol=protocol,
                    started_s=started_s,
                    settled_s=await group.wait_until_settled(),
                    floor_s=0,
                )

            steps: list[RollStep] = []
            for name in names:
                started_s = time.monotonic()
                await group.leave(name)
                await trio.sleep(roll.gap_s)
                await group.join(name, protocol)
                steps.append(await step(name))
            costs["rolling restart"] = costs_of(group.ledger, SIZE.partitions, steps)
            started_s = time.monotonic()
            await group.leave(names[-1])
            costs["scale-in"] = costs_of(group.ledger, SIZE.partitions, [await step(names[-1])])
            started_s = time.monotonic()
            await group.hang(names[-2])
            costs["poll timeout"] = costs_of(group.ledger, SIZE.partitions, [await step(names[-2])])
            await group.end()
            nursery.cancel_scope.cancel()
    return costs


async def compare(
    roll: Roll, protocol: Protocol, arms: Mapping[str, str], cluster: KafkaCluster
) -> Mapping[str, Mapping[str, Costs]]:
    """The costs of all arms, which run at the same time. Raises NotSettledError, in a group."""
    costs: dict[str, Mapping[str, Costs]] = {}

    async def measure(arm: str, bootstrap: str) -> None:
        costs[arm] = await measure_leaves(roll, protocol, bootstrap, cluster)

    async with trio.open_nursery() as nursery:
        for arm, bootstrap in arms.items():
            nursery.start_soon(measure, arm, bootstrap)
    return costs


def table_of(rows: Mapping[str, Mapping[str, Mapping[str, Costs]]]) -> str:
    """A Markdown table, a line for the clients and each of `EVENTS`."""
    lines = [
        "| clients | what happens | idle partition-seconds, Kafka 4.3 | groupferry | ratio"
        " | settled after, s, Kafka 4.3 | groupferry |",
        f"|{'---|' * 7}",
    ]
    for name, arms in rows.items():
        for event in EVENTS:
            kafka, ours = arms[KAFKA][event], arms[GROUPFERRY][event]
            cells = (
                *(name, event, f"{kafka['idle']:.3g}", f"{ours['idle']:.3g}"),
                f"{ours['idle'] / kafka['idle']:.2f}" if kafka["idle"] else "-",
                *(f"{kafka['settle_s']:.3g}", f"{ours['settle_s']:.3g}"),
            )
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def measure_all(only: Sequence[str]) -> str:
    """The table of the clients that are wanted."""
    rows: dict[str, Mapping[str, Mapping[str, Costs]]] = {}
    settings = {
        "num.partitions": SIZE.partitions,
        "group.consumer.migration.policy": "bidirectional",
    }
    with ExitStack() as stack:
        cluster = stack.enter_context(running_kafka(NEW, brokers=1, settings=settings))
        server = stack.enter_context(gateway(cluster.bootstrap_servers))
        arms = {KAFKA: cluster.bootstrap_servers, GROUPFERRY: f"{HOST}:{server.port}"}
        for (library,) in SIZE.libraries:
            for name, roll, protocol in clients_of(library):
                if not only or any(text.lower() in name.lower() for text in only):
                    say(f"{name}: both groups are running")
                    rows[name] = trio.run(compare, roll, protocol, arms, cluster)
                    say(table_of({name: rows[name]}))
    return table_of(rows)


def main() -> None:
    """Measure, print the table, and write it into the docs if asked."""
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--only", metavar="TEXT", action="append", default=[], help="clients with TEXT in the name"
    )
    parser.add_argument("--keep", action="store_true", help="write the table into the docs")
    options = parser.parse_args()
    try:
        with required_peer("the clients"):
            for (library,) in SIZE.libraries:
                program(library)
        with required_peer("Apache Kafka"):
            kafka_release(NEW)
    except PeerMissing as reason:
        sys.exit(f"cannot measure: {reason}")
    table = measure_all(options.only)
    say(table)
    if options.keep:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        _, _, after = rest.partition(END)
        PAGE.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}")


if __name__ == "__main__":
    main()
