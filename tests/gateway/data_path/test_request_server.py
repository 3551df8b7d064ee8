"""The requests of a client are served in front of a fake broker, in their order."""

import struct
from dataclasses import replace

import pytest
import structlog
import trio
import trio.testing
from structlog.testing import capture_logs

from gateway.data_path.group_apis import GroupApis, GroupRequest
from gateway.data_path.request_server import ASIDE_FROM_BYTES, RequestServer
from kafka_codecs import decode, encode
from kafka_codecs.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafka_codecs.apis import ApiKey
from kafka_codecs.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.header import RequestHeader
from kafka_codecs.heartbeat import HeartbeatResponse
from kafka_codecs.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from tests.support.client_connection import HEARTBEAT, Parked, answer_after, ground
from tests.support.fake_broker import (
    answer_bytes,
)
from tests.support.wire import Wire, connected, produce_body, request_frame


async def test_a_relayed_request_and_its_answer_pass_untouched() -> None:
    """Only the correlation id differs between the two sides."""
    async with ground() as on:
        await on.client.send(request_frame(ApiKey.FETCH, 4, 1234, b"x" * 300))
        assert await on.client.frame() == struct.pack(">ii", 1234, 300)
        assert on.broker.seen[-1].correlation_id != 1234
        assert on.broker.seen[-1].client_id == "test"


async def test_the_clients_software_is_passed_on() -> None:
    """The broker's metrics name the client, not the gateway (KIP-511)."""
    async with ground() as on:
        request = ApiVersionsRequest(client_software_name="lib", client_software_version="1.2")
        answer = await on.client.ask(request, 3)
        assert answer.error_code == 0
        assert on.broker.software[-1] == ("lib", "1.2")


async def test_unsupported_versions_get_error_35_in_the_oldest_layout() -> None:
    """A client must be able to read the refusal in any version (KIP-511)."""
    async with ground() as on:
        await on.client.send(request_frame(ApiKey.API_VERSIONS, 99, 5, b"\0garbage"))
        frame = await on.client.frame()
        answer = decode(ApiVersionsResponse, frame[4:], 0)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert [(api.api_key, api.max_version) for api in answer.api_keys] == [(18, 4)]
        again = await on.client.ask(
            ApiVersionsRequest(client_software_name="lib", client_software_version="1"), 4
        )
        assert again.error_code == 0


@pytest.mark.parametrize("name", ["", "-x", "a b"])
async def test_malformed_client_software_is_refused(name: str) -> None:
    """As in a broker, the answer is INVALID_REQUEST and the connection continues."""
    async with ground() as on:
        request = ApiVersionsRequest(client_software_name=name, client_software_version="1")
        assert (await on.client.ask(request, 3)).error_code == ErrorCode.INVALID_REQUEST
        assert not on.broker.software[1:]


@pytest.mark.parametrize(
    ("key", "version"), [(999, 0), (4, 0), (17, 0), (78, 1), (1, 3), (1, 16), (3, 14), (22, 0)]
)
async def test_requests_that_are_not_offered_are_never_relayed(key: int, version: int) -> None:
    """Unknown keys, versions out of range, and APIs that the upstream lacks close the connection,
    with one line."""
    async with ground() as on:
        with capture_logs() as lines:
            await on.client.send(struct.pack(">ihhih", 10, key, version, 1, -1))
            assert await on.client.at_end()
        assert [line["event"] for line in lines] == ["unknown_request_received"]
        assert (lines[0]["api_key"], lines[0]["api_version"]) == (key, version)
        seen = [(header.api_key, header.api_version) for header in on.broker.seen]
        assert (key, version) not in seen


async def test_answers_keep_the_order_of_their_requests() -> None:
    """This holds for relayed, rewritten and own answers. A request with acks=0 has no answer."""
    apis = Parked()
    apis.go_on.set()
    metadata = encode(MetadataRequest(topics=()), 9)
    async with ground(group_apis=apis) as on:
        batch = []
        for start in range(0, 1000, 10):
            batch += [
                request_frame(ApiKey.FETCH, 4, start, b"abc"),
                request_frame(ApiKey.PRODUCE, 9, start + 1, produce_body(9, 0, b"abc")),
                request_frame(ApiKey.HEARTBEAT, 4, start + 2, encode(HEARTBEAT, 4)),
                request_frame(ApiKey.METADATA, 9, start + 3, metadata),
                request_frame(ApiKey.PRODUCE, 10, start + 4, produce_body(10, 1, b"abc")),
                request_frame(ApiKey.API_VERSIONS, 0, start + 5, b""),
            ]
        on.broker.handlers[ApiKey.PRODUCE] = answer_empty_produce
        async with trio.open_nursery() as nursery:
            nursery.start_soon(on.client.send, b"".join(batch))
            for start in range(0, 1000, 10):
                for place in (0, 2, 3, 4, 5):
                    frame = await on.client.frame()
                    assert struct.unpack_from(">i", frame) == (start + place,)


async def answer_empty_produce(wire: Wire, header: RequestHeader, body: bytes) -> None:
    """A valid empty answer of Produce v9+, even to acks=0, as from the mock cluster."""
    await answer_bytes(wire, header, b"\1\0\0\0\0\0")


