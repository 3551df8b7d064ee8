"""Malformed bytes end their own connection and affect no other."""

import random
import struct
from collections.abc import Iterator

import pytest
import trio
from structlog.testing import capture_logs

from gateway.data_path.api_table import API_TABLE
from gateway.data_path.config import Limits
from kafka_codecs.apis import ApiKey
from tests.gateway.data_path.running_data_path import running_gateway
from tests.support.fake_broker import FakeBroker, answer_size, running_fake_broker
from tests.support.wire import make_frame, open_wire, produce_body, request_frame

EXPECTED = {
    "bad_frame_received",
    "bad_answer_received",
    "unknown_request_received",
    "connection_lost",
    "connection_refused",
}


def _garbage(rng: random.Random) -> bytes:
    """Random bytes after a start that makes the gateway read on."""
    key = rng.choice(list(API_TABLE))
    entry = API_TABLE[key]
    version = rng.randint(0, entry.max_version)
    body = rng.randbytes(rng.randint(0, 200))
    whole = bytearray(request_frame(key, version, rng.randrange(2**31), body))
    match rng.randrange(4):
        case 0:
            whole[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        case 1:
            del whole[rng.randrange(len(whole)) :]
        case 2:
            whole += rng.randbytes(50)
        case _:
            pass
    return bytes(whole)


def _produces(rng: random.Random) -> Iterator[bytes]:
    """Produce requests with all kinds of acks, and a body cut anywhere."""
    for version in (3, 9, 11):
        body = produce_body(version, rng.choice([-1, 0, 1, 7]), rng.randbytes(40))
        for cut in range(len(body)):
            yield request_frame(ApiKey.PRODUCE, version, 1, body[:cut])


@pytest.mark.parametrize("seed", range(8))
async def test_no_bytes_cause_an_internal_error(seed: int) -> None:
    """The log has no error or traceback, and the next client is served."""
    rng = random.Random(seed)
    broker = FakeBroker(handlers=dict.fromkeys(API_TABLE, answer_size))
    del broker.handlers[ApiKey.API_VERSIONS], broker.handlers[ApiKey.METADATA]
    broker.versions = {key: (0, api.max_version) for key, api in API_TABLE.items()}
    limits = Limits(linger_timeout_s=0.05)
    async with running_fake_broker(broker):
        async with running_gateway([broker.address], limits=limits) as gateway:
            frames = [_garbage(rng) for _ in range(60)] + list(_produces(rng))[seed::8]
            with capture_logs() as lines:
                for frame in frames:
                    async with open_wire(gateway.address) as client:
                        try:
                            await client.send(frame)
                            await client.stream.send_eof()
                            while await client.stream.receive_some():
                                pass
                        except trio.BrokenResourceError:
                            pass
            assert not [line for line in lines if line["event"] not in EXPECTED]
            async with open_wire(gateway.address) as client:
                await client.send(request_frame(ApiKey.FETCH, 4, 1, b""))
                assert struct.unpack_from(">i", await client.frame()) == (1,)


@pytest.mark.parametrize("size", [-1, 0, 7, 2**31 - 1])
@pytest.mark.parametrize("rest", [b"", b"\0\3\0\1"])
async def test_an_invalid_size_is_refused_at_once(size: int, rest: bytes) -> None:
    """A client that waits for an answer would otherwise wait for ever."""
    async with running_fake_broker(FakeBroker()) as broker:
        async with (
            running_gateway([broker.address]) as gateway,
            open_wire(gateway.address) as client,
        ):
            with capture_logs() as lines, trio.fail_after(5):
                await client.send(struct.pack(">i", size) + rest)
                assert await client.at_end()
            assert [line["event"] for line in lines] == ["bad_frame_received"]


async def test_a_request_with_too_many_entries_is_refused() -> None:
    """Two bytes name a group, and each group must be looked up and answered."""
    entries = Limits().max_request_entries
    async with running_fake_broker(FakeBroker()) as broker:
        async with (
            running_gateway([broker.address]) as gateway,
            open_wire(gateway.address) as client,
        ):
            body = struct.pack(">i", entries + 1) + bytes(2 * (entries + 1))
            with capture_logs() as lines, trio.fail_after(20):
                await client.send(request_frame(ApiKey.DESCRIBE_GROUPS, 0, 1, body))
                assert await client.at_end()
            (line,) = lines
            assert line["event"] == "bad_frame_received"
            assert f"more than {entries} entries" in line["reason"]


async def test_a_silent_client_delays_no_other() -> None:
    """Open and half-open connections occupy a slot each, but no upstream connection."""
    broker = FakeBroker(handlers={ApiKey.FETCH: answer_size})
    async with running_fake_broker(broker), running_gateway([broker.address]) as gateway:
        before = broker.connections
        async with trio.open_nursery() as nursery:
            for sent in (
                b"",
                b"\0",
                make_frame(b"")[:3],
                request_frame(ApiKey.FETCH, 4, 1, b"")[:9],
            ):

                async def stay(sent: bytes = sent) -> None:
                    async with open_wire(gateway.address) as silent:
                        await silent.send(sent)
                        await trio.sleep_forever()

                nursery.start_soon(stay)
            async with open_wire(gateway.address) as client:
                await client.send(request_frame(ApiKey.FETCH, 4, 1, b""))
                await client.frame()
                assert broker.connections == before + 1
            nursery.cancel_scope.cancel()
