"""Transactional commits with topic ids, at the cluster and at the client."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

import pytest

from gateway.requests.commit_topic_ids import complete_topics, split_by_existence
from kafka_codecs.apis import ApiKey
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.metadata import NO_TOPIC_ID
from kafka_codecs.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tests.support.commits import codes_of, transactional_commit_of
from tests.support.group_client import GroupClient
from tests.support.offset_broker import OffsetBroker
from tests.support.offset_stage import offset_stage

NUMBERS, GONE = UUID(int=7), UUID(int=8)
OFFSETS = {2: 4}
BY_ID = 6


def test_existing_topics_get_names_in_addition_to_their_ids() -> None:
    """A broker of any version can then store them."""
    known, unknown = split_by_existence(
        transactional_commit_of({NUMBERS: OFFSETS, GONE: OFFSETS}), {NUMBERS: "numbers"}
    )
    assert [(topic.name, topic.topic_id) for topic in known.topics] == [("numbers", NUMBERS)]
    assert [(topic.name, topic.topic_id) for topic in unknown.topics] == [("", GONE)]


@pytest.mark.parametrize("identity", [{"name": "numbers"}, {"topic_id": NUMBERS}])
def test_an_answer_has_names_and_ids(identity: dict[str, str | UUID]) -> None:
    """The broker's version returns one of them."""
    known, _unknown = split_by_existence(
        transactional_commit_of({NUMBERS: OFFSETS}), {NUMBERS: "numbers"}
    )
    partition = TxnOffsetCommitResponsePartition(partition_index=2)
    topic = TxnOffsetCommitResponseTopic(partitions=(partition,), **identity)  # type: ignore[arg-type]
    answer = complete_topics(TxnOffsetCommitResponse(topics=(topic,)), known)
    assert [(topic.name, topic.topic_id) for topic in answer.topics] == [("numbers", NUMBERS)]


def test_an_answer_to_a_commit_by_name_is_unchanged() -> None:
    """The client did not send ids."""
    commit = transactional_commit_of({"numbers": {}})
    topic = TxnOffsetCommitResponseTopic(name="numbers", partitions=())
    answer = TxnOffsetCommitResponse(topics=(topic,))
    assert complete_topics(answer, commit) == answer


@asynccontextmanager
async def open_scene(version: int) -> AsyncIterator[tuple[OffsetBroker, GroupClient]]:
    """A broker that supports transactional commits up to this version, and a client of the
    gateway."""
    broker = OffsetBroker(topic_id=NUMBERS)
    broker.versions = {**broker.versions, ApiKey.TXN_OFFSET_COMMIT: (0, version)}
    async with offset_stage(broker) as stage:
        yield broker, stage.client


@pytest.mark.parametrize("upstream_version", [5, 6])
async def test_a_transaction_by_topic_id_is_stored_by_any_broker(upstream_version: int) -> None:
    """Before Kafka 4.4 the gateway sends names. Topics that cannot be stored have an error each."""
    async with open_scene(upstream_version) as (broker, client):
        joined = await client.enter()
        commit = transactional_commit_of(
            {NUMBERS: OFFSETS, GONE: OFFSETS},
            member_id=joined.member_id,
            generation=joined.generation_id,
        )
        answer = await client.connection.ask(commit, BY_ID)
        unknown = ErrorCode.UNKNOWN_TOPIC_ID
        assert codes_of(answer) == {NUMBERS: {2: ErrorCode.NONE}, GONE: {2: unknown}}
        assert broker.offsets == {2: 4}
        (seen,) = broker.commits
        assert isinstance(seen, TxnOffsetCommitRequest)
        by_id = upstream_version == BY_ID
        assert [topic.name for topic in seen.topics] == ["" if by_id else "numbers"]
        assert seen.member_id == broker.coordinator.group("g").member_id


async def test_a_commit_of_unknown_ids_reaches_no_broker() -> None:
    """The zero id does not either."""
    async with open_scene(5) as (broker, client):
        commit = transactional_commit_of({GONE: OFFSETS, NO_TOPIC_ID: OFFSETS})
        answer = await client.connection.ask(commit, BY_ID)
        unknown = {2: ErrorCode.UNKNOWN_TOPIC_ID}
        assert codes_of(answer) == {GONE: unknown, NO_TOPIC_ID: unknown}
        assert broker.commits == []


async def test_a_stale_native_member_gets_stale_member_epoch() -> None:
    """Transactional commits have this code from v6 on, for all their topics."""
    async with open_scene(5) as (_broker, client):
        joined = await client.native("n1", 0, topics=("numbers",))
        commit = transactional_commit_of(
            {NUMBERS: OFFSETS}, member_id="n1", generation=joined.member_epoch + 1
        )
        answer = await client.connection.ask(commit, BY_ID)
        assert codes_of(answer) == {NUMBERS: {2: ErrorCode.STALE_MEMBER_EPOCH}}
