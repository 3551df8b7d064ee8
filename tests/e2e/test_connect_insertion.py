"""A Kafka Connect cluster is inserted worker by worker, with the gateway's defaults.

The consumers of one sink then connect to the cluster itself and to the gateway, and a new sink's
group is empty. A consumer that the cluster refuses would leave its task FAILED for good.
"""

import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest
import trio

from gateway.settings import Settings
from tests.support.gateway import whole_gateway
from tests.support.group_client import fresh_group
from tests.support.installs import installed
from tests.support.kafka_broker import FETCH_TIMEOUT_S, TOPIC, KafkaCluster
from tests.support.kafka_jars import copy_jars, kafka_jars
from tests.support.ports import HOST, free_port
from tests.support.releases import on_release

POM = Path(__file__).parent.parent / "support" / "connect" / "pom.xml"
WORKER = "org.apache.kafka.connect.cli.ConnectDistributed"
CONVERTER = "org.apache.kafka.connect.storage.StringConverter"
SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
SINKS, TASKS = 4, 2
QUICK_START = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
SETTLED_S = 5
"""By then every consumer has joined its group, or was refused."""
LIMIT_S = 180
LOOK_INTERVAL_S = 0.5
REST_TIMEOUT_S = 20

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S + LIMIT_S)]


def connect_jars(release: str) -> str:
    """The class path of a worker with the sink."""
    jars = kafka_jars(release)
    (clients,) = jars.glob("kafka-clients-*.jar")
    version = clients.stem.removeprefix("kafka-clients-")
    choices = [f"-Dkafka.version={version}", "-DexcludeTransitive=true"]
    source = POM.read_bytes() + version.encode()
    sinks = installed("connect-file", source, partial(copy_jars, POM, choices))
    return f"{jars}/*:{sinks}/*"


@dataclass(frozen=True)
class Worker:
    """A worker of the Connect cluster."""

    port: int

    async def ask(self, path: str, body: object = None) -> Any:
        """The answer of its REST API; None if there is none, as during a rebalance."""
        data = None if body is None else json.dumps(body).encode()
        request = Request(  # a worker of the test
            f"http://{HOST}:{self.port}{path}",
            data=data,
            headers={"Content-Type": "application/json"},
            method="GET" if body is None else "PUT",
        )

        def send() -> Any:
            try:
                with urlopen(request, timeout=REST_TIMEOUT_S) as answer:
                    return json.load(answer)
            except (URLError, TimeoutError, ConnectionError):
                return None

        return await trio.to_thread.run_sync(send)

    async def add_sink(self, name: str, file: Path) -> None:
        """Create a connector."""
        config = {
            "connector.class": SINK,
            "tasks.max": f"{TASKS}",
            "topics": TOPIC,
            "file": f"{file}",
        }
        while await self.ask(f"/connectors/{name}/config", config) is None:
            await trio.sleep(LOOK_INTERVAL_S)

    async def until_running(self, names: list[str], workers: int) -> None:
        """Wait until all tasks of these sinks run, on so many workers. None may have failed."""
        while True:
            tasks: list[dict[str, str]] = []
            for name in names:
                status = await self.ask(f"/connectors/{name}/status")
                tasks += [] if status is None else status["tasks"]
            failed = [task["trace"] for task in tasks if task["state"] == "FAILED"]
            assert failed == []
            running = [task["worker_id"] for task in tasks if task["state"] == "RUNNING"]
            if len(running) == TASKS * len(names) and len(set(running)) == workers:
                return
            await trio.sleep(LOOK_INTERVAL_S)


def write_settings(servers: str, cluster_id: str, port: int, folder: Path) -> Path:
    """The settings of a worker, as a file in a folder of its own."""
    folder.mkdir()
    settings: dict[str, object] = {
        "bootstrap.servers": servers,
        "group.id": cluster_id,
        "listeners": f"http://{HOST}:{port}",
        "rest.advertised.host.name": HOST,
        "rest.advertised.port": port,
        "key.converter": CONVERTER,
        "value.converter": CONVERTER,
        "scheduled.rebalance.max.delay.ms": 0,
        "offset.storage.partitions": 1,
        "status.storage.partitions": 1,
    }
    for name in ("config", "offset", "status"):
        settings[f"{name}.storage.topic"] = f"{cluster_id}-{name}"
        settings[f"{name}.storage.replication.factor"] = 1
    file = folder / "worker.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return file


@asynccontextmanager
async def running_worker(
    servers: str, *, cluster_id: str, class_path: str, folder: Path
) -> AsyncIterator[Worker]:
    """A worker for the length of the block."""
    worker = Worker(free_port())
    settings = write_settings(servers, cluster_id, worker.port, folder)
    command = ["java", *QUICK_START, "-cp", class_path, WORKER, f"{settings}"]
    with (folder / "log").open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)  # noqa: ASYNC220
        try:
            while await worker.ask("/connectors") is None:
                assert process.poll() is None, f"see {folder}/log"
                await trio.sleep(LOOK_INTERVAL_S)
            yield worker
        finally:
            process.terminate()
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(process.wait)


@on_release("3.9")  # not every mirror has the newest sink
async def test_a_connect_cluster_is_inserted_worker_by_worker(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    """New sinks run while some of their tasks are behind the gateway and some are not, and go on
    once all are."""
    class_path = await trio.to_thread.run_sync(connect_jars, kafka.release)
    cluster_id = fresh_group("connect")
    default = Settings.model_fields["groups_host"].default
    names = [f"{cluster_id}-{number}" for number in range(SINKS)]
    start = partial(running_worker, cluster_id=cluster_id, class_path=class_path)
    with trio.fail_after(LIMIT_S):
        async with (
            whole_gateway(kafka.addresses, host_patterns=default, max_groups=64) as gateway,
            start(gateway.bootstrap_servers, folder=tmp_path / "first") as worker,
        ):
            async with start(kafka.bootstrap_servers, folder=tmp_path / "direct"):
                for name in names:
                    await worker.add_sink(name, tmp_path / name)
                await worker.until_running(names, workers=2)
                await trio.sleep(SETTLED_S)
                await worker.until_running(names, workers=2)
            async with start(gateway.bootstrap_servers, folder=tmp_path / "second"):
                await worker.until_running(names, workers=2)
                await trio.sleep(SETTLED_S)
                await worker.until_running(names, workers=2)
            assert "group_created" not in [event.name for event in gateway.events]
