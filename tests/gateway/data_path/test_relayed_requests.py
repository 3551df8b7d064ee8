"""Requests are relayed in front of a fake broker. `test_private_topics.py` names private topics."""

import struct

import pytest
import trio
import trio.testing

from kafka_codecs import encode
from kafka_codecs.apis import ApiKey
from kafka_codecs.header import RequestHeader
from kafka_codecs.metadata import MetadataRequest
from tests.gateway.data_path.client_connection import HEARTBEAT, Parked, ground
from tests.support.fake_broker import answer_bytes, answer_size
from tests.support.wire import Wire, produce_body, request_frame


async def test_a_relayed_request_and_its_answer_pass_untouched() -> None:
    """Even their correlation id is the same on both sides."""
    async with ground() as on:
        await on.client.send(request_frame(ApiKey.FETCH, 4, 1234, b"x" * 300))
        assert await on.client.frame() == struct.pack(">ii", 1234, 300)
        assert on.broker.seen[-1].correlation_id == 1234
        assert on.broker.seen[-1].client_id == "test"


async def test_a_client_may_use_any_correlation_ids() -> None:
    """Negative ones, which the gateway uses towards brokers for what is not answered, and the same
    one for each request."""
    async with ground() as on:
        ids = [-1, -(2**31), -1, 5, 5, 0, 0]
        sent = [
            request_frame(ApiKey.FETCH, 4, correlation_id, b"x" * n)
            for n, correlation_id in enumerate(ids)
        ]
        await on.client.send(b"".join(sent))
        for n, correlation_id in enumerate(ids):
            assert await on.client.frame() == struct.pack(">ii", correlation_id, n)
        assert min(seen.correlation_id for seen in on.broker.seen) >= 0


@pytest.mark.parametrize(
    ("key", "version"),
    [(ApiKey.PRODUCE, version) for version in range(4)]
    + [(ApiKey.FETCH, version) for version in range(5)]
    + [(ApiKey.LIST_OFFSETS, version) for version in range(2)],
)
async def test_what_the_broker_has_from_before_kafka_0_11_is_relayed(
    key: ApiKey, version: int
) -> None:
    """A client that may join a group can also read and write. Without an answer, with acks=0, the
    next request has the next one."""
    async with ground() as on:
        on.broker.handlers[key] = answer_size
        is_produce = key is ApiKey.PRODUCE
        body = produce_body(version, 1, b"abc") if is_produce else b"x" * 300
        await on.client.send(request_frame(key, version, 1234, body))
        assert await on.client.frame() == struct.pack(">ii", 1234, len(body))
        if is_produce:
            silent = produce_body(version, 0, b"abc")
            await on.client.send(request_frame(key, version, 1235, silent))
            await on.client.send(request_frame(ApiKey.FETCH, 0, 1236, b"x"))
            assert await on.client.frame() == struct.pack(">ii", 1236, 1)


async def test_the_fetches_of_a_client_are_counted() -> None:
    """Fetches count whether or not they pass immediately. Other requests do not count."""
    async with ground() as on:
        await on.client.send(request_frame(ApiKey.FETCH, 4, 1, b"x"))
        await on.client.frame()
        (flow,) = on.gateway.limiter.traffic.open
        assert flow.fetches == 1
        requests = [request_frame(ApiKey.FETCH, 4, n, b"x") for n in (2, 3)]
        produce = request_frame(ApiKey.PRODUCE, 9, 4, produce_body(9, 1, b"abc"))
        on.broker.handlers[ApiKey.PRODUCE] = answer_empty_produce
        await on.client.send(b"".join([*requests, produce]))
        for _ in range(3):
            await on.client.frame()
        assert flow.fetches == 3


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
