"""The embedded upstream: librdkafka's mock cluster, run by a child process.

No other module of the demo knows that the upstream is a mock. It ships inside the confluent-kafka
wheel, but its header calls it test equipment without a stable interface, so the wheel is pinned.
Three of its limits shape the demo:

- A malformed or unlucky request aborts the whole process (null records, several group requests).
  It therefore has its own process, and the parent reports its death.
- It keeps at most 5 MiB and 100,000 batches per partition, and silently drops the oldest.
- An auto-created topic always has four partitions. Only the C interface can choose the number,
  hence ctypes.
"""

import argparse
import ctypes
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import structlog
import trio

from gateway.demo.child import run_child
from gateway.demo.errors import DemoError
from gateway.demo.upstream import DemoCluster

BROKERS = 3
# At 20 bytes a record, 5 MiB hold four minutes of this: no consumer falls behind that far.
RATE_PER_PARTITION_MAX = 1000
_START_LIMIT_S = 15.0
_TOPIC = "numbers"
_GROUP = "demo"
_PRODUCER_HANDLE = 0

log = structlog.get_logger()


@asynccontextmanager
async def embed_cluster(partitions: int) -> AsyncIterator[DemoCluster]:
    """Run the cluster during the block. Raises DemoError as `run` does."""
    async with trio.open_nursery() as nursery:
        bootstrap = await nursery.start(partial(run, topic=_TOPIC, partitions=partitions))
        log.info("embedded_cluster_started", upstream=bootstrap)
        yield DemoCluster(bootstrap=bootstrap, topic=_TOPIC, group=_GROUP)
        nursery.cancel_scope.cancel()


async def run(
    *, topic: str, partitions: int, task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED
) -> None:
    """Run the cluster until cancelled. Reports its bootstrap address when it has started.

    The child is dead and reaped when this returns. Raises DemoError if it does not start in time,
    or dies by itself.
    """
    address = ""
    announced = trio.Event()

    def on_line(line: str) -> None:
        nonlocal address
        address = line
        announced.set()

    async def announce() -> None:
        with trio.move_on_after(_START_LIMIT_S):
            await announced.wait()
            task_status.started(address)
            return
        raise DemoError(f"the embedded cluster did not start within {_START_LIMIT_S:.0f} s")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(announce)
        child = await run_child(
            __name__,
            [f"--topic={topic}", f"--partitions={partitions}"],
            name="embedded-cluster",
            on_line=on_line,
        )
        raise DemoError(f"the embedded cluster died ({child.describe_exit()})")


def host(topic: str, partitions: int) -> None:
    """The child: start the cluster, print its bootstrap address, and end when stdin ends."""
    library = _librdkafka()
    reason = ctypes.create_string_buffer(512)
    config = library.rd_kafka_conf_new()
    # At the default level librdkafka warns that no bootstrap server is configured.
    library.rd_kafka_conf_set(config, b"log_level", b"4", reason, len(reason))
    client = library.rd_kafka_new(_PRODUCER_HANDLE, config, reason, len(reason))
    if not client:
        raise DemoError(f"librdkafka: {reason.value.decode()}")
    cluster = library.rd_kafka_mock_cluster_new(client, BROKERS)
    if not cluster:
        raise DemoError("librdkafka: no mock cluster")
    error = library.rd_kafka_mock_topic_create(cluster, topic.encode(), partitions, BROKERS)
    if error:
        raise DemoError(f"librdkafka: topic {topic} not created, error {error}")
    sys.stdout.write(library.rd_kafka_mock_cluster_bootstraps(cluster).decode() + "\n")
    sys.stdout.flush()
    while os.read(sys.stdin.fileno(), 1024):
        pass


def _librdkafka() -> Any:
    """The librdkafka that confluent_kafka itself uses, with the few functions needed here.

    A symbol is looked up in the extension and everything it links, so the library in the wheel is
    found without its hashed file name.
    """
    # Imported here because the parent does not need it.
    from confluent_kafka import cimpl

    library = ctypes.CDLL(cimpl.__file__)
    pointer, text = ctypes.c_void_p, ctypes.c_char_p
    number, size = ctypes.c_int, ctypes.c_size_t
    for name, result, arguments in (
        ("rd_kafka_conf_new", pointer, []),
        ("rd_kafka_conf_set", number, [pointer, text, text, text, size]),
        ("rd_kafka_new", pointer, [number, pointer, text, size]),
        ("rd_kafka_mock_cluster_new", pointer, [pointer, number]),
        ("rd_kafka_mock_topic_create", number, [pointer, text, number, number]),
        ("rd_kafka_mock_cluster_bootstraps", text, [pointer]),
    ):
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int, required=True)
    options = parser.parse_args()
    status = 0
    try:
        host(options.topic, options.partitions)
    except DemoError as refusal:
        sys.stderr.write(f"{refusal}\n")
        sys.stderr.flush()
        status = 1
    # Everything is in memory and nobody reads it again. The interpreter's own cleanup would wait
    # for librdkafka's threads.
    os._exit(status)
