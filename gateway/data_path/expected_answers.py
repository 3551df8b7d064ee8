"""Answers that a connection to a broker owes to the gateway: for one of its tasks, or to be
inspected before the client gets them."""

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import trio

from gateway.cluster.broker_connection import DECODED_AT_ONCE_BYTES_MAX
from gateway.data_path.errors import BadAnswer
from gateway.data_path.held_answers import HeldAnswer
from kafka_codecs import WireError, decode
from kafka_codecs.apis import APIS, ApiKey
from kafka_codecs.header import decode_response_header

Inspect = Callable[[bytes | None], bool]
"""Looks at an answer (without its size), None if it was lost. Whether the client gets it."""


class Inspected:
    """An expected answer that is looked at before the client gets it."""

    __slots__ = ("_inspect", "client_correlation_id", "is_over", "upstream_correlation_id")

    def __init__(
        self, upstream_correlation_id: int, client_correlation_id: int, inspect: Inspect
    ) -> None:
        self.upstream_correlation_id = upstream_correlation_id
        self.client_correlation_id = client_correlation_id
        self.is_over = False
        """Whether the answer has arrived, or was lost."""
        self._inspect = inspect

    def arrive(self, frame: bytes | None) -> bool:
        """Whether the client gets the answer; None if the connection was lost."""
        self.is_over = True
        return self._inspect(frame)


class ExpectedAnswer:
    """An expected answer for a task of the gateway."""

    __slots__ = (
        "_api_version",
        "_arrived",
        "_frame",
        "_is_forgotten",
        "_key",
        "_room",
        "upstream_correlation_id",
    )

    def __init__(self, upstream_correlation_id: int, key: ApiKey, api_version: int) -> None:
        self.upstream_correlation_id = upstream_correlation_id
        self._key = key
        self._api_version = api_version
        self._arrived = trio.Event()
        self._frame: bytes | None = None  # still None after `arrive` if the connection was lost
        self._room: HeldAnswer | None = None  # of a long answer, until it is decoded
        self._is_forgotten = False

    def arrive(self, frame: bytes | None, room: HeldAnswer | None = None) -> None:
        """Deliver the answer, or None if the connection was lost. `room`: what a long one takes."""
        self._frame, self._room = frame, room
        self._arrived.set()
        if self._is_forgotten:
            self.forget()

    def forget(self) -> None:
        """Drop the answer, also one that comes later: it has been decoded, or is not needed."""
        self._is_forgotten = True
        self._frame = None
        if self._room is not None:
            self._room.free()

    async def wait_until_arrived(self) -> None:
        """Wait for `arrive`. In a batch most answers are here already."""
        if not self._arrived.is_set():
            await self._arrived.wait()

    async def answer(self) -> Any | None:
        """The decoded response, after `arrived`; None if the connection was lost. Raises BadAnswer
        if the answer is malformed."""
        if self._frame is None:
            return None
        try:
            with blaming_broker():
                return await self._decode(self._frame)
        finally:
            self.forget()

    async def _decode(self, frame: bytes) -> Any:
        _, offset = decode_response_header(self._key, self._api_version, frame)
        # librdkafka's mock cluster ends its Metadata answers with one byte too many.
        trailing_ok = self._key is ApiKey.METADATA
        response, body = APIS[self._key].response, frame[offset:]
        read = partial(decode, response, body, self._api_version, trailing_ok=trailing_ok)
        if len(body) > DECODED_AT_ONCE_BYTES_MAX:
            return await trio.to_thread.run_sync(read)
        return read()


@contextlib.contextmanager
def blaming_broker() -> Iterator[None]:
    """Raises BadAnswer instead of WireError, which closes connections of clients that send
    malformed requests."""
    try:
        yield
    except WireError as error:
        raise BadAnswer(f"the broker sent a malformed answer: {error}") from None
