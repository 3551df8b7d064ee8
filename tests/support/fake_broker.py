"""A broker behind a real socket whose answers the test decides.

It answers ApiVersions and Metadata (as the only broker) itself. All other requests go to the
handler that the test has set for the api key.
"""

import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import trio

from kafka_codecs import WireError, decode, encode
from kafka_codecs.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kafka_codecs.apis import APIS, ApiKey
from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.header import RequestHeader, decode_request_header, encode_response_header
from kafka_codecs.metadata import MetadataResponse, MetadataResponseBroker
from tests.support.wire import Wire, make_frame

KAFKA_3 = {
    ApiKey.PRODUCE: (0, 11),
    ApiKey.FETCH: (0, 16),
    ApiKey.LIST_OFFSETS: (0, 8),
    ApiKey.METADATA: (0, 12),
    ApiKey.FIND_COORDINATOR: (0, 4),
    ApiKey.JOIN_GROUP: (0, 9),
    ApiKey.HEARTBEAT: (0, 4),
    ApiKey.OFFSET_COMMIT: (0, 8),
    ApiKey.API_VERSIONS: (0, 3),
    ApiKey.DESCRIBE_CLUSTER: (0, 0),
}

FIRST_API_VERSIONS_WITH_FEATURES_FROM_0 = 4

Handler = Callable[[Wire, RequestHeader, bytes], Awaitable[None]]


@dataclass(slots=True, kw_only=True)
class FakeBroker:
    """The broker's supported versions, its handlers, and a record of its requests."""

    versions: Mapping[ApiKey, tuple[int, int]] = field(default_factory=lambda: dict(KAFKA_3))
    features: ApiVersionsResponse = field(default_factory=ApiVersionsResponse)
    """The broker's features come from this response."""
    handlers: dict[ApiKey, Handler] = field(default_factory=dict)
    address: tuple[str, int] = ("", 0)
    node_id: int = 1
    cluster_id: str | None = "fake"
    seen: list[RequestHeader] = field(default_factory=list)
    software: list[tuple[str, str]] = field(default_factory=list)
    connections: int = 0
    closed: trio.Event = field(default_factory=trio.Event)

    async def serve(self, stream: trio.SocketStream) -> None:
        self.connections += 1
        wire = Wire(stream)
        async with stream:
            try:
                while True:
                    await self._serve_one(wire)
            except (EOFError, WireError, trio.BrokenResourceError, trio.ClosedResourceError):
                pass
            finally:
                self.connections -= 1
                self.closed.set()
                self.closed = trio.Event()

    async def down_to(self, connections: int) -> None:
        """Wait until at most this many connections are open."""
        with trio.fail_after(5):
            while self.connections > connections:
                await self.closed.wait()

    async def _serve_one(self, wire: Wire) -> None:
        frame = await wire.frame()
        header, offset = decode_request_header(frame)
        self.seen.append(header)
        key = ApiKey(header.api_key)
        handler = self.handlers.get(key)
        if handler:
            await handler(wire, header, frame[offset:])
        elif key is ApiKey.API_VERSIONS:
            await self.answer_versions(wire, header, frame[offset:])
        elif key is ApiKey.METADATA:
            await answer(wire, header, self.metadata())
        else:
            raise EOFError

    def metadata(self) -> MetadataResponse:
        """The answer to any Metadata request."""
        host, port = self.address
        broker = MetadataResponseBroker(node_id=self.node_id, host=host, port=port)
        return MetadataResponse(brokers=(broker,), cluster_id=self.cluster_id)

    async def answer_versions(self, wire: Wire, header: RequestHeader, body: bytes) -> None:
        if header.api_version > self.versions[ApiKey.API_VERSIONS][1]:
            refused = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
            await answer_bytes(wire, header, encode(refused, 0))
            return
        request = decode(ApiVersionsRequest, body, header.api_version)
        self.software.append((request.client_software_name, request.client_software_version))
        versions = tuple(
            ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in self.versions.items()
        )
        await answer(
            wire,
            header,
            ApiVersionsResponse(
                api_keys=versions,
                supported_features=tuple(
                    feature
                    for feature in self.features.supported_features
                    if feature.min_version > 0
                    or header.api_version >= FIRST_API_VERSIONS_WITH_FEATURES_FROM_0
                ),
                finalized_features=self.features.finalized_features,
                finalized_features_epoch=self.features.finalized_features_epoch,
            ),
        )


async def answer(wire: Wire, header: RequestHeader, message: Struct) -> None:
    await answer_bytes(wire, header, encode(message, header.api_version))


async def answer_bytes(wire: Wire, header: RequestHeader, body: bytes) -> None:
    """Send a response with an encoded body."""
    start = encode_response_header(header.api_key, header.api_version, header.correlation_id)
    await wire.send(make_frame(start + body))


def replying(reply: Callable[[Any], Struct | Awaitable[Struct]]) -> Handler:
    """Decode each request, and send what `reply` makes of it."""

    async def handle(wire: Wire, header: RequestHeader, body: bytes) -> None:
        request = APIS[ApiKey(header.api_key)].request
        assert request is not None
        message = reply(decode(request, body, header.api_version))
        await answer(wire, header, message if isinstance(message, Struct) else await message)

    return handle


async def answer_size(wire: Wire, header: RequestHeader, body: bytes) -> None:
    """Answer any request with the size of its body, as an int32."""
    await answer_bytes(wire, header, struct.pack(">i", len(body)))


def together(count: int, handler: Handler) -> Handler:
    """Answer a connection's requests only once this many have arrived."""

    async def wait_for_all(wire: Wire, header: RequestHeader, body: bytes) -> None:
        requests = [(header, body)]
        while len(requests) < count:
            frame = await wire.frame()
            header, offset = decode_request_header(frame)
            requests.append((header, frame[offset:]))
        for request in requests:
            await handler(wire, *request)

    return wait_for_all


@asynccontextmanager
async def running_fake_broker(broker: FakeBroker) -> AsyncIterator[FakeBroker]:
    """Run a fake broker for the length of the block. A second run keeps the port."""
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(
            partial(trio.serve_tcp, host="127.0.0.1"), broker.serve, broker.address[1]
        )
        broker.address = ("127.0.0.1", listeners[0].socket.getsockname()[1])
        yield broker
        nursery.cancel_scope.cancel()


async def run_until_cancelled(
    broker: FakeBroker, task_status: trio.TaskStatus[trio.CancelScope]
) -> None:
    """Run a fake broker until the reported scope is cancelled."""
    with trio.CancelScope() as scope:
        async with running_fake_broker(broker):
            task_status.started(scope)
            await trio.sleep_forever()
