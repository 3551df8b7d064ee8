"""Events in a topic give the same tables as those in files, in a batch and in a killed stream."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio
from confluent_kafka import KafkaError, Message, Producer

from gateway.addresses import parse_addresses
from gateway.pipeline.tables import FOLDED_TABLES
from tests.support.followed_tables import offsets_of
from tests.support.group_client import fresh_group, group_client
from tests.support.kafka_broker import KafkaCluster, running_kafka
from tests.support.ports import HOST, free_port
from tests.support.serve_process import serving
from tests.support.stored_tables import table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from gateway.pipeline.topic import EventsTopic

pytestmark = pytest.mark.kafka

CHILD_S_MAX = 300
GATEWAY_S_MAX = 60
LOOK_INTERVAL_S = 0.1
BAD_RECORDS = (None, b"\xff\xfe\x00", b"{}")
BAD_LINES = ["", "\ufffd\ufffd\x00", "{}"]
KILLED_IN_A_ROUND = """
import os, signal, sys
from gateway.cli import main
from gateway.pipeline.following import Following
put = Following._put
def put_and_die(self, *given):
    put(self, *given)
    os.kill(os.getpid(), signal.SIGKILL)
Following._put = put_and_die
main(sys.argv[1:])
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayEvents:
    """A gateway's events, in a topic and in files."""

    cluster: KafkaCluster
    topic: str
    files: Path

    @property
    def lines(self) -> list[str]:
        return "".join(file.read_text() for file in sorted(self.files.iterdir())).splitlines()

    def of(self, name: str) -> EventsTopic:
        """A topic of the same cluster."""
        from gateway.pipeline.topic import EventsTopic  # needs PySpark

        return EventsTopic(name=name, upstream=parse_addresses(self.cluster.bootstrap_servers))

    def produce(self, topic: str, records: Sequence[bytes | None]) -> list[int | None]:
        """Write these to the first partition of a topic, in order. Returns their offsets."""
        producer, offsets = Producer({"bootstrap.servers": self.cluster.bootstrap_servers}), []

        def record_offset(_error: KafkaError | None, message: Message) -> None:
            offsets.append(message.offset())

        for record in records:
            producer.produce(topic, record, partition=0, on_delivery=record_offset)
        producer.flush()
        return offsets


@pytest.fixture(scope="module")
def gateway_events(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayEvents]:
    """Two groups have migrated to the native protocol."""
    folder = tmp_path_factory.mktemp("state")
    with running_kafka("4.3", brokers=1) as cluster:
        trio.run(partial(play, cluster, folder, "events"))
        yield GatewayEvents(cluster=cluster, topic="events", files=folder / "events")


async def play(cluster: KafkaCluster, folder: Path, topic: str) -> None:
    with trio.fail_after(GATEWAY_S_MAX):
        flag = f"--events-topic={topic}"
        async with serving(cluster.bootstrap_servers, folder, flag) as gateway:
            for group in (fresh_group("a"), fresh_group("b")):
                async with group_client(gateway.address, group) as client:
                    classic = await client.enter()
                    assert (await client.native("n")).error_code == 0
                    await client.leave(classic.member_id)
                    epoch = (await client.native("n")).member_epoch
                    await client.commit({0: 5}, member_id="n", epoch=epoch)
            assert await gateway.terminate() == 0


def tables(spark: SparkSession, lines: DataFrame, output: Path) -> dict[str, Counter[Any]]:
    """The number of equal rows in a batch's tables."""
    from gateway.pipeline.folder import Folder
    from gateway.pipeline.spark.folding import make_on_spark  # needs PySpark

    make_on_spark(spark, lines, Folder(str(output)), top=1)
    return {name: rows(table(spark, output, name)) for name in FOLDED_TABLES}


def rows(stored: DataFrame) -> Counter[Any]:
    return Counter(map(repr, stored.drop("bucket", "cluster", "day").collect()))


