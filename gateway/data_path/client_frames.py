"""The requests of one client, taken out of its stream, and the answers to it."""

import struct
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, TypeVar

import trio

from gateway.data_path.client_lifetime import ClientLifetime
from gateway.data_path.connection_context import ConnectionContext, Rewrite
from gateway.data_path.connection_limiter import ConnectionSlot
from gateway.data_path.entries import bytes_of, entries_of
from gateway.data_path.errors import BadFrame
from gateway.data_path.held_requests import COUNTED_FROM_BYTES
from gateway.data_path.splice import StreamEnded
from gateway.data_path.stream import FrameSource
from gateway.data_path.upstream import Upstream
from gateway.data_path.upstream_connection import SIZE
from gateway.transport.sockets import NullSink, Sink, Transport, send_all
from kafka_codecs import WireError, decode, encode
from kafka_codecs.apis import APIS, ApiKey
from kafka_codecs.declaration import Struct
from kafka_codecs.header import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_response_header,
)
from kafka_codecs.metadata import RelayedMetadataResponse

ASIDE_FROM_BYTES = 64 * 1024
"""From this size on, a message may take milliseconds to decode or encode."""

HEARTBEATS_MAX, REMEMBERED_BYTES_MAX = 4_096, 256
"""Heartbeats that are remembered decoded, and the longest of them: a member at rest sends the same
bytes each time."""
_REPEATED = frozenset({ApiKey.HEARTBEAT, ApiKey.CONSUMER_GROUP_HEARTBEAT})
_decode_remembered = lru_cache(HEARTBEATS_MAX)(decode)

REQUEST_START = struct.Struct(">ihhi")  # size, api key, api version, correlation id
SHORTEST_REQUEST = REQUEST_START.size - SIZE.size

_T = TypeVar("_T")


