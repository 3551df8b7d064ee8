"""Flink's source and sink for Kafka do behind the gateway what they do at the broker: exactly once,
with partitions that it assigns itself."""

from kafka_codecs.apis import ApiKey
from tests.support.applications import (
    MARKS,
    apis_in,
    application_jars,
    check_alike,
    filled_topic,
    printed_lines,
)
from tests.support.kafka_broker import KafkaCluster

pytestmark = MARKS

PROGRAM = "FlinkProgram"
RECORDS = 300


async def test_flink_copies_a_topic_behind_the_gateway_as_at_the_broker(
    kafka: KafkaCluster,
) -> None:
    """Its checkpoints commit transactions and offsets."""
    topic, class_path = await filled_topic(kafka, RECORDS), f"{application_jars('flink')}/*"
    lines, recorder = await check_alike(
        kafka,
        lambda servers, name: printed_lines(PROGRAM, class_path, servers, topic, name, RECORDS),
    )
    assert lines == [f"copied {RECORDS}, values {RECORDS}"]
    assert apis_in(recorder) >= {ApiKey.INIT_PRODUCER_ID, ApiKey.END_TXN, ApiKey.OFFSET_COMMIT}
