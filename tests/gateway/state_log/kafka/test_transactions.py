"""Transactional writes of the log to librdkafka's mock cluster. test_kafka_log_with_kafka.py tests
fencing and durability with a real cluster."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest
import trio

from gateway.state_log.kafka import transactions
from gateway.state_log.kafka.transactions import (
    Fenced,
    TransactionalWriter,
    transactional_id,
    write_at_once,
)
from gateway.state_log.log import StateLogError
from gateway.state_log.record_format import Entry
from tests.support.mock_cluster import MockCluster, running_mock_cluster

TOPIC = "state"
OPEN_S = 10
LIMIT_S = 60


async def address_config(cluster: MockCluster) -> Mapping[str, Any]:
    """The address of a cluster with the topic."""
    await cluster.create_topic(TOPIC, 1)
    return {"bootstrap.servers": cluster.bootstrap_servers}


async def open_writer(config: Mapping[str, Any]) -> TransactionalWriter:
    """A writer that has fenced all others."""
    writer = TransactionalWriter(config, topic=TOPIC, partition=0, record_bytes_max=1_000_000)
    await trio.to_thread.run_sync(writer.open, OPEN_S)
    return writer


async def write(writer: TransactionalWriter, *values: bytes) -> bool:
    """Write one batch."""
    entries = [Entry(b"key", value) for value in values]
    return await trio.to_thread.run_sync(writer.write, entries)


async def test_a_foreign_record_is_noticed_with_the_next_batch() -> None:
    """A claim is such a record, because any producer may write outside of transactions."""
    with trio.fail_after(LIMIT_S):
        async with running_mock_cluster(1) as cluster:
            config = await address_config(cluster)
            writer = await open_writer(config)
            assert not await write(writer, b"one")
            for number in range(3):  # the mock cluster counts no commit record, but a real one does
                claim = Entry(b"claim", b"%d" % number)
                await trio.to_thread.run_sync(
                    partial(write_at_once, config, {0: [claim]}, topic=TOPIC)
                )
            assert await write(writer, b"two")
            assert not await write(writer, b"three")


async def test_an_oversized_batch_is_an_error_and_the_next_is_written() -> None:
    """Nothing of it is in the log."""
    with trio.fail_after(LIMIT_S):
        async with running_mock_cluster(1) as cluster:
            writer = await open_writer(await address_config(cluster))
            with pytest.raises(StateLogError, match="rejects the"):
                await write(writer, b"small", bytes(17 << 20))
            await write(writer, b"small")


async def test_a_closing_writer_does_not_wait_for_an_outcome() -> None:
    """The gateway ends, and the log shows the outcome of the batch."""
    with trio.fail_after(LIMIT_S):
        async with running_mock_cluster(1) as cluster:
            writer = await open_writer(await address_config(cluster))
            writer.close()
            with pytest.raises(Fenced, match="the gateway is exiting"):
                await write(writer, b"one")
            # The record that is under way has a reference to the writer.
            await trio.to_thread.run_sync(writer._producer.close)


def test_each_partition_has_its_own_transactional_id() -> None:
    """The writers of two logs do not fence each other."""
    ids = {transactional_id("a"), transactional_id("b"), transactional_id("a", 1)}
    assert len(ids) == 3


class CountingProducer:
    """A producer whose flushes are counted."""

    def __init__(self, producer: Any) -> None:
        self._producer = producer
        self.flushes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def flush(self) -> None:
        """Send what waits."""
        self.flushes += 1
        self._producer.flush()


@pytest.mark.parametrize(
    ("limit", "records_max"), [("FLUSH_RECORDS", 2), ("FLUSH_BYTES", 2 * len("key1"))]
)
async def test_a_batch_over_many_partitions_is_sent_in_parts(
    monkeypatch: pytest.MonkeyPatch, limit: str, records_max: int
) -> None:
    """A division of a whole log has few records for each partition, and many in all."""
    monkeypatch.setattr(transactions, limit, records_max)
    with trio.fail_after(LIMIT_S):
        async with running_mock_cluster(1) as cluster:
            await cluster.create_topic(TOPIC, 4)
            config = {"bootstrap.servers": cluster.bootstrap_servers}
            writer = await open_writer(config)
            counting = CountingProducer(writer._producer)
            monkeypatch.setattr(writer, "_producer", counting)
            others = {partition: [Entry(b"key", b"1")] for partition in range(1, 4)}
            await trio.to_thread.run_sync(writer.write, [Entry(b"key", b"1")], others)
            assert counting.flushes == 2