class ClientFrames:
    """Takes requests out of the stream of one client, decodes them, and sends answers.

    The caller has sent the run of relayed requests to the broker before it takes one out.
    """

    __slots__ = (
        "_held",
        "_held_bytes",
        "_held_of",
        "_limits",
        "_sink",
        "_slot",
        "_work_limiter",
        "is_sending",
        "lifetime",
        "sock",
        "source",
        "upstream",
    )

    def __init__(
        self,
        sock: Transport,
        source: FrameSource,
        upstream: Upstream,
        context: ConnectionContext,
        slot: ConnectionSlot,
        *,
        lifetime: ClientLifetime,
    ) -> None:
        self.sock = sock
        self._sink: Sink = sock
        self.lifetime = lifetime
        self.is_sending = False
        """Whether a part of an answer has been sent, after which nothing but the rest may be."""
        self.source = source
        self.upstream = upstream
        self._work_limiter = context.work_limiter
        self._limits = context.limits
        self._slot = slot
        self._held = context.held
        self._held_bytes, self._held_of = 0, slot.owner

    async def receive(self) -> None:
        """Wait for more bytes. Raises StreamEnded."""
        if not await self.source.fill():
            raise StreamEnded

    async def hold(self, size: int) -> bytes:
        """The next request with its header, once it is here. It counts as held until `let_go`.
        Raises BadFrame if it is too long, and TooMuchHeld."""
        if size > self._limits.max_held_request_bytes:
            raise BadFrame(f"a request of {size} bytes, above the limit for its api")
        if size < COUNTED_FROM_BYTES:
            return await self.source.hold(size)
        return await self.source.hold(size, self.count_held)

    def let_go(self) -> None:
        """Stop counting the requests that were held: they are answered, or the connection has
        ended."""
        if self._held_bytes:
            self._held.give_back(self._held_of, self._held_bytes)
            self._held_bytes = 0

    def count_held(self, count_bytes: int) -> None:
        """Count so many bytes of a request or its answer as held until `let_go`. Raises
        TooMuchHeld."""
        if not self._held_bytes:
            self._held_of = self._slot.owner
        self._held.take(self._held_of, count_bytes)
        self._held_bytes += count_bytes

    async def hold_body(self, size: int, key: ApiKey | None = None) -> tuple[RequestHeader, bytes]:
        """Hold the next request, in its two parts. `key` overrides the api key in the frame."""
        frame = await self.hold(size)
        header, body_at = decode_request_header(frame, key)
        return header, frame[body_at:]

    async def hold_request(self, size: int) -> tuple[RequestHeader, Struct]:
        """Hold the next request, decoded."""
        header, body = await self.hold_body(size)
        return header, await self.decode(header, body)

    async def decode(self, header: RequestHeader, body: bytes) -> Struct:
        """The request with this body. Raises BadFrame or WireError."""
        self.upstream.client_id = header.client_id
        read = partial(self.read, header.api_key, header.api_version, body)
        return await self.aside_if_large(read, len(body))

    def read(self, api_key: int, version: int, body: bytes) -> Struct:
        """The request with this body, decoded here and now."""
        # An ApiKey's hash is its number's; mypy takes a class that defines __hash__ for unhashable.
        key: Any = api_key
        request: Any = APIS[key].request
        assert request is not None
        is_short_repetition = api_key in _REPEATED and len(body) <= REMEMBERED_BYTES_MAX
        read = _decode_remembered if is_short_repetition else decode
        message: Struct = read(request, body, version, trailing_ok=True)
        if len(body) > self._limits.max_request_entries:  # every entry takes at least one byte
            self._check_entries(api_key, message)
        return message

    def _check_entries(self, api_key: int, message: Struct) -> None:
        entries_max = self._limits.max_request_entries
        if entries_of(message) > entries_max:
            name = ApiKey(api_key).name
            raise BadFrame(f"a {name} request with more than {entries_max} entries")

    async def send(
        self, header: RequestHeader, response: Struct, version: int | None = None
    ) -> None:
        """Answer the client, after every earlier answer has been sent."""
        frame = await self.frame_answer(header, response, version)
        await self.upstream.idle()
        await self.put(frame)

    async def put(self, answer: bytes | memoryview) -> None:
        """Send an encoded answer, or the rest of one."""
        self.is_sending = True
        await send_all(self._sink, answer)
        self.is_sending = False

    def silence(self) -> None:
        """Send the client nothing from now on. It has gone, and an answer was left out: if it has
        closed only its side, it would take each later answer for that of another request."""
        self._sink = NullSink()
        self.upstream.silence()

    async def frame_answer(
        self, header: RequestHeader, response: Struct, version: int | None = None
    ) -> bytes:
        """The answer in this version, by default the request's."""
        if version is None:
            version = header.api_version
        write = partial(framed_answer, header, version, response)
        return await self.aside_if_large(write, bytes_of(response, ASIDE_FROM_BYTES))

    async def rewrite(
        self, key: ApiKey, version: int, correlation_id: int, rewrite: Rewrite, answer: bytes
    ) -> bytes:
        """The broker's answer as `rewrite` changes it, for the client."""
        _, body_at = decode_response_header(key, version, answer)
        body = answer[body_at:]
        # librdkafka's mock cluster ends its Metadata answers with one byte too many.
        kind: Any = RelayedMetadataResponse if key is ApiKey.METADATA else APIS[key].response
        read = partial(decode, kind, body, version, trailing_ok=True)
        message = await self.aside_if_large(read, len(body))
        changed = await rewrite(message)
        write = partial(_frame_answer, key, version, correlation_id, changed)
        return await self.aside_if_large(write, len(body))

    async def aside_if_large(self, work: Callable[[], _T], size: int) -> _T:
        """Do the work here, or in a thread if its size would delay other connections."""
        if size < ASIDE_FROM_BYTES:
            return work()
        return await trio.to_thread.run_sync(work, limiter=self._work_limiter)


def framed_answer(header: RequestHeader, version: int, response: Struct) -> bytes:
    """The answer with its header and size. Raises ValueError if the version cannot carry it."""
    try:
        return _frame_answer(header.api_key, version, header.correlation_id, response)
    except WireError as error:  # the gateway made this answer, so the bug is here
        name = ApiKey(header.api_key).name
        raise ValueError(f"invalid answer to {name} version {version}") from error


def framed_body(header: RequestHeader, body: bytes) -> bytes:
    """An encoded answer with its header and size."""
    start = encode_response_header(header.api_key, header.api_version, header.correlation_id)
    return SIZE.pack(len(start) + len(body)) + start + body


def _frame_answer(key: int, version: int, correlation_id: int, response: Struct) -> bytes:
    answer = encode_response_header(key, version, correlation_id) + encode(response, version)
    return SIZE.pack(len(answer)) + answer
