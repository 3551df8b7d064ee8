"""Long answers do not hold up others, and wrong ones end their connection only."""

import struct
from dataclasses import replace

import trio
from structlog.testing import capture_logs

from gateway.data_path.client_frames import ASIDE_FROM_BYTES, REMEMBERED_BYTES_MAX
from gateway.data_path.config import Limits
from gateway.data_path.errors import TooMuchHeld
from gateway.data_path.group_apis import GroupApis, GroupRequest
from kafka_codecs import decode, encode
from kafka_codecs.apis import ApiKey
from kafka_codecs.declaration import Struct
from kafka_codecs.header import RequestHeader
from kafka_codecs.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_codecs.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from tests.gateway.data_path.client_connection import HEARTBEAT, Parked, ground
from tests.support.fake_broker import (
    answer_bytes,
)
from tests.support.until import until
from tests.support.wire import Wire, open_wire, request_frame


async def test_a_long_answer_is_rewritten_in_a_thread() -> None:
    """Later requests keep their order."""
    topics = tuple(MetadataResponseTopic(name=f"topic-{place:06}") for place in range(20_000))

    async def answer_long(wire: Wire, header: RequestHeader, body: bytes) -> None:
        metadata = replace(on.broker.metadata(), topics=topics)
        await answer_bytes(wire, header, encode(metadata, header.api_version))

    async with ground() as on:
        on.broker.handlers[ApiKey.METADATA] = answer_long
        await on.client.send(
            request_frame(ApiKey.METADATA, 9, 1, encode(MetadataRequest(topics=None), 9))
            + request_frame(ApiKey.FETCH, 4, 2, b"")
        )
        frame = await on.client.frame()
        assert len(frame) > ASIDE_FROM_BYTES
        answer = decode(MetadataResponse, frame[5:], 9)
        assert answer.topics == topics
        assert answer.brokers[0].port != on.broker.address[1]
        assert struct.unpack_from(">i", await on.client.frame()) == (2,)


async def test_an_answer_that_its_version_cannot_carry_is_an_internal_error() -> None:
    """The client is not at fault. The error is logged with its traceback."""

    class Wrong(GroupApis):
        async def answer(self, request: GroupRequest) -> Struct:
            return HeartbeatResponse(error_code=2**20)

    async with ground(group_apis=Wrong()) as on:
        with capture_logs() as lines:
            await on.client.send(request_frame(ApiKey.HEARTBEAT, 4, 1, encode(HEARTBEAT, 4)))
            assert await on.client.at_end()
        assert [line["event"] for line in lines] == ["connection_failed"]


async def test_a_repeated_heartbeat_is_decoded_once() -> None:
    """A member at rest sends the same bytes each time. A long heartbeat is not remembered."""
    long = replace(HEARTBEAT, member_id="x" * REMEMBERED_BYTES_MAX)
    apis = Parked()
    apis.go_on.set()
    async with ground(group_apis=apis) as on:
        for number, message in enumerate((HEARTBEAT, HEARTBEAT, long, long)):
            frame = request_frame(ApiKey.HEARTBEAT, 4, number, encode(message, 4))
            await on.client.send(frame)
            await on.client.frame()
    first, second, third, fourth = [request.message for request in apis.requests]
    assert first is second
    assert first == HEARTBEAT
    assert third is not fourth
    assert third == fourth == long


async def test_long_requests_of_one_client_take_a_limited_part_of_the_memory() -> None:
    """The limit covers all its connections, until the requests are answered. Short requests find
    space all the time."""
    text = "x" * 30_000
    long = HeartbeatRequest(group_id=text, generation_id=1, member_id=text, group_instance_id=text)
    frame = request_frame(ApiKey.HEARTBEAT, 4, 1, encode(long, 4))
    apis = Parked()
    limits = Limits(max_held_requests_bytes=3 * len(frame))
    async with ground(group_apis=apis, limits=limits) as on:
        await on.client.send(frame)
        await apis.asked.wait()
        with capture_logs() as lines:
            async with open_wire(on.gateway.address) as second:
                await second.send(frame)
                assert await second.at_end()
        (line,) = [line for line in lines if line["event"] == "connection_refused"]
        assert line["reason"].startswith(
            "long requests and answers of the address 127.0.0.1 may take"
        )
        apis.go_on.set()
        await on.client.frame()
        for count in range(2):  # what is answered or refused takes no memory any more
            async with open_wire(on.gateway.address) as later, trio.open_nursery() as nursery:
                nursery.start_soon(later.send, frame)
                assert len(await later.frame()) > 4, count


class Holding(Parked):
    """Counts a long answer, as the admin apis do."""

    def __init__(self, count_bytes: int) -> None:
        super().__init__()
        self._count_bytes = count_bytes
        self.go_on.set()
        self.refused = 0

    async def answer(self, request: GroupRequest) -> Struct:
        try:
            request.hold(self._count_bytes)
        except TooMuchHeld:
            self.refused += 1
        return await super().answer(request)


async def test_what_a_long_answer_takes_is_free_once_it_is_sent() -> None:
    """While it is sent, it counts for its client as long requests do."""
    apis = Holding(600)
    frame = request_frame(ApiKey.HEARTBEAT, 4, 1, encode(HEARTBEAT, 4))
    async with ground(group_apis=apis, limits=Limits(max_held_requests_bytes=1_200)) as on:
        for _ in range(3):
            await on.client.send(frame)
            await on.client.frame()
        assert apis.refused == 0
        apis.go_on, apis.asked = trio.Event(), trio.Event()
        await on.client.send(frame)
        await apis.asked.wait()
        async with open_wire(on.gateway.address) as second:
            await second.send(frame)
            await until(lambda: apis.refused == 1)
            apis.go_on.set()
            for client in (on.client, second):
                await client.frame()
