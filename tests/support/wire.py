"""A Kafka client on one socket that sends whole requests or arbitrary bytes."""

import struct
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import trio

from gateway.data_path.produce_acks import FIRST_TRANSACTIONAL_VERSION
from kafka_codecs import decode, encode
from kafka_codecs.apis import APIS, ApiKey
from kafka_codecs.declaration import Struct
from kafka_codecs.header import RequestHeader, decode_response_header, encode_request_header

SIZE = struct.Struct(">i")


def make_frame(payload: bytes) -> bytes:
    """A frame: its size and the payload."""
    return SIZE.pack(len(payload)) + payload


def request_frame(
    key: ApiKey, version: int, correlation_id: int, body: bytes, client_id: str | None = "test"
) -> bytes:
    """The frame of a request with an encoded body."""
    header = RequestHeader(
        api_key=key, api_version=version, correlation_id=correlation_id, client_id=client_id
    )
    return make_frame(encode_request_header(header) + body)


def produce_body(version: int, acks: int, payload: bytes = b"") -> bytes:
    """The body of a Produce request up to its acks, then arbitrary bytes."""
    if version < FIRST_TRANSACTIONAL_VERSION:
        return struct.pack(">h", acks) + payload
    transactional_id = b"\0" if ApiKey.PRODUCE.is_flexible(version) else b"\xff\xff"
    return transactional_id + struct.pack(">h", acks) + payload


def produce_frame(
    version: int,
    topics: Mapping[bytes, Sequence[bytes | None]],
    *,
    acks: int = -1,
) -> bytes:
    """The frame of a Produce request with the records of each partition. Topics have names, and
    from v13 on ids, which are given as bytes."""
    flexible = ApiKey.PRODUCE.is_flexible(version)
    tags = b"\0" if flexible else b""

    def count(length: int) -> bytes:
        return _varint(length + 1) if flexible else struct.pack(">i", length)

    def topic_field(topic: bytes) -> bytes:
        if version >= 13:
            return topic
        return count(len(topic)) + topic if flexible else struct.pack(">h", len(topic)) + topic

    body = struct.pack(">i", 30_000) + count(len(topics))
    for topic, partitions in topics.items():
        body += topic_field(topic) + count(len(partitions))
        for index, records in enumerate(partitions):
            size = count(-1 if records is None else len(records))
            body += struct.pack(">i", index) + size + (records or b"") + tags
        body += tags
    payload = produce_body(version, acks, body + tags)
    return request_frame(ApiKey.PRODUCE, version, 7, payload)


def _varint(value: int) -> bytes:
    low, high = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + _varint(high) if high else bytes([low])


class Wire:
    """A connection. Reading past its end raises EOFError."""

    def __init__(self, stream: trio.SocketStream | trio.SSLStream[trio.SocketStream]) -> None:
        self.stream = stream

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def receive(self, count: int) -> bytes:
        received = bytearray()
        while len(received) < count:
            chunk = await self.stream.receive_some(count - len(received))
            if not chunk:
                raise EOFError
            received += chunk
        return bytes(received)

    async def frame(self) -> bytes:
        """The next frame, without its size."""
        (size,) = SIZE.unpack(await self.receive(SIZE.size))
        return await self.receive(size)

    async def at_end(self) -> bool:
        """Wait for the end of the stream. False if bytes arrive instead."""
        try:
            return not await self.stream.receive_some(1)
        except trio.BrokenResourceError:  # reset, because sent bytes were left unread
            return True

    async def ask(self, message: Struct, version: int, correlation_id: int = 7) -> Any:
        key = message.SCHEMA.api_key
        assert key is not None
        await self.send(request_frame(key, version, correlation_id, encode(message, version)))
        frame = await self.frame()
        answered, offset = decode_response_header(key, version, frame)
        assert answered == correlation_id
        return decode(APIS[key].response, frame[offset:], version)


@asynccontextmanager
async def open_wire(address: tuple[str, int]) -> AsyncIterator[Wire]:
    """A connection for the length of the block."""
    async with await trio.open_tcp_stream(*address) as stream:
        yield Wire(stream)
