"""Workers of Kafka Connect, and their REST api."""

import json
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Literal
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import trio

from tests.support.ports import HOST, free_port
from tests.support.until import until_answered

WORKER = "org.apache.kafka.connect.cli.ConnectDistributed"
CONVERTER = "org.apache.kafka.connect.storage.StringConverter"
QUICK_START = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
REST_TIMEOUT_S = 20

Method = Literal["GET", "PUT", "PATCH", "DELETE"]


@dataclass(frozen=True)
class Worker:
    """A worker of the Connect cluster."""

    port: int

    async def ask(self, path: str, body: object = None, method: Method | None = None) -> Any:
        """The answer of its REST api; None if there is none, as during a rebalance. A body is PUT,
        unless another method is named."""
        data = None if body is None else json.dumps(body).encode()
        request = Request(  # a worker of the test
            f"http://{HOST}:{self.port}{path}",
            data=data,
            headers={"Content-Type": "application/json"},
            method=method or ("GET" if body is None else "PUT"),
        )

        def send() -> Any:
            try:
                with urlopen(request, timeout=REST_TIMEOUT_S) as answer:
                    return json.loads(answer.read() or b"{}")
            except (URLError, TimeoutError, ConnectionError) as failure:
                if isinstance(failure, HTTPError) and failure.code == HTTPStatus.BAD_REQUEST:
                    raise AssertionError(failure.read()) from failure
                return None

        return await trio.to_thread.run_sync(send)

    async def must(self, path: str, body: object = None, method: Method | None = None) -> Any:
        """The answer of its REST api, asked for until there is one."""
        return await until_answered(
            lambda: self.ask(path, body, method), lambda answer: answer is not None
        )

    async def until_running(self, names: list[str], *, tasks_each: int, workers: int) -> None:
        """Wait until all tasks of these connectors run, on this many workers. None may have
        failed."""

        async def are_running() -> bool:
            tasks: list[dict[str, str]] = []
            for name in names:
                status = await self.ask(f"/connectors/{name}/status")
                tasks += [] if status is None else status["tasks"]
            failed = [task["trace"] for task in tasks if task["state"] == "FAILED"]
            assert failed == []
            running = [task["worker_id"] for task in tasks if task["state"] == "RUNNING"]
            return len(running) == tasks_each * len(names) and len(set(running)) == workers

        await until_answered(are_running)


def write_settings(
    servers: str, cluster_id: str, port: int, folder: Path, more: Mapping[str, object]
) -> Path:
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
        **more,
    }
    for name in ("config", "offset", "status"):
        settings[f"{name}.storage.topic"] = f"{cluster_id}-{name}"
        settings[f"{name}.storage.replication.factor"] = 1
    file = folder / "worker.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return file


@asynccontextmanager
async def running_worker(
    servers: str,
    *,
    cluster_id: str,
    class_path: str,
    folder: Path,
    more: Mapping[str, object] | None = None,
) -> AsyncIterator[Worker]:
    """A worker for the length of the block; `more` are settings of its own."""
    worker = Worker(free_port())
    settings = write_settings(servers, cluster_id, worker.port, folder, more or {})
    command = ["java", *QUICK_START, "-cp", class_path, WORKER, f"{settings}"]
    with (folder / "log").open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)  # noqa: ASYNC220
        try:

            async def is_started() -> bool:
                assert process.poll() is None, f"see {folder}/log"
                return await worker.ask("/connectors") is not None

            await until_answered(is_started)
            yield worker
        finally:
            process.terminate()
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(process.wait)
