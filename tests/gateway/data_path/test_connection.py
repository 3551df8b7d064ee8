"""One client connection handles each request, in front of a fake broker."""

import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import pytest
import structlog
import trio
import trio.testing
from structlog.testing import capture_logs

from gateway.data_path.brokers import BrokerRoute, Brokers
from gateway.data_path.config import PERMISSION_LIFETIME_S, Limits
from gateway.data_path.connection import ASIDE_FROM_BYTES, ClientConnection, ConnectionContext
from gateway.data_path.grants import Grants
from gateway.data_path.group_apis import GroupApis, GroupRequest
from gateway.data_path.splice import PipePool
from gateway.data_path.stream import BufferPool
from kafka_codecs import decode, encode
from kafka_codecs.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafka_codecs.apis import ApiKey
from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.header import RequestHeader
from kafka_codecs.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_codecs.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from tests.support.data_path import RunningGateway, running_gateway
from tests.support.fake_broker import (
    FakeBroker,
    Handler,
    answer_bytes,
    answer_size,
    running_fake_broker,
)
from tests.support.until import until
from tests.support.wire import Wire, connected, produce_body, request_frame

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


@dataclass(frozen=True, slots=True)
class Ground:
    """A client's connection to a gateway in front of a fake broker."""

    broker: FakeBroker
    gateway: RunningGateway
    client: Wire


@asynccontextmanager
async def ground(
    *, group_apis: GroupApis | None = None, limits: Limits | None = None
) -> AsyncIterator[Ground]:
    """A broker that answers Fetch and Produce with the size of the received body."""
    broker = FakeBroker(handlers={ApiKey.FETCH: answer_size, ApiKey.PRODUCE: answer_size})
    async with running_fake_broker(broker):
        async with running_gateway([broker.address], group_apis=group_apis, limits=limits) as gate:
            async with connected(gate.address) as client:
                yield Ground(broker, gate, client)


class Parked(GroupApis):
    """Group APIs that answer a heartbeat when the test allows it."""

    def __init__(self) -> None:
        self.asked = trio.Event()
        self.go_on = trio.Event()
        self.requests: list[GroupRequest] = []

    async def answer(self, request: GroupRequest) -> Struct:
        """Wait, then answer with an error code that identifies the request."""
        self.requests.append(request)
        self.asked.set()
        await self.go_on.wait()
        return HeartbeatResponse(error_code=len(self.requests))


def answer_after(release: trio.Event) -> Handler:
    """Returns no answer for any request."""

    async def answer_late(wire: Wire, header: RequestHeader, body: bytes) -> None:
        await release.wait()
        await answer_bytes(wire, header, b"")

    return answer_late


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


BAD_FRAMES = {
    "negative size": struct.pack(">ihhi", -5, 1, 4, 1),
    "size below the header": struct.pack(">ihhi", 7, 1, 4, 1),
    "size above the limit": struct.pack(">ihhi", 2**31 - 1, 1, 4, 1),
    "no client id": struct.pack(">ihhi", 8, 12, 4, 1),
    "client id longer than the frame": struct.pack(">ihhih", 10, 12, 4, 1, 500),
    "group request of garbage": request_frame(ApiKey.HEARTBEAT, 4, 1, b"\xff" * 50),
    "produce without acks": request_frame(ApiKey.PRODUCE, 9, 1, b""),
    "produce with a negative string": struct.pack(">ihhih", 40, 0, 8, 1, -7) + b"x" * 40,
    "api versions of garbage": request_frame(ApiKey.API_VERSIONS, 3, 1, b"\xff" * 50),
    "held request above the limit": struct.pack(">ihhi", 50_000_000, 12, 4, 1),
}


