"""A Streams application with the classic protocol does behind the gateway what it does at the
broker. With its own protocol: tests/gateway/requests/test_other_groups_with_kafka.py."""

from collections.abc import Sequence

import pytest

from kafka_codecs.apis import ApiKey
from tests.support.applications import (
    MARKS,
    apis_in,
    check_alike,
    filled_topic,
    printed_lines,
    streams_class_path,
)
from tests.support.kafka_broker import KafkaCluster
from tests.support.releases import with_new_protocol

pytestmark = MARKS

MIGRATION = "StreamsMigration"
PROGRAM = "StreamsProgram"
RECORDS = 300


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
async def test_a_classic_streams_application_counts_behind_the_gateway_as_at_the_broker(
    kafka: KafkaCluster, guarantee: str
) -> None:
    """Its group is forwarded. An admin client removes its member and deletes it."""
    topic, class_path = await filled_topic(kafka, RECORDS), streams_class_path(kafka.release)
    options = (RECORDS, "classic", guarantee)
    lines, recorder = await check_alike(
        kafka,
        lambda servers, name: printed_lines(PROGRAM, class_path, servers, topic, name, *options),
    )
    assert f"counted {RECORDS}" in lines
    assert apis_in(recorder) >= {ApiKey.JOIN_GROUP, ApiKey.LEAVE_GROUP, ApiKey.DELETE_GROUPS}


@with_new_protocol()
async def test_a_streams_application_changes_its_protocol_behind_the_gateway_as_at_the_broker(
    kafka: KafkaCluster,
) -> None:
    """The switch is possible in either direction, but only while the group is empty. The
    application continues with its counts."""
    class_path = streams_class_path(kafka.release)

    async def run(servers: str, name: str) -> Sequence[str]:
        await kafka.make_topic(name)
        return await printed_lines(MIGRATION, class_path, servers, name, f"{name}-app")

    lines, _recorder = await check_alike(kafka, run)
    assert lines[0] == "classic: counted 30, type Classic"
    assert "GroupIdNotFoundException" in lines[1]
    assert lines[3] == "streams: counted 90, type Streams"
    assert "InconsistentGroupProtocolException" in lines[4]
    assert lines[6] == "classic again: counted 150, type Classic"
