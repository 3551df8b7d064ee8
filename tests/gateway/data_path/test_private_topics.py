"""No client reads, writes or changes the gateway's private topics. Other topics are served as
usual."""

import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import trio
import trio.testing

from gateway.data_path.config import Limits
from gateway.data_path.group_apis import GroupApis, GroupRequest
from gateway.data_path.private_names import Masks, PrivateNames
from gateway.data_path.relayed_requests import SEARCHED_BYTES_MAX
from gateway.data_path.stream import BUFFER_BYTES
from kafka_codecs import decode
from kafka_codecs.apis import ApiKey
from kafka_codecs.declaration import Struct
from kafka_codecs.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kafka_codecs.header import RequestHeader, decode_response_header
from kafka_codecs.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kafka_codecs.metadata import MetadataRequest
from kafka_codecs.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.gateway.data_path.running_data_path import running_gateway
from tests.support.fake_broker import (
    KAFKA_3,
    FakeBroker,
    answer,
    answer_bytes,
    running_fake_broker,
)
from tests.support.wire import Wire, open_wire, produce_frame

_S = TypeVar("_S", bound=Struct)

STATE, OTHER = b"groupferry-state", b"orders"
UNKNOWN_TOPIC = 3
FETCH_SESSION_ID_NOT_FOUND = 70


@dataclass(slots=True)
class Topics(FakeBroker):
    """A broker that has every topic with a valid name, and stores produced records."""

    stored: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.versions = {**KAFKA_3, ApiKey.DELETE_TOPICS: (0, 6)}
        self.handlers = {
            ApiKey.PRODUCE: self.produce,
            ApiKey.FETCH: self.fetch,
            ApiKey.DELETE_TOPICS: self.delete,
        }

    async def produce(self, wire: Wire, header: RequestHeader, body: bytes) -> None:
        """Answer for every topic in the request, in the older layout."""
        self.stored.append(body)
        named = [name for name in (STATE, b"!" + STATE[1:], OTHER) if b"\0" + _short(name) in body]
        responses = tuple(
            TopicProduceResponse(
                name=name.decode(),
                partition_responses=(
                    PartitionProduceResponse(
                        index=0, base_offset=0, error_code=_error(name.decode())
                    ),
                ),
            )
            for name in named
        )
        await answer(wire, header, ProduceResponse(responses=responses))

    async def fetch(self, wire: Wire, header: RequestHeader, body: bytes) -> None:
        """Answer for every topic."""
        request = decode(FetchRequest, body, header.api_version)
        assert request.session_epoch == -1
        topics = tuple(
            FetchableTopicResponse(
                topic=topic.topic,
                partitions=(
                    PartitionData(
                        partition_index=0,
                        error_code=_error(topic.topic),
                        high_watermark=1,
                        aborted_transactions=None,
                        records=b"records",
                    ),
                ),
            )
            for topic in request.topics
        )
        await answer(wire, header, FetchResponse(responses=topics))

    async def delete(self, wire: Wire, header: RequestHeader, body: bytes) -> None:
        """Delete topics by name."""
        request = decode(DeleteTopicsRequest, body, header.api_version)
        responses = tuple(
            DeletableTopicResult(name=name, error_code=_error(name)) for name in request.topic_names
        )
        await answer(wire, header, DeleteTopicsResponse(responses=responses))


def _short(name: bytes) -> bytes:
    return bytes([len(name)]) + name


def _error(name: str) -> int:
    return UNKNOWN_TOPIC if name.startswith("!") else 0


@asynccontextmanager
async def ground(limits: Limits | None = None) -> AsyncIterator[tuple[Topics, Wire]]:
    """A client of a gateway whose state is in a topic."""
    private = PrivateNames((STATE.decode(),))
    async with running_fake_broker(Topics()) as broker:
        assert isinstance(broker, Topics)
        async with (
            running_gateway([broker.address], limits=limits, private_names=private) as gateway,
            open_wire(gateway.address) as client,
        ):
            yield broker, client


