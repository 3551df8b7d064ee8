"""Records the frames between real clients and the gateway.

The gateway listens on one loopback address and advertises another. The recorder listens on the
second address, on the same ports, and relays the bytes. Clients need no change, and any third
address in an answer is a leak.
"""

from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import trio
from kio.index import load_response_schema
from kio.serial import entity_reader

from gateway.data_path.produce_acks import acks_of
from kafka_codecs.apis import ApiKey
from kafka_codecs.header import decode_request_header
from tests.support.wire import SIZE, make_frame


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A request and its response, both without their size."""

    port: int
    """The gateway's port."""
    api_key: int
    api_version: int
    request: bytes
    response: bytes

    def decode_response(self) -> Any:
        """The response, fully decoded by kio."""
        version = self.api_version
        schema = load_response_schema(self.api_key, version)
        _, start = entity_reader(schema.__header_schema__)(self.response, 0)
        body = self.response[start:]
        if self.api_key == ApiKey.API_VERSIONS and body[:2] == b"\0\x23":
            schema = load_response_schema(self.api_key, 0)  # KIP-511: error 35 in the v0 layout
        entity, size = entity_reader(schema)(body, 0)
        assert size == len(body), f"{schema.__name__} v{version}: {len(body) - size} bytes left"
        return entity


class WireRecorder:
    """Relays bytes between clients and the gateway's ports, and keeps the frames."""

    def __init__(self, *, listen_host: str, gateway_host: str, nursery: trio.Nursery) -> None:
        self._listen_host = listen_host
        self._gateway_host = gateway_host
        self._nursery = nursery
        self.exchanges: list[Exchange] = []
        """In the order of the answers."""
        self._watched: dict[int, trio.CancelScope] = {}

    async def watch(self, port: int) -> None:
        """Listen in front of one more port of the gateway."""

        async def serve(client: trio.SocketStream) -> None:
            try:
                gateway = await trio.open_tcp_stream(self._gateway_host, port)
            except OSError:  # the gateway is away
                await client.aclose()
                return
            async with client, gateway:
                asked: deque[bytes] = deque()
                try:
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(self._requests, client, gateway, asked)
                        await self._responses(port, gateway, client, asked)
                        nursery.cancel_scope.cancel()
                except* (trio.BrokenResourceError, trio.ClosedResourceError):
                    pass  # one side closed first

        async def listen(task_status: trio.TaskStatus[Any]) -> None:
            with trio.CancelScope() as self._watched[port]:
                await trio.serve_tcp(serve, port, host=self._listen_host, task_status=task_status)

        await self._nursery.start(listen)

    def refuse(self, port: int) -> None:
        """End the connections to a port, and refuse others until it is watched again."""
        self._watched.pop(port).cancel()

    async def _requests(
        self, client: trio.SocketStream, gateway: trio.SocketStream, asked: deque[bytes]
    ) -> None:
        async for frame in _frames(client):
            header, _ = decode_request_header(frame)
            produce = header.api_key == ApiKey.PRODUCE
            if not produce or acks_of(memoryview(make_frame(frame)), header.api_version) != 0:
                asked.append(frame)
            await gateway.send_all(make_frame(frame))
        await gateway.send_eof()

    async def _responses(
        self,
        port: int,
        gateway: trio.SocketStream,
        client: trio.SocketStream,
        asked: deque[bytes],
    ) -> None:
        async for frame in _frames(gateway):
            request = asked.popleft()
            header, _ = decode_request_header(request)
            self.exchanges.append(
                Exchange(
                    port=port,
                    api_key=header.api_key,
                    api_version=header.api_version,
                    request=request,
                    response=frame,
                )
            )
            await client.send_all(make_frame(frame))


async def _frames(stream: trio.SocketStream) -> AsyncIterator[bytes]:
    received = bytearray()
    async for chunk in stream:
        received += chunk
        while len(received) >= SIZE.size:
            end = SIZE.size + SIZE.unpack_from(received)[0]
            if len(received) < end:
                break
            yield bytes(received[SIZE.size : end])
            del received[:end]


@asynccontextmanager
async def record_traffic(
    ports: list[int], *, listen_host: str, gateway_host: str
) -> AsyncIterator[WireRecorder]:
    """Record the traffic of these gateway ports for the length of the block."""
    async with trio.open_nursery() as nursery:
        recorder = WireRecorder(listen_host=listen_host, gateway_host=gateway_host, nursery=nursery)
        for port in ports:
            await recorder.watch(port)
        yield recorder
        nursery.cancel_scope.cancel()


def addresses_in(decoded: Any) -> Iterator[tuple[str, int]]:
    """Every pair of `host` and `port` in a decoded message."""
    if isinstance(decoded, tuple):
        for part in decoded:
            yield from addresses_in(part)
    elif is_dataclass(decoded):
        values = {field.name: getattr(decoded, field.name) for field in fields(decoded)}
        if "host" in values:
            yield values["host"], int(values["port"])
        for value in values.values():
            yield from addresses_in(value)
