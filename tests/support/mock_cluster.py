"""librdkafka's mock cluster in a child process, whose program is `mock_cluster_process.py`."""

import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from functools import partial
from pathlib import Path
from subprocess import PIPE

import trio

Address = tuple[str, int]

_PROGRAM = Path(__file__).with_name("mock_cluster_process.py")


class MockCluster:
    """A running mock cluster."""

    def __init__(self, process: trio.Process, lines: AsyncIterator[str]) -> None:
        self._process = process
        self._lines = lines
        self.bootstrap: list[Address] = []

    async def start(self) -> None:
        """Read the bootstrap addresses."""
        for address in (await anext(self._lines)).split(","):
            host, _, port = address.rpartition(":")
            self.bootstrap.append((host, int(port)))

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self.bootstrap)

    async def create_topic(self, name: str, partitions: int) -> None:
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
        process = await nursery.start(run, [sys.executable, _PROGRAM, str(brokers)])
        assert process.stdin
        assert process.stdout
        async with process.stdin, process.stdout, aclosing(_lines(process.stdout)) as lines:
            cluster = MockCluster(process, lines)
            await cluster.start()
            yield cluster
            nursery.cancel_scope.cancel()


async def _lines(stdout: trio.abc.ReceiveStream) -> AsyncGenerator[str]:
    rest = b""
    async for chunk in stdout:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line.decode()
