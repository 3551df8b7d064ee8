"""Spark's source and sink for Kafka do behind the gateway what they do at the broker: a stream in
two runs, and a batch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from kafka_codecs.apis import ApiKey
from tests.support.applications import MARKS, apis_in, check_alike, filled_topic
from tests.support.kafka_broker import KafkaCluster
from tests.support.spark import kafka_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = MARKS

RECORDS = 300


def copy(records: DataFrame, servers: str, topic: str, checkpoint: Path) -> None:
    """Copy what a stream has so far to a topic, and stop."""
    query = (
        records.selectExpr("value")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", topic)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def count_records(records: DataFrame) -> str:
    """How many records a batch has, and how many values."""
    return f"{records.count()} records, {records.select('value').distinct().count()} values"


async def test_spark_copies_a_topic_behind_the_gateway_as_at_the_broker(
    kafka: KafkaCluster, spark: SparkSession, tmp_path: Path
) -> None:
    """A second run of the stream begins where the first one ended."""
    topic = await filled_topic(kafka, RECORDS)

    def play(servers: str, name: str) -> Sequence[str]:
        for jar in kafka_source():
            spark.sql(f"ADD JAR '{jar}'")  # seen by this thread only
        of_cluster = {"kafka.bootstrap.servers": servers, "startingOffsets": "earliest"}
        stream = (
            spark.readStream.format("kafka")
            .options(**of_cluster, subscribe=topic, maxOffsetsPerTrigger="100")
            .load()
        )
        lines = []
        for _ in range(2):
            copy(stream, servers, name, tmp_path / name)
            batch = spark.read.format("kafka").options(**of_cluster, subscribe=name).load()
            lines.append(count_records(batch))
        return lines

    async def run(servers: str, name: str) -> Sequence[str]:
        await kafka.make_topic(name)
        return await trio.to_thread.run_sync(play, servers, name)

    lines, recorder = await check_alike(kafka, run)
    assert set(lines) == {f"{RECORDS} records, {RECORDS} values"}
    assert apis_in(recorder) >= {ApiKey.LIST_OFFSETS, ApiKey.FETCH, ApiKey.PRODUCE}
