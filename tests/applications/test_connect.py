"""Kafka Connect does behind the gateway what it does at the broker: a source that writes exactly
once, a sink, and their offsets by REST."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import trio

from kafka_codecs.apis import ApiKey
from tests.support.applications import (
    LIMIT_S,
    apis_in,
    check_alike,
    connect_class_path,
)
from tests.support.connect_worker import Worker, running_worker
from tests.support.kafka_broker import FETCH_TIMEOUT_S, KafkaCluster
from tests.support.until import until, until_answered

LIMIT_OF_TEST_S = 2 * LIMIT_S
pytestmark = [
    pytest.mark.kafka,
    pytest.mark.applications,
    pytest.mark.timeout(FETCH_TIMEOUT_S + LIMIT_OF_TEST_S),
]

LINES = 200
EXACTLY_ONCE = {"exactly.once.source.support": "enabled"}


async def until_lines(file: Path, count: int) -> Counter[str]:
    """Wait until a sink has written this many lines. Returns how often it has written each."""
    await until(lambda: len(lines_in(file)) >= count)
    return Counter(lines_in(file))


def lines_in(file: Path) -> list[str]:
    """The lines of a file; none if there is no file yet."""
    return file.read_text().splitlines() if file.exists() else []


async def until_state(worker: Worker, name: str, state: str) -> None:
    """Wait until a connector is in a state."""
    await until_answered(
        lambda: worker.must(f"/connectors/{name}/status"),
        lambda status: status["connector"]["state"] == state,
    )


def sum_of(offsets: Any) -> int:
    """The sum of the positions in an answer about the offsets of a connector. Which partition a
    line is in is random."""
    return sum(value for one in offsets["offsets"] for value in one["offset"].values())


async def play(worker: Worker, name: str, folder: Path) -> Sequence[str]:
    """Copy a file through a topic, and again after its offsets were reset."""
    source, sink, messages = f"{name}-source", f"{name}-sink", []
    written, read = folder / "written", folder / "read"
    written.write_text("".join(f"line {number}\n" for number in range(LINES)))
    reading = {
        "connector.class": "FileStreamSource",
        "tasks.max": "1",
        "topic": name,
        "file": f"{written}",
        "exactly.once.support": "required",
        "transaction.boundary": "poll",
    }
    writing = {
        "connector.class": "FileStreamSink",
        "tasks.max": "1",
        "topics": name,
        "file": f"{read}",
        "consumer.override.isolation.level": "read_committed",
        "consumer.override.metadata.max.age.ms": "1000",
    }
    await worker.must(f"/connectors/{source}/config", reading)
    await worker.must(f"/connectors/{sink}/config", writing)
    copied = await until_lines(read, LINES)
    messages.append(f"{len(copied)} lines, each {set(copied.values())} times")
    await worker.until_running([source, sink], tasks_each=1, workers=1)
    for connector in (source, sink):
        await worker.must(f"/connectors/{connector}/stop", {})
        await until_state(worker, connector, "STOPPED")
        offsets = await worker.must(f"/connectors/{connector}/offsets")
        messages.append(f"positions {sum_of(offsets)}")
    partition = {"filename": f"{written}"}
    halfway = {"partition": partition, "offset": {"position": len("line 0\n") * 10}}
    changed = await worker.must(
        f"/connectors/{source}/offsets", {"offsets": [halfway]}, method="PATCH"
    )
    deleted = await worker.must(f"/connectors/{sink}/offsets", method="DELETE")
    messages += [answer["message"].replace(name, "<name>") for answer in (changed, deleted)]
    for connector in (source, sink):
        await worker.must(f"/connectors/{connector}/resume", {})
    copied = await until_lines(read, LINES + LINES + LINES - 10)
    messages.append(f"{len(copied)} lines, {sorted(Counter(copied.values()).items())}")
    for connector in (source, sink):
        await worker.ask(f"/connectors/{connector}", method="DELETE")
    return messages


async def test_connect_copies_a_file_behind_the_gateway_as_at_the_broker(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    """A stopped sink's group is deleted, and its records are read again."""
    class_path = connect_class_path()

    async def run(servers: str, name: str) -> Sequence[str]:
        folder = tmp_path / name
        worker = running_worker(
            servers, cluster_id=name, class_path=class_path, folder=folder, more=EXACTLY_ONCE
        )
        with trio.fail_after(LIMIT_OF_TEST_S):
            async with worker as started:
                return await play(started, f"{name}-lines", folder)

    lines, recorder = await check_alike(kafka, run)
    assert lines[0] == f"{LINES} lines, each {{1}} times"
    assert apis_in(recorder) >= {ApiKey.JOIN_GROUP, ApiKey.INIT_PRODUCER_ID, ApiKey.END_TXN}
