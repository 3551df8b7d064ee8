"""Listeners of Spring Kafka do behind the gateway what they do at the broker, with either protocol,
in transactions, some of which are rolled back."""

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
from tests.support.releases import with_new_protocol

pytestmark = MARKS

PROGRAM = "SpringProgram"
RECORDS = 60


async def check_spring(kafka: KafkaCluster, protocol: str) -> None:
    """Every record is copied once, also those that failed at first."""
    topic, class_path = await filled_topic(kafka, RECORDS), f"{application_jars('spring')}/*"
    options = (RECORDS, protocol)
    lines, recorder = await check_alike(
        kafka,
        lambda servers, name: printed_lines(PROGRAM, class_path, servers, topic, name, *options),
    )
    assert lines[0] == f"copied {RECORDS}, values {RECORDS}, failed {RECORDS // 10}"
    assert apis_in(recorder) >= {ApiKey.TXN_OFFSET_COMMIT, ApiKey.END_TXN}


async def test_spring_copies_a_topic_behind_the_gateway_as_at_the_broker(
    kafka: KafkaCluster,
) -> None:
    await check_spring(kafka, "classic")


@with_new_protocol()
async def test_spring_copies_with_the_new_protocol_as_at_the_broker(kafka: KafkaCluster) -> None:
    await check_spring(kafka, "consumer")