async def test_a_parked_group_request_blocks_later_requests_of_its_connection() -> None:
    """As in a broker, which mutes the channel. Other connections continue."""
    apis = Parked()
    async with ground(group_apis=apis) as on, connected(on.gateway.address) as other:
        await on.client.send(
            request_frame(ApiKey.HEARTBEAT, 4, 1, encode(HEARTBEAT, 4))
            + request_frame(ApiKey.HEARTBEAT, 4, 2, encode(HEARTBEAT, 4))
            + request_frame(ApiKey.FETCH, 4, 3, b"")
        )
        await apis.asked.wait()
        await other.send(request_frame(ApiKey.FETCH, 4, 4, b""))
        assert struct.unpack_from(">i", await other.frame()) == (4,)
        assert len(apis.requests) == 1
        apis.go_on.set()
        frames = [await on.client.frame() for _ in range(3)]
        assert [struct.unpack_from(">i", frame)[0] for frame in frames] == [1, 2, 3]
        assert apis.requests[0].message == HEARTBEAT
        assert apis.requests[0].client_host == "127.0.0.1"
        assert apis.requests[0].node_id == 1


async def test_a_group_request_is_decided_before_earlier_relayed_answers() -> None:
    """Its answer waits for those of the earlier requests."""
    apis = Parked()
    apis.go_on.set()
    release = trio.Event()
    async with ground(group_apis=apis) as on:
        on.broker.handlers[ApiKey.FETCH] = answer_after(release)
        await on.client.send(
            request_frame(ApiKey.FETCH, 4, 1, b"")
            + request_frame(ApiKey.HEARTBEAT, 4, 2, encode(HEARTBEAT, 4))
        )
        await apis.asked.wait()
        release.set()
        assert struct.unpack_from(">i", await on.client.frame()) == (1,)
        assert struct.unpack_from(">i", await on.client.frame()) == (2,)


async def test_the_final_check_runs_just_before_the_answer_leaves() -> None:
    """The group's answer may be outdated after a long wait in the connection."""

    class Changing(Parked):
        word = 1

        def last_word(self, request: GroupRequest, response: Struct) -> Struct:
            return HeartbeatResponse(error_code=self.word)

    apis = Changing()
    apis.go_on.set()
    release = trio.Event()
    async with ground(group_apis=apis) as on:
        on.broker.handlers[ApiKey.FETCH] = answer_after(release)
        await on.client.send(
            request_frame(ApiKey.FETCH, 4, 1, b"")
            + request_frame(ApiKey.HEARTBEAT, 4, 2, encode(HEARTBEAT, 4))
        )
        await apis.asked.wait()
        await trio.testing.wait_all_tasks_blocked()
        apis.word = 2
        release.set()
        await on.client.frame()
        assert (await on.client.frame()).endswith(encode(HeartbeatResponse(error_code=2), 4))


async def test_a_long_answer_is_rewritten_in_a_thread() -> None:
    """Later requests keep their order."""
    topics = tuple(MetadataResponseTopic(name=f"topic-{place:06}") for place in range(20_000))

    async def answer_long(wire: Wire, header: RequestHeader, body: bytes) -> None:
        told = replace(on.broker.metadata(), topics=topics)
        await answer_bytes(wire, header, encode(told, header.api_version))

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


class AtOnce(GroupApis):
    """Group APIs that answer without waiting, and log."""

    def __init__(self, answer: Struct) -> None:
        self._answer = answer

    def answer(self, request: GroupRequest) -> Struct:
        structlog.get_logger().warning("asked")
        return self._answer


async def test_an_answer_that_is_there_at_once_wakes_no_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its log lines name its connection all the same."""
    served: list[RequestServer] = []
    serve = RequestServer.serve

    async def note_and_serve(server: RequestServer) -> None:
        served.append(server)
        await serve(server)

    monkeypatch.setattr(RequestServer, "serve", note_and_serve)
    async with ground(group_apis=AtOnce(HeartbeatResponse(error_code=7))) as on:
        async with connected(on.gateway.address) as other:
            clients = (on.client, other)
            for client in clients:
                assert (await client.ask(HEARTBEAT, 4)).error_code == 7  # after the negotiation
            served.clear()
            with capture_logs(processors=[structlog.contextvars.merge_contextvars]) as lines:
                for client in clients:
                    assert (await client.ask(HEARTBEAT, 4)).error_code == 7
            assert not served
            assert len({line["connection_id"] for line in lines}) == 2


async def test_many_group_requests_at_once_let_others_run() -> None:
    """They are answered in order, each by the connection's task, which yields in between."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with ground(group_apis=AtOnce(HeartbeatResponse())) as on:
        await on.client.ask(HEARTBEAT, 4)
        async with trio.open_nursery() as nursery:
            frames = [
                request_frame(ApiKey.HEARTBEAT, 4, place, encode(HEARTBEAT, 4))
                for place in range(500)
            ]
            await on.client.send(b"".join(frames))
            nursery.start_soon(count)
            for place in range(500):
                assert struct.unpack_from(">i", await on.client.frame()) == (place,)
            assert turns >= 200
            nursery.cancel_scope.cancel()


async def test_answers_wait_for_a_client_that_reads_nothing() -> None:
    """All arrive whole and in order once it reads, and meanwhile few are made."""
    long = ConsumerGroupHeartbeatResponse(error_message="x" * 30_000)
    request = encode(ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=1), 0)
    asked = 0

    class Counting(AtOnce):
        def answer(self, request: GroupRequest) -> Struct:
            nonlocal asked
            asked += 1
            return long

    async with ground(group_apis=Counting(long)) as on:
        count, before = 0, -1
        while before != asked:
            before = asked
            for _ in range(20):
                frame = request_frame(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, count, request)
                await on.client.send(frame)
                count += 1
                await trio.testing.wait_all_tasks_blocked(0.001)
            assert count < 5_000
        for place in range(count):
            frame = await on.client.frame()
            assert struct.unpack_from(">i", frame) == (place,)
            assert frame.endswith(encode(long, 0))
