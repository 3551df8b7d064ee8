"""What a thousand hosted groups cost the cluster: connections and requests per second.

    .venv/bin/python tests/bench/bench_anchors.py [GROUPS]

Starts Apache Kafka with three brokers and Kafka's usual initial rebalance delay, and a gateway;
lets a native member into each group; then closes the clients' connections, and looks at the anchors
alone for a while. Its requests and its share of a core are those of the whole process.
"""

import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import structlog
import trio

from gateway.cluster import coordinator_connections
from gateway.cluster.broker_connection import BrokerConnection
from kafka_codecs.apis import ApiKey
from kafka_codecs.error_codes import ErrorCode
from tests.support.gateway import whole_gateway
from tests.support.group_client import group_client
from tests.support.kafka_broker import KafkaCluster, running_kafka

RELEASE = "4.3"
INITIAL_DELAY_MS = 3_000
JOINING_AT_ONCE = 200
WINDOW_S = 20


def connections_to(ports: set[int]) -> int:
    """Established connections of this process to these local ports."""
    own = {
        Path(f"/proc/self/fd/{descriptor.name}").readlink().name
        for descriptor in Path("/proc/self/fd").iterdir()
        if descriptor.is_symlink()
    }
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(
        row[3] == "01" and int(row[2].split(":")[1], 16) in ports and f"socket:[{row[9]}]" in own
        for row in rows
    )


@contextmanager
def counted_requests(requests: Counter[str]) -> Iterator[None]:
    """Count the requests on the gateway's own connections to the brokers."""
    exchange = BrokerConnection._exchange

    async def counting(self: BrokerConnection, key: ApiKey, version: int, body: bytes) -> bytes:
        requests[key.name] += 1
        return await exchange(self, key, version, body)

    BrokerConnection._exchange = counting  # type: ignore[method-assign]
    try:
        yield
    finally:
        BrokerConnection._exchange = exchange  # type: ignore[method-assign]


async def join(address: tuple[str, int], group: str, limit: trio.CapacityLimiter) -> None:
    """Join as soon as the gateway admits the member, at the listener of the group's coordinator."""
    async with limit:
        while True:
            async with group_client(address, group) as client:
                answer = await client.native("n")
            if not answer.error_code:
                return
            assert answer.error_code in (
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                ErrorCode.NOT_COORDINATOR,
            ), answer


async def measure(cluster: KafkaCluster, groups: int) -> None:
    """Print the figures."""
    requests: Counter[str] = Counter()
    ports = {port for _, port in cluster.addresses}
    peak = 0
    async with whole_gateway(cluster.addresses, max_groups=groups) as gateway:
        idle = connections_to(ports)
        started_s = trio.current_time()
        limit = trio.CapacityLimiter(JOINING_AT_ONCE)
        async with trio.open_nursery() as nursery:
            for number in range(groups):
                nursery.start_soon(join, gateway.address, f"bench-{number}", limit)
        took_s = trio.current_time() - started_s
        print(f"{groups} groups anchored in {took_s:.1f} s, {groups / took_s:.0f} per second")
        await trio.sleep(2)
        with counted_requests(requests):
            started_s, cpu_s = trio.current_time(), time.process_time()
            while trio.current_time() - started_s < WINDOW_S:
                peak = max(peak, connections_to(ports))
                await trio.sleep(1)
            length_s, cpu_s = trio.current_time() - started_s, time.process_time() - cpu_s
    print(f"connections to {len(ports)} brokers: {idle} without groups, {peak} with them")
    for name, count in requests.most_common():
        print(
            f"{name}: {count / length_s:.1f} per second, {count / length_s / len(ports):.1f} each"
        )
    print(f"one core's share for that: {100 * cpu_s / length_s:.1f} %")


def main(*arguments: Any) -> None:
    """One run."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    groups = int(arguments[0]) if arguments else 1_000
    print(f"joins at once per coordinator: {coordinator_connections.JOINS_AT_ONCE_MAX}")
    settings = {"group.initial.rebalance.delay.ms": INITIAL_DELAY_MS}
    with running_kafka(RELEASE, brokers=3, settings=settings) as cluster:
        trio.run(measure, cluster, groups)


if __name__ == "__main__":
    main(*sys.argv[1:])