@pytest.mark.parametrize("name", BAD_FRAMES)
async def test_a_malformed_frame_closes_its_connection_with_one_line(name: str) -> None:
    """The line is a warning without a traceback, and no other connection is affected."""
    async with ground() as on, connected(on.gateway.address) as other:
        await other.send(request_frame(ApiKey.FETCH, 4, 1, b""))
        await other.frame()
        with capture_logs(processors=[structlog.contextvars.merge_contextvars]) as lines:
            await on.client.send(BAD_FRAMES[name])
            assert await on.client.at_end()
        assert [line["event"] for line in lines] == ["bad_frame_received"]
        assert lines[0]["log_level"] == "warning"
        assert "exc_info" not in lines[0]
        assert lines[0]["connection_id"]
        await other.send(request_frame(ApiKey.FETCH, 4, 2, b""))
        await other.frame()


@pytest.mark.parametrize(
    ("key", "version"), [(999, 0), (4, 0), (17, 0), (78, 1), (1, 3), (1, 16), (3, 13), (22, 0)]
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


async def test_fragmented_frames_are_reassembled() -> None:
    """However the bytes arrive, the broker receives whole requests in order."""
    frames = [
        request_frame(ApiKey.FETCH, 4, 1, b"abc"),
        request_frame(ApiKey.PRODUCE, 9, 2, produce_body(9, -1, b"abc")),
        request_frame(ApiKey.PRODUCE, 3, 3, produce_body(3, 0, b"abc")),
        request_frame(ApiKey.METADATA, 9, 4, encode(MetadataRequest(topics=()), 9)),
        request_frame(ApiKey.FETCH, 4, 5, b""),
    ]
    whole = b"".join(frames)
    async with ground() as on:
        for cut in range(1, len(whole)):
            await on.client.send(whole[:cut])
            await trio.testing.wait_all_tasks_blocked(0.0005)
            await on.client.send(whole[cut:])
            answered = [struct.unpack_from(">i", await on.client.frame())[0] for _ in range(4)]
            assert answered == [1, 2, 4, 5], cut


async def test_a_connection_cut_within_a_frame_is_closed_upstream() -> None:
    """The broker sees half a request, and the gateway keeps nothing of it."""
    whole = request_frame(ApiKey.PRODUCE, 9, 2, produce_body(9, -1, b"abc" * 1000))
    async with ground() as on:
        await on.client.send(request_frame(ApiKey.FETCH, 4, 1, b""))
        await on.client.frame()
        watched = on.broker.connections
        for cut in (1, 3, 5, 11, 13, 20, 24, 100, len(whole) - 1):
            async with connected(on.gateway.address) as client:
                await client.send(whole[:cut])
        await on.broker.down_to(watched)


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


async def test_the_end_of_the_upstream_ends_the_client_connection() -> None:
    """This holds within an answer as well: the client sees a torn frame, never a wrong one."""

    async def answer_half(wire: Wire, header: RequestHeader, body: bytes) -> None:
        await wire.send(struct.pack(">ii", 1000, header.correlation_id) + b"x" * 100)
        await wire.stream.aclose()

    async with ground() as on:
        on.broker.handlers[ApiKey.FETCH] = answer_half
        await on.client.send(request_frame(ApiKey.FETCH, 4, 1, b""))
        assert len(await on.client.receive(108)) == 108
        assert await on.client.at_end()


async def test_the_end_of_a_client_ends_its_upstream_connection() -> None:
    """Each client connection has one upstream connection."""
    async with ground() as on:
        before = on.broker.connections
        async with connected(on.gateway.address) as client:
            await client.send(request_frame(ApiKey.FETCH, 4, 1, b""))
            await client.frame()
            assert on.broker.connections == before + 1
        await on.broker.down_to(before)


async def test_a_half_closed_client_gets_its_answers() -> None:
    """Then the connection is closed."""
    async with ground() as on:
        await on.client.send(request_frame(ApiKey.FETCH, 4, 1, b""))
        await on.client.stream.send_eof()
        assert struct.unpack_from(">i", await on.client.frame()) == (1,)
        assert await on.client.at_end()


async def test_the_number_of_pipelined_requests_is_limited() -> None:
    """The client's socket holds back further requests until the upstream has answered."""
    taken: list[tuple[Wire, RequestHeader]] = []

    async def take(wire: Wire, header: RequestHeader, body: bytes) -> None:
        taken.append((wire, header))

    async def until_taken(number: int) -> None:
        await until(lambda: len(taken) == number)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert len(taken) == number

    async with ground(limits=Limits(max_pipelined=3)) as on:
        on.broker.handlers[ApiKey.FETCH] = take
        frames = [request_frame(ApiKey.FETCH, 4, place, b"") for place in range(20)]
        await on.client.send(b"".join(frames))
        for place in range(20):
            await until_taken(min(place + 3, 20))
            await answer_bytes(*taken[place], b"")
            assert struct.unpack_from(">i", await on.client.frame()) == (place,)


async def test_an_answer_out_of_order_ends_the_connection() -> None:
    """No answer may be mistaken for that of another request."""

    async def answer_wrongly(wire: Wire, header: RequestHeader, body: bytes) -> None:
        await wire.send(struct.pack(">ii", 4, header.correlation_id + 1))

    async with ground() as on:
        on.broker.handlers[ApiKey.FETCH] = answer_wrongly
        with capture_logs() as lines:
            await on.client.send(request_frame(ApiKey.FETCH, 4, 1, b""))
            assert await on.client.at_end()
        assert [line["event"] for line in lines] == ["bad_frame_received"]


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


async def test_an_answer_beyond_the_limit_ends_the_connection() -> None:
    """The gateway allocates nothing of its size."""

    async def answer_long(wire: Wire, header: RequestHeader, body: bytes) -> None:
        await wire.send(struct.pack(">ii", 2**31 - 1, header.correlation_id))

    async with ground() as on:
        on.broker.handlers[ApiKey.METADATA] = answer_long
        with capture_logs() as lines:
            await on.client.send(
                request_frame(ApiKey.METADATA, 9, 1, encode(MetadataRequest(topics=()), 9))
            )
            assert await on.client.at_end()
        assert [line["event"] for line in lines] == ["bad_frame_received"]


async def test_a_bug_in_the_group_code_ends_only_one_connection() -> None:
    """The error is logged with its traceback, and the gateway continues."""

    class Broken(GroupApis):
        async def answer(self, request: GroupRequest) -> Struct:
            raise RuntimeError("a bug")

    async with ground(group_apis=Broken()) as on:
        with capture_logs() as lines:
            await on.client.send(request_frame(ApiKey.HEARTBEAT, 4, 1, encode(HEARTBEAT, 4)))
            assert await on.client.at_end()
        assert [(line["event"], line["log_level"]) for line in lines] == [
            ("connection_failed", "error")
        ]
        async with connected(on.gateway.address) as other:
            await other.send(request_frame(ApiKey.FETCH, 4, 1, b""))
            await other.frame()


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


async def test_a_drain_may_come_after_a_connection_has_ended(nursery: trio.Nursery) -> None:
    """Until its owner has noticed, the connection is drained like others."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    async with ground() as on:
        context = ConnectionContext(
            limits=Limits(),
            group_apis=Parked(),
            rewrite=echo,
            topic_names=on.gateway.cluster.names_of,
            recall_metadata=on.gateway.cluster.recall,
            buffers=BufferPool(),
            pipes=PipePool(),
            anonymous_grants=Grants(PERMISSION_LIFETIME_S),
        )
        brokers = Brokers(lambda: {1: on.broker.address}, nursery)
        connection = ClientConnection(
            ours, client_host="h", route=BrokerRoute(brokers, None), context=context
        )
        theirs.send(BAD_FRAMES["negative size"])
        await connection.serve()
        connection.drain()
    theirs.close()
    nursery.cancel_scope.cancel()


async def echo(answer: Struct) -> Struct:
    """No address needs to be replaced."""
    return answer
