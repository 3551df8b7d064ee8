"""A Kafka Connect cluster is inserted worker by worker, with the gateway's defaults.

The consumers of one sink then connect to the cluster itself and to the gateway, and a new sink's
group is empty. A consumer that the cluster refuses would leave its task FAILED for good.
"""

import shutil
from functools import partial
from pathlib import Path

import pytest
import trio

from gateway.settings import Settings
from tests.support.connect_worker import Worker, running_worker
from tests.support.gateway import whole_gateway
from tests.support.group_client import fresh_group
from tests.support.installs import install_once, run
from tests.support.kafka_broker import FETCH_TIMEOUT_S, TOPIC, KafkaCluster
from tests.support.kafka_jars import kafka_jars
from tests.support.releases import NEWEST, on_release
from tests.support.requirements import missing

SOURCE = Path(__file__).parent.parent / "support" / "connect" / "LinesSink.java"
SINK = "LinesSink"
SINKS, TASKS = 4, 2
SETTLED_S = 5
"""By then every consumer has joined its group, or was refused."""
LIMIT_S = 420

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S + LIMIT_S)]


def connect_classes(release: str) -> str:
    """The class path of a worker with the sink."""
    jars = kafka_jars(release)
    javac = shutil.which("javac")
    if javac is None:
        missing("the sink needs a JDK")

    def compile_sink(folder: Path) -> None:
        run([javac, "--release", "17", "-cp", f"{jars}/*", "-d", f"{folder}", f"{SOURCE}"])

    return f"{jars}/*:{install_once('connect-sink', SOURCE.read_bytes(), compile_sink)}"


async def add_sink(worker: Worker, name: str, file: Path) -> None:
    """Create a connector."""
    config = {
        "connector.class": SINK,
        "tasks.max": f"{TASKS}",
        "topics": TOPIC,
        "file": f"{file}",
    }
    await worker.must(f"/connectors/{name}/config", config)


@on_release(NEWEST)  # it takes more than a minute
async def test_a_connect_cluster_is_inserted_worker_by_worker(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    """New sinks run while some of their tasks are behind the gateway and some are not, and continue
    once all are."""
    class_path = await trio.to_thread.run_sync(connect_classes, kafka.release)
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
                until_running = partial(worker.until_running, names, tasks_each=TASKS)
                for name in names:
                    await add_sink(worker, name, tmp_path / name)
                await until_running(workers=2)
                await trio.sleep(SETTLED_S)
                await until_running(workers=2)
            async with start(gateway.bootstrap_servers, folder=tmp_path / "second"):
                await until_running(workers=2)
                await trio.sleep(SETTLED_S)
                await until_running(workers=2)
            assert "group_created" not in [event.name for event in gateway.events]