async def produce_codes(client: Wire, frame: bytes, version: int) -> dict[str, int]:
    """The error code of each topic."""
    await client.send(frame)
    body = await client.frame()
    correlation_id, offset = decode_response_header(ApiKey.PRODUCE, version, body)
    assert correlation_id == 7
    answered = decode(ProduceResponse, body[offset:], version)
    return {
        response.name: response.partition_responses[0].error_code for response in answered.responses
    }


async def test_a_private_topic_is_refused_and_the_others_are_stored() -> None:
    """This holds for requests of any length, with the topic anywhere. The request is never buffered
    as a whole."""
    limits = Limits(max_held_request_bytes=BUFFER_BYTES)
    async with ground(limits) as (broker, client):
        for size in (10, SEARCHED_BYTES_MAX, 3 * BUFFER_BYTES):
            records = b"r" * size
            frame = produce_frame(8, {OTHER: [records, records], STATE: [b"tombstone"]})
            assert await produce_codes(client, frame, 8) == {
                OTHER.decode(): 0,
                STATE.decode(): ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            }
            assert broker.stored[-1].count(records) >= 2
            assert _short(STATE) not in broker.stored[-1]


async def test_a_request_that_arrives_in_pieces_is_relayed_whole() -> None:
    """What has arrived of the records is sent before more is awaited."""
    async with ground() as (broker, client):
        records = b"r" * (BUFFER_BYTES // 2)
        frame = produce_frame(9, {OTHER: [records]})
        with trio.fail_after(5):
            for start in range(0, len(frame), 20_000):
                await client.send(frame[start : start + 20_000])
                await trio.testing.wait_all_tasks_blocked(0.02)
            await client.frame()
        assert records in broker.stored[-1]


async def test_the_answer_to_long_records_for_other_topics_is_not_read() -> None:
    """Decoding it would cost more than relaying both."""
    async with ground() as (broker, client):

        async def answer_unreadably(wire: Wire, header: RequestHeader, body: bytes) -> None:
            await answer_bytes(wire, header, b"not a ProduceResponse")

        broker.handlers[ApiKey.PRODUCE] = answer_unreadably
        for size in (SEARCHED_BYTES_MAX, 3 * BUFFER_BYTES):
            await client.send(produce_frame(8, {OTHER: [b"r" * size]}))
            assert (await client.frame()).endswith(b"not a ProduceResponse")


async def test_records_that_contain_the_name_pass_unchanged() -> None:
    """The name in a record's data is not a topic."""
    async with ground() as (broker, client):
        frame = produce_frame(8, {OTHER: [b"\0" + _short(STATE)]})
        answered = await produce_codes(client, frame, 8)
        assert answered[OTHER.decode()] == 0
        assert STATE in broker.stored[-1]


async def test_a_produce_request_without_an_answer_is_filtered() -> None:
    """The broker closes the connection or does nothing."""
    async with ground() as (broker, client):
        await client.send(produce_frame(8, {STATE: [b"tombstone"]}, acks=0))
        assert (await client.ask(MetadataRequest(topics=()), 4, 9)).brokers
        assert broker.stored
        assert _short(STATE) not in broker.stored[-1]


async def test_a_produce_request_cut_within_a_topic_ends_the_connection() -> None:
    """Later bytes would be mistaken for the rest of it."""
    async with ground() as (_, client):
        frame = produce_frame(8, {STATE: [b"tombstone"]})[:-4]
        await client.send(struct.pack(">i", len(frame) - 4) + frame[4:])
        assert await client.at_end()


async def test_a_private_topic_is_not_deleted_but_others_are() -> None:
    """Each has its own answer, under its own name."""
    async with ground() as (_, client):
        names = (OTHER.decode(), STATE.decode())
        answered = await client.ask(DeleteTopicsRequest(topic_names=names, timeout_ms=1), 5)
        assert [(response.name, response.error_code) for response in answered.responses] == [
            (OTHER.decode(), 0),
            (STATE.decode(), ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ]


async def test_requests_longer_than_the_buffer_are_searched() -> None:
    """A long request is held, and relayed if it has no private name."""
    async with ground() as (_, client):
        many = tuple(f"topic-{number}" for number in range(BUFFER_BYTES // 8))
        for names in (many, (*many, STATE.decode())):
            answered = await client.ask(DeleteTopicsRequest(topic_names=names, timeout_ms=1), 5)
            refused = [response.name for response in answered.responses if response.error_code]
            assert refused == list(names[len(many) :])


def fetch(session_epoch: int, *names: bytes) -> FetchRequest:
    """A consumer's request."""
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 30)
    topics = tuple(FetchTopic(topic=name.decode(), partitions=(partition,)) for name in names)
    return FetchRequest(
        max_wait_ms=500, min_bytes=1, session_epoch=session_epoch, session_id=0, topics=topics
    )


async def test_a_private_topic_cannot_be_read_but_others_can() -> None:
    """The fetch has no session, because a session would name the topic only once."""
    async with ground() as (_, client):
        answered = await client.ask(fetch(0, OTHER, STATE), 11)
        assert answered.session_id == 0
        assert [
            (response.topic, response.partitions[0].error_code) for response in answered.responses
        ] == [
            (OTHER.decode(), 0),
            (STATE.decode(), ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ]
        assert answered.responses[0].partitions[0].records == b"records"


async def test_a_fetch_longer_than_the_buffer_is_masked_as_it_passes() -> None:
    """The long fetch is not held. Its answer arrives, and so does that of the next request."""
    async with ground() as (_, client):
        many = tuple(f"topic-{number}".encode() for number in range(BUFFER_BYTES // 32))
        with trio.fail_after(20):
            answered = await client.ask(fetch(-1, *many, STATE), 11)
            assert [topic.topic for topic in answered.responses[:-1]] == [
                name.decode() for name in many
            ]
            refused = answered.responses[-1]
            assert refused.topic != STATE.decode()
            assert refused.partitions[0].error_code == UNKNOWN_TOPIC
            assert (await client.ask(fetch(-1, OTHER), 11)).responses[0].topic == OTHER.decode()


async def test_no_fetch_session_contains_a_private_topic() -> None:
    """The client must begin a new session, which is refused."""
    async with ground() as (_, client):
        answered = await client.ask(fetch(5, STATE), 11)
        assert answered.error_code == FETCH_SESSION_ID_NOT_FOUND


async def test_a_request_is_searched_only_if_it_may_have_a_private_name() -> None:
    """Searching a request with ten thousand configs, and its answer, takes long."""
    searched: list[Struct] = []

    class Counted(PrivateNames):
        def mask(self, request: _S) -> tuple[_S, Masks]:
            searched.append(request)
            return super().mask(request)

    class Alters(GroupApis):
        async def answer(self, request: GroupRequest) -> Struct:
            message = request.message
            assert isinstance(message, IncrementalAlterConfigsRequest)
            responses = tuple(
                AlterConfigsResourceResponse(
                    resource_type=resource.resource_type, resource_name=resource.resource_name
                )
                for resource in message.resources
            )
            return IncrementalAlterConfigsResponse(responses=responses)

    async def codes(client: Wire, *topics: bytes) -> dict[str, int]:
        resources = tuple(
            AlterConfigsResource(resource_type=2, resource_name=name.decode(), configs=())
            for name in topics
        )
        request = IncrementalAlterConfigsRequest(resources=resources, validate_only=False)
        altered: IncrementalAlterConfigsResponse = await client.ask(request, 1)
        return {response.resource_name: response.error_code for response in altered.responses}

    private = Counted((STATE.decode(),))
    async with (
        running_fake_broker(FakeBroker()) as broker,
        running_gateway([broker.address], group_apis=Alters(), private_names=private) as gateway,
        open_wire(gateway.address) as client,
    ):
        assert await codes(client, OTHER) == {OTHER.decode(): 0}
        assert searched == []
        refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert await codes(client, OTHER, STATE) == {OTHER.decode(): 0, STATE.decode(): refused}
        assert len(searched) == 1
