"""Admin requests that one process of a fleet asks another."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs

from gateway.control.control_socket import listening
from gateway.data_path.config import Limits
from gateway.data_path.errors import BrokerLost
from gateway.data_path.group_apis import GroupRequest
from gateway.data_path.held_requests import HeldRequests
from gateway.fleet.fleet_state import SLOTS_FOLDER
from gateway.quotas.quota_key import QuotaKey
from gateway.requests import owner_calls
from gateway.requests.owner_calls import CALLS_MAX, OwnerAway, OwnerCalls, serve_calls
from kafka_codecs.apis import ApiKey
from kafka_codecs.declaration import Struct
from kafka_codecs.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from tests.support.hosted_groups import lone_request
from tests.support.until import until

REQUEST = DescribeGroupsRequest(groups=("g",))
ANSWER = DescribeGroupsResponse(groups=(DescribedGroup(group_id="g", group_state="Stable"),))


class Broker:
    """The client's own connection."""

    def __init__(self, *, is_lost: bool = False) -> None:
        self.versions = {ApiKey.DESCRIBE_GROUPS: (0, 6)}
        self.asked: list[tuple[Struct, int]] = []
        self._is_lost = is_lost

    async def ask(self, message: Struct, version: int) -> Struct:
        """The broker's answer."""
        self.asked.append((message, version))
        if self._is_lost:
            raise BrokerLost
        return ANSWER


@asynccontextmanager
async def owner(
    folder: Path,
    answer: Callable[[GroupRequest], Awaitable[Struct]],
    held: HeldRequests | None = None,
) -> AsyncIterator[OwnerCalls]:
    """The process of slot 1, which answers like this."""
    own = folder / SLOTS_FOLDER / "1"
    own.mkdir(parents=True)
    async with trio.open_nursery() as nursery:
        await nursery.start(serve_calls, own, answer, Limits(), held or HeldRequests(Limits()))
        with trio.fail_after(10):
            yield OwnerCalls(folder)
        nursery.cancel_scope.cancel()


def request_at(broker: Broker) -> GroupRequest:
    """A client's request."""
    made: Any = lone_request(REQUEST, 5)
    made.upstream = broker
    return made  # type: ignore[no-any-return]


async def test_the_owner_asks_the_cluster_by_the_client_s_own_connection(tmp_path: Path) -> None:
    """The cluster decides what that client may see."""
    seen: list[GroupRequest] = []

    async def answer(request: GroupRequest) -> Struct:
        seen.append(request)
        question = DescribeGroupsRequest(groups=("p",), include_authorized_operations=True)
        first: Struct = await request.upstream.ask(question, 3)
        (second,) = await request.upstream.ask_all([question], 3)
        assert first == second
        return first

    broker = Broker()
    async with owner(tmp_path, answer) as calls:
        assert await calls.ask(1, request_at(broker), REQUEST) == ANSWER
    (request,) = seen
    assert (request.message, request.header.api_version) == (REQUEST, 5)
    assert (request.header.client_id, request.owner) == ("client", QuotaKey("127.0.0.1"))
    assert request.upstream.version_for(ApiKey.DESCRIBE_GROUPS, 9) == 6
    assert [version for _message, version in broker.asked] == [3, 3]


async def test_the_loss_of_the_client_s_broker_reaches_the_client(tmp_path: Path) -> None:
    """The owner does not take it for the cluster's answer."""

    async def answer(request: GroupRequest) -> Struct:
        with pytest.raises(BrokerLost):
            await request.upstream.ask(REQUEST, 5)
        return ANSWER

    async with owner(tmp_path, answer) as calls:
        assert await calls.ask(1, request_at(Broker(is_lost=True)), REQUEST) == ANSWER


@pytest.mark.parametrize("error", [BrokerLost(), ValueError("a bug")])
async def test_an_owner_that_cannot_answer_counts_as_away(error: Exception, tmp_path: Path) -> None:
    """The client tries again, and the next call finds the owner as before."""

    async def answer(_request: GroupRequest) -> Struct:
        raise error

    async with owner(tmp_path, answer) as calls:
        for _ in range(2):
            with capture_logs(), pytest.raises(OwnerAway):
                await calls.ask(1, request_at(Broker()), REQUEST)


async def test_what_a_call_takes_is_counted_until_it_is_answered(tmp_path: Path) -> None:
    """A call from another process counts like one of the owner's own clients, and is refused beyond
    the limit."""
    counts: list[int] = []

    async def answer(request: GroupRequest) -> Struct:
        request.hold(Limits().max_held_requests_bytes if counts else 5)
        counts.append(held.count_bytes)
        return ANSWER

    held = HeldRequests(Limits())
    async with owner(tmp_path, answer, held) as calls:
        assert await calls.ask(1, request_at(Broker()), REQUEST) == ANSWER
        with capture_logs(), pytest.raises(OwnerAway):
            await calls.ask(1, request_at(Broker()), DescribeGroupsRequest(groups=("g" * 9,)))
    assert counts == [5]
    assert held.count_bytes == 0


async def test_a_call_without_a_place_is_refused_at_once(tmp_path: Path) -> None:
    """Its process holds what the client has sent meanwhile."""
    may_end = trio.Event()
    begun: list[GroupRequest] = []

    async def answer(request: GroupRequest) -> Struct:
        begun.append(request)
        await may_end.wait()
        return ANSWER

    def has_begun(calls_begun: int) -> bool:
        return len(begun) == calls_begun

    async with owner(tmp_path, answer) as calls, trio.open_nursery() as nursery:
        for number in range(1, CALLS_MAX + 1):
            nursery.start_soon(calls.ask, 1, request_at(Broker()), REQUEST)
            await until(partial(has_begun, number))
        with pytest.raises(OwnerAway):
            await calls.ask(1, request_at(Broker()), REQUEST)
        may_end.set()


async def test_an_owner_that_does_not_run_is_away(tmp_path: Path) -> None:
    """Neither an error of the socket nor a traceback reaches the client."""
    with pytest.raises(OwnerAway):
        await OwnerCalls(tmp_path).ask(1, request_at(Broker()), REQUEST)


@pytest.mark.parametrize("line", [b'{"answer": ""}', b"x" * 65, b"x" * 64 + b"\n"])
async def test_an_answer_without_an_end_or_beyond_the_limit_counts_as_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: bytes
) -> None:
    """The process ended while it answered, or does not know when to stop."""
    monkeypatch.setattr(owner_calls, "LINE_BYTES_MAX", 64)
    own = tmp_path / SLOTS_FOLDER / "1"
    own.mkdir(parents=True)

    async def answer(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(line)

    with trio.fail_after(10), listening(own, owner_calls.SOCKET_NAME) as listener:
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(trio.serve_listeners, answer, [listener]))
            with pytest.raises(OwnerAway):
                await OwnerCalls(tmp_path).ask(1, request_at(Broker()), REQUEST)
            nursery.cancel_scope.cancel()


async def test_a_line_may_arrive_in_pieces() -> None:
    sender, receiver = trio.testing.memory_stream_pair()
    for piece in (b"o", b"ne", b"\n"):
        await sender.send_all(piece)
    assert await owner_calls._receive_line(receiver) == b"one\n"
