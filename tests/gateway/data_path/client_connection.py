"""A client connection in front of a fake broker."""

from collections.abc import AsyncIterator, Callable, Generator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import structlog
import trio
import trio.testing

from gateway.data_path.config import DataPathConfig, Limits
from gateway.data_path.connection import ClientConnection
from gateway.data_path.connection_tasks import ConnectionTasks
from gateway.data_path.group_apis import AnswerUnderWay, GroupApis, GroupRequest
from kafka_codecs.apis import ApiKey
from kafka_codecs.declaration import Struct
from kafka_codecs.header import RequestHeader
from kafka_codecs.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.gateway.data_path.running_data_path import RunningGateway, running_gateway
from tests.support.fake_broker import (
    FakeBroker,
    Handler,
    answer_bytes,
    answer_size,
    running_fake_broker,
)
from tests.support.until import until
from tests.support.wire import Wire, open_wire

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


@dataclass(frozen=True, slots=True)
class Ground:
    """A client's connection to a gateway in front of a fake broker."""

    broker: FakeBroker
    gateway: RunningGateway
    client: Wire


@asynccontextmanager
async def ground(
    *,
    group_apis: GroupApis | None = None,
    config: DataPathConfig | None = None,
    limits: Limits | None = None,
    versions: Mapping[ApiKey, tuple[int, int]] = MappingProxyType({}),
) -> AsyncIterator[Ground]:
    """A broker that answers Fetch and Produce with the size of the received body. `versions` are
    those of further apis that it has."""
    broker = FakeBroker(handlers={ApiKey.FETCH: answer_size, ApiKey.PRODUCE: answer_size})
    broker.versions = {**broker.versions, **versions}
    async with running_fake_broker(broker):
        async with running_gateway(
            [broker.address], group_apis=group_apis, config=config, limits=limits
        ) as gate:
            async with open_wire(gate.address) as client:
                yield Ground(broker, gate, client)


def go_idle_soon(tasks: ConnectionTasks[ClientConnection], connection: ClientConnection) -> None:
    """Keep no tasks."""

    async def go_idle() -> None:
        await trio.lowlevel.checkpoint()  # its tasks begin to wait
        connection.go_idle()

    tasks._nursery.start_soon(go_idle)


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


class Later(AnswerUnderWay):
    """An answer that the test gives."""

    def __init__(self) -> None:
        self.answer: Struct | Exception | None = None
        self.changed: Callable[[], None] | None = None
        self.taken = trio.Event()
        self.is_abandoned = self.is_cancelled = False

    def __await__(self) -> Generator[Any, None, Struct]:
        async def answer() -> Struct:
            try:
                await self.taken.wait()
            except trio.Cancelled:
                self.is_cancelled = True
                raise
            assert isinstance(self.answer, Struct)
            return self.answer

        return answer().__await__()

    def watch(self, changed: Callable[[], None]) -> bool:
        self.changed = changed
        return True

    def take(self) -> Struct | None:
        if isinstance(self.answer, Exception):
            raise self.answer
        structlog.get_logger().warning("taken")
        return self.answer

    def abandon(self) -> None:
        self.is_abandoned = True


class AnswersLater(GroupApis):
    """Group APIs that answer the first request immediately; the negotiation is over then."""

    def __init__(self, kind: type[Later] = Later) -> None:
        self.pending: list[Later] = []
        self._kind = kind
        self._has_begun = False

    def answer(self, request: GroupRequest) -> Struct | Later:
        if not self._has_begun:
            self._has_begun = True
            return HeartbeatResponse()
        self.pending.append(self._kind())
        return self.pending[-1]

    async def wait_for_requests(self, count: int) -> Later:
        """Wait for this many requests. Returns the latest."""
        await until(lambda: len(self.pending) >= count)
        await trio.testing.wait_all_tasks_blocked(0.001)
        return self.pending[-1]


def answer_after(release: trio.Event) -> Handler:
    """Returns no answer for any request."""

    async def answer_late(wire: Wire, header: RequestHeader, body: bytes) -> None:
        await release.wait()
        await answer_bytes(wire, header, b"")

    return answer_late
