"""A cluster of its own for the story: one broker of an Apache Kafka that the user has.

The embedded cluster has no coordinator that could hand a group over.
"""

import argparse
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import structlog
import trio

from gateway.addresses import parse_addresses
from gateway.demo.borrowed_cluster import borrow_cluster, random_prefix
from gateway.demo.child import run_child
from gateway.demo.errors import DemoError
from gateway.demo.upstream import DemoCluster

START_LIMIT_S = 90.0
_LOOK_INTERVAL_S = 0.1
_CLUSTER_ID = "groupferry-demo-kafkaQ"
_PR_SET_PDEATHSIG = 1

log = structlog.get_logger()


def why_not(home: Path | None) -> str | None:
    """What is missing for a cluster of its own, in one line; None if nothing is."""
    if home is None:
        return "give --upstream, or --kafka-home with a folder of Apache Kafka (KAFKA_HOME)"
    if not any((home / "libs").glob("kafka_*.jar")):
        return (
            f"there is no Apache Kafka in {home}: it has no libs/kafka_*.jar;"
            " give another --kafka-home"
        )
    if shutil.which("java") is None:
        return "Apache Kafka needs java, which is not on the PATH; or give --upstream"
    return None


@asynccontextmanager
async def own_kafka(home: Path, partitions: int) -> AsyncIterator[DemoCluster]:
    """Run the broker during the block, with a topic. Raises DemoError."""
    async with trio.open_nursery() as nursery:
        bootstrap: str = await nursery.start(_run, home)
        log.info("kafka_started", upstream=bootstrap, home=f"{home}")
        async with borrow_cluster(
            parse_addresses(bootstrap), random_prefix(), partitions
        ) as upstream:
            yield upstream
        nursery.cancel_scope.cancel()


async def _run(home: Path, task_status: trio.TaskStatus[str]) -> None:
    bootstraps: list[str] = []
    announced = trio.Event()

    def on_line(line: str) -> None:
        bootstraps.append(line)
        announced.set()

    async def announce() -> None:
        with trio.move_on_after(START_LIMIT_S):
            await announced.wait()
            task_status.started(bootstraps[0])
            return
        raise DemoError(f"Apache Kafka did not start within {START_LIMIT_S:.0f} s")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(announce)
        child = await run_child(__name__, [f"--home={home}"], name="kafka", on_line=on_line)
        raise DemoError(f"Apache Kafka ended ({child.describe_exit()})")


def host(home: Path, folder: Path) -> None:
    """The child: start the broker, print its address, and end when stdin ends."""
    port, controller_port = _free_ports()
    settings = folder / "server.properties"
    settings.write_text(
        "process.roles=broker,controller\n"
        "node.id=1\n"
        f"controller.quorum.voters=1@127.0.0.1:{controller_port}\n"
        "controller.listener.names=CONTROLLER\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
        f"listeners=CONTROLLER://127.0.0.1:{controller_port},PLAINTEXT://127.0.0.1:{port}\n"
        f"log.dirs={folder / 'data'}\n"
        "offsets.topic.replication.factor=1\n"
        "offsets.topic.num.partitions=1\n"
        "transaction.state.log.replication.factor=1\n"
        "transaction.state.log.min.isr=1\n"
        "group.initial.rebalance.delay.ms=500\n"
    )
    java = ["java", "-Xmx512m", "-cp", f"{home / 'libs'}/*"]
    format_it = [*java, "kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", f"{settings}"]
    subprocess.run(format_it, stdout=subprocess.DEVNULL, check=True)  # noqa: S603  # the user's own Kafka
    with subprocess.Popen(  # noqa: S603  # the user's own Kafka
        [*java, "kafka.Kafka", f"{settings}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=_die_with_parent,  # noqa: PLW1509  # this process may be killed
    ) as broker:
        while not _is_open(port):
            if broker.poll() is not None:
                raise DemoError(f"the broker ended with exit status {broker.returncode}")
            time.sleep(_LOOK_INTERVAL_S)
        sys.stdout.write(f"127.0.0.1:{port}\n")
        sys.stdout.flush()
        while os.read(sys.stdin.fileno(), 1024):
            pass
        broker.kill()


def _free_ports() -> tuple[int, int]:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as b:
        return one.getsockname()[1], b.getsockname()[1]


def _is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--home", type=Path, required=True)
    options = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="groupferry-demo-kafka-") as name:
            host(options.home, Path(name))
    except (DemoError, subprocess.CalledProcessError, OSError) as failure:
        sys.exit(f"{failure}")
