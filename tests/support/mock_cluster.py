"""librdkafka's mock cluster in a child process.

As a script this module is that child. It prints the bootstrap addresses, then reads one command per
line from its standard input and answers each with one line, until the input ends.
"""

import ctypes
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from subprocess import PIPE
from typing import Any

import trio

Address = tuple[str, int]


class MockCluster:
    """A running mock cluster."""

    def __init__(self, process: trio.Process) -> None:
        self._process = process
        self._lines = _lines(process)
        self.bootstrap: list[Address] = []

    async def start(self) -> None:
        """Read the bootstrap addresses."""
        for address in (await anext(self._lines)).split(","):
            host, _, port = address.rpartition(":")
            self.bootstrap.append((host, int(port)))

    @property
    def bootstrap_servers(self) -> str:
        """The address that clients use."""
        return ",".join(f"{host}:{port}" for host, port in self.bootstrap)

    async def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic on every broker."""
        await self._command(f"topic {name} {partitions}")

    async def set_down(self, node_id: int) -> None:
        """Close a broker's port and its connections."""
        await self._command(f"down {node_id}")

    async def set_up(self, node_id: int) -> None:
        """Let a broker listen again."""
        await self._command(f"up {node_id}")

    async def set_host_port(self, node_id: int, host: str, port: int) -> None:
        """Change the address that the cluster names for a broker."""
        await self._command(f"address {node_id} {host} {port}")

    async def claim_versions(self, api_key: int, versions: range) -> None:
        """Make the cluster advertise these versions of an api, supported or not."""
        await self._command(f"versions {api_key} {versions[0]} {versions[-1]}")

    async def add_broker(self, node_id: int) -> None:
        """Add a broker to the cluster."""
        await self._command(f"broker {node_id}")

    async def _command(self, line: str) -> None:
        assert self._process.stdin
        await self._process.stdin.send_all(f"{line}\n".encode())
        answer = await anext(self._lines)
        assert answer == "0", f"{line}: error {answer}"


@asynccontextmanager
async def running_mock_cluster(brokers: int = 3) -> AsyncIterator[MockCluster]:
    """Run a mock cluster in a child process for the length of the block."""
    async with trio.open_nursery() as nursery:
        run = partial(trio.run_process, stdin=PIPE, stdout=PIPE, check=False)
        process = await nursery.start(run, [sys.executable, __file__, str(brokers)])
        cluster = MockCluster(process)
        await cluster.start()
        yield cluster
        nursery.cancel_scope.cancel()


async def _lines(process: trio.Process) -> AsyncIterator[str]:
    assert process.stdout
    kept = b""
    async for chunk in process.stdout:
        *whole, kept = (kept + chunk).split(b"\n")
        for line in whole:
            yield line.decode()


def _library() -> Any:
    # The parent process does not need the library.
    from confluent_kafka import cimpl

    library = ctypes.CDLL(cimpl.__file__)
    pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    for name, result, arguments in (
        ("rd_kafka_conf_new", pointer, []),
        ("rd_kafka_new", pointer, [number, pointer, text, ctypes.c_size_t]),
        ("rd_kafka_mock_cluster_new", pointer, [pointer, number]),
        ("rd_kafka_mock_cluster_bootstraps", text, [pointer]),
        ("rd_kafka_mock_topic_create", number, [pointer, text, number, number]),
        ("rd_kafka_mock_broker_set_down", number, [pointer, ctypes.c_int32]),
        ("rd_kafka_mock_broker_set_up", number, [pointer, ctypes.c_int32]),
        ("rd_kafka_mock_set_apiversion", number, [pointer, *[ctypes.c_int16] * 3]),
        ("rd_kafka_mock_broker_set_host_port", number, [pointer, ctypes.c_int32, text, number]),
        ("rd_kafka_mock_broker_add", number, [pointer, ctypes.c_int32]),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def _obey(library: Any, cluster: Any, brokers: int, words: list[str]) -> int:
    match words:
        case ["topic", name, partitions]:
            done = library.rd_kafka_mock_topic_create(
                cluster, name.encode(), int(partitions), brokers
            )
        case ["down", node_id]:
            done = library.rd_kafka_mock_broker_set_down(cluster, int(node_id))
        case ["up", node_id]:
            done = library.rd_kafka_mock_broker_set_up(cluster, int(node_id))
        case ["address", node_id, host, port]:
            done = library.rd_kafka_mock_broker_set_host_port(
                cluster, int(node_id), host.encode(), int(port)
            )
        case ["versions", api_key, first, last]:
            done = library.rd_kafka_mock_set_apiversion(
                cluster, int(api_key), int(first), int(last)
            )
        case ["broker", node_id]:
            done = library.rd_kafka_mock_broker_add(cluster, int(node_id))
        case _:
            done = -1
    return int(done)


def main() -> None:
    """Run as the child."""
    brokers = int(sys.argv[1])
    library = _library()
    reason = ctypes.create_string_buffer(512)
    client = library.rd_kafka_new(0, library.rd_kafka_conf_new(), reason, len(reason))
    cluster = library.rd_kafka_mock_cluster_new(client, brokers)
    print(library.rd_kafka_mock_cluster_bootstraps(cluster).decode(), flush=True)
    for line in sys.stdin:
        print(_obey(library, cluster, brokers, line.split()), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