def test_a_batch_of_a_topic_equals_one_of_its_files(
    spark: SparkSession, gateway_events: GatewayEvents, tmp_path: Path
) -> None:
    """The tables are equal row by row. Garbage changes nothing, and is reported with its place: a
    record without a value, one that is not text, and other JSON; in addition a line of a file."""
    from gateway.pipeline.sources import Sources  # needs PySpark
    from gateway.pipeline.spark.inputs import lines_of

    of_files = lines_of(spark, Sources(inputs=[str(gateway_events.files)]))
    expected = tables(spark, of_files, tmp_path / "of-files")
    for name in ("groups", "ownership", "handovers", "clients"):
        assert expected[name], name
    expected.pop("unread")

    file = tmp_path / "file"
    file.write_text("\nno event\n")
    offsets = gateway_events.produce(gateway_events.topic, BAD_RECORDS)
    places = {f"offset {offset}" for offset, line in zip(offsets, BAD_LINES, strict=True) if line}
    lines = lines_of(
        spark, Sources(inputs=[str(file)], topic=gateway_events.of(gateway_events.topic))
    )
    made = tables(spark, lines, tmp_path / "of-topic")
    unread = [row for row in made.pop("unread") if "kind='line'" in row]
    assert len(unread) == 1 + len(places)
    assert all(any(f"place='{place}'" in row for row in unread) for place in (*places, "line 2"))
    assert made == expected


def test_a_killed_follow_equals_a_report(
    spark: SparkSession, gateway_events: GatewayEvents, tmp_path: Path
) -> None:
    """The command is killed with SIGKILL while it writes its first round, and continues with later
    events. Places are compared as well."""
    from gateway.pipeline.sources import Sources  # needs PySpark
    from gateway.pipeline.spark.inputs import lines_of

    name, output = fresh_group("followed"), tmp_path / "out"
    records = [line.encode() for line in gateway_events.lines]
    half = len(records) // 2
    gateway_events.produce(name, [*records[:half], *BAD_RECORDS])
    run = command(gateway_events, name, output, "--follow", "--interval=1")
    killed = [sys.executable, "-c", KILLED_IN_A_ROUND, *run[run.index("report") :]]
    ended = subprocess.run(killed, timeout=CHILD_S_MAX, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert not offsets_of(output)
    ends = gateway_events.produce(name, records[half - 2 :])
    with running_process(run) as child:
        wait_until(child, lambda: offsets_of(output) == {f"kafka:{name}/0": (ends[-1] or 0) + 1})
        child.terminate()
        assert child.wait() == 128 + signal.SIGTERM
    streamed = {name: rows(table(spark, output, name)) for name in FOLDED_TABLES}
    sources = Sources(topic=gateway_events.of(name))
    assert streamed == tables(spark, lines_of(spark, sources), tmp_path / "at-once")
    assert streamed["ownership"]
    bad = [row for row in streamed["unread"] if "kind='line'" in row]
    assert len(bad) == sum(map(bool, BAD_LINES))


@contextmanager
def running_process(run: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is killed at the end of the block, if it has not ended."""
    with subprocess.Popen(run) as child:
        try:
            yield child
        finally:
            child.kill()


def wait_until(child: subprocess.Popen[bytes], condition: Callable[[], bool]) -> None:
    until_s = time.monotonic() + CHILD_S_MAX
    while not condition():
        assert child.poll() is None
        assert time.monotonic() < until_s
        time.sleep(LOOK_INTERVAL_S)


def command(gateway_events: GatewayEvents, topic: str, output: Path, *flags: str) -> list[str]:
    servers = gateway_events.cluster.bootstrap_servers
    named = [f"--events-topic={topic}", f"--upstream={servers}", f"--output={output}"]
    return [sys.executable, "-m", "gateway", "report", *named, *flags]


def refusal(arguments: Sequence[str]) -> str:
    """The only line on stderr."""
    ended = subprocess.run(
        arguments, capture_output=True, text=True, timeout=CHILD_S_MAX, check=False
    )
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    return line


def test_a_missing_topic_is_reported(gateway_events: GatewayEvents, tmp_path: Path) -> None:
    """The look-up does not create it."""
    name = fresh_group("nowhere")
    for _ in range(2):
        line = refusal(command(gateway_events, name, tmp_path / "out"))
        servers = gateway_events.cluster.bootstrap_servers
        assert line.startswith(f"groupferry: topic {name} at {servers}: there is no such topic")


def test_a_missing_cluster_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The report takes no longer than one look-up."""
    from gateway.pipeline import (
        PipelineError,
        topic,  # needs PySpark
    )

    monkeypatch.setattr(topic, "CLUSTER_TIMEOUT_S", 0.5)
    nowhere = topic.EventsTopic(name="events", upstream=parse_addresses(f"{HOST}:{free_port()}"))
    with pytest.raises(PipelineError, match=r"^topic events at .*transport failure$"):
        nowhere.spans()
