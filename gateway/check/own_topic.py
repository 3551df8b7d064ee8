"""A topic of the check's own: whether it can be made, written in a transaction, and deleted, and
how far the brokers' clock is from this machine's."""

import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import trio
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from gateway.check.finding import Finding, Result, works
from gateway.cluster.broker_connection import BrokerConnection
from gateway.cluster.topics import request_operations
from kafka_codecs.apis import ApiKey
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.metadata import AUTHORIZED_OPERATIONS_OMITTED

TOPICS, TRANSACTIONS, CLOCKS = "topics", "transactions", "clocks"
TIMEOUT_S = 15.0
CLOCKS_DIFFER_MS_MAX = 60_000
"""The verdict on two gateways' events cannot order them beyond this difference."""

_NEEDED = {"WRITE": 4, "CREATE": 5, "DELETE": 6, "DESCRIBE": 8}
"""The bits of operations on a topic in Metadata v8 and later."""


async def missing_operations(connection: BrokerConnection, topic: str) -> list[str]:
    """The operations on a topic that does not exist yet which the user may not do; empty if the
    broker does not say. Raises UpstreamError."""
    highest = connection.highest_version(ApiKey.METADATA)
    (described,) = (await connection.ask(*request_operations([topic], highest))).topics
    if described.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return [*_NEEDED]
    operations = described.topic_authorized_operations
    if operations == AUTHORIZED_OPERATIONS_OMITTED:
        return []
    return [name for name, bit in _NEEDED.items() if not operations >> bit & 1]


@asynccontextmanager
async def own_topic(
    connection: BrokerConnection,
    config: Mapping[str, Any],
    topic: str,
    report: Callable[[Finding], None],
) -> AsyncIterator[bool]:
    """Whether the topic exists during the block. It is deleted afterwards; if that fails, a finding
    says so. Nothing is made that could not be deleted. Raises UpstreamError."""
    if missing := await missing_operations(connection, topic):
        report(
            Finding(
                subject=TOPICS,
                result=Result.UNKNOWN,
                detail=f"the gateway's user may not {', '.join(missing)} topic {topic}",
                effect="neither transactions nor the clocks were tried",
                remedy=f"for the check only: {', '.join(missing)} on topics groupferry-check-*",
            )
        )
        yield False
        return
    admin = AdminClient(dict(config))
    settings = {"message.timestamp.type": "LogAppendTime"}
    made = NewTopic(topic, num_partitions=1, replication_factor=-1, config=settings)
    try:
        await _finish(lambda: admin.create_topics([made], request_timeout=TIMEOUT_S)[topic])
    except KafkaException as error:
        report(
            Finding(
                subject=TOPICS,
                result=Result.LIMITED,
                detail=f"topic {topic} cannot be created: {error.args[0].str()}",
                effect="the state topic and the events topic must be created by hand",
            )
        )
        yield False
        return
    try:
        yield True
    finally:
        with trio.CancelScope(shield=True):
            try:
                await _finish(
                    lambda: admin.delete_topics([topic], request_timeout=TIMEOUT_S)[topic]
                )
                report(works(TOPICS, "one was created and deleted"))
            except KafkaException as error:
                report(
                    Finding(
                        subject=TOPICS,
                        result=Result.LIMITED,
                        detail=f"topic {topic} is left behind: {error.args[0].str()}",
                        remedy=f"delete topic {topic}",
                    )
                )


async def try_transaction(
    config: Mapping[str, Any], topic: str, report: Callable[[Finding], None]
) -> None:
    """Write one record to the topic in a transaction."""
    sent_ms = _now_ms()
    try:
        stored_ms = await trio.to_thread.run_sync(_write, config, topic, abandon_on_cancel=True)
    except KafkaException as error:
        is_forbidden = error.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        grant = "WRITE and DESCRIBE on transactional ids that begin with groupferry-"
        report(
            Finding(
                subject=TRANSACTIONS,
                result=Result.LIMITED,
                detail=f"a record cannot be written in one: {error.args[0].str()}",
                effect="the state log must be a folder (state = sqlite)",
                remedy=grant if is_forbidden else "a cluster with transactions",
            )
        )
        return
    report(works(TRANSACTIONS, "a record was written in one"))
    report(judge_clock(sent_ms, stored_ms, _now_ms()))


def _write(config: Mapping[str, Any], topic: str) -> int | None:
    """The broker's time at which it stored a record; None if the answer has none. Raises
    KafkaException."""
    stored_ms: list[int] = []

    def on_delivery(_error: object, message: Message) -> None:
        kind, at_ms = message.timestamp()
        if kind == TIMESTAMP_LOG_APPEND_TIME:
            stored_ms.append(at_ms)

    producer = Producer({**config, "transactional.id": topic})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, b"check", on_delivery=on_delivery)
    producer.commit_transaction(TIMEOUT_S)
    return stored_ms[0] if stored_ms else None


def judge_clock(sent_ms: int, stored_ms: int | None, answered_ms: int) -> Finding:
    """What the time at which a broker stored a record says about its clock, if there is one."""
    if stored_ms is None:
        return Finding(
            subject=CLOCKS, result=Result.UNKNOWN, detail="the broker does not state the time"
        )
    ahead_ms = max(0, stored_ms - answered_ms)
    behind_ms = max(0, sent_ms - stored_ms)
    apart_ms = max(ahead_ms, behind_ms)
    if apart_ms <= CLOCKS_DIFFER_MS_MAX:
        return works(
            CLOCKS, f"the broker's is within {apart_ms + answered_ms - sent_ms} ms of ours"
        )
    direction = "ahead of" if ahead_ms else "behind"
    return Finding(
        subject=CLOCKS,
        result=Result.LIMITED,
        detail=f"the broker's clock is {apart_ms // 1000} s {direction} this machine's",
        effect="times in the gateway's events do not match those in the brokers' logs",
        remedy="synchronize the clocks (NTP)",
    )


async def _finish(begin: Callable[[], Any]) -> None:
    """Wait for a request of the admin client. Raises KafkaException."""
    await trio.to_thread.run_sync(lambda: begin().result(), abandon_on_cancel=True)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
