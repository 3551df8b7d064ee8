"""Requests of the gateway on the client's own upstream connection."""

import struct
from dataclasses import replace
from typing import Any

import pytest
import trio
import trio.testing

from gateway.cluster.broker_connection import BrokerConnection
from gateway.data_path.config import Limits
from gateway.data_path.connection_limiter import ConnectionLimiter
from gateway.data_path.errors import BadAnswer, BrokerLost, UpstreamAway
from gateway.data_path.expected_answers import ExpectedAnswer
from gateway.data_path.held_answers import HeldAnswers
from gateway.data_path.splice import StreamEnded
from gateway.data_path.stream import StreamResources
from gateway.data_path.upstream_connection import UpstreamConnection
from kafka_codecs import decode, encode
from kafka_codecs.apis import ApiKey
from kafka_codecs.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kafka_codecs.header import RequestHeader, encode_response_header
from kafka_codecs.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.support.fake_broker import (
    FakeBroker,
    Handler,
    answer,
    answer_bytes,
    running_fake_broker,
)
from tests.support.wire import Wire, make_frame


def _asking(generation_id: int) -> HeartbeatRequest:
    return HeartbeatRequest(group_id="g", generation_id=generation_id, member_id="m")


async def _echo(wire: Wire, header: RequestHeader, body: bytes) -> None:
    """Answer with the generation as the error code."""
    request = decode(HeartbeatRequest, body, header.api_version)
    await answer(wire, header, HeartbeatResponse(error_code=request.generation_id))


async def ask(
    upstream: UpstreamConnection, request: HeartbeatRequest, version: int, client_id: str
) -> Any:
    """The answer, or None if the connection was lost."""
    (asked,) = await upstream.send((request,), version, client_id)
    await asked.wait_until_arrived()
    return await asked.answer()


class Asking:
    """An upstream with its pump, in front of a broker that answers heartbeats."""

    def __init__(
        self, handler: Handler, limits: Limits | None = None, answers: HeldAnswers | None = None
    ) -> None:
        self.broker = FakeBroker(handlers={ApiKey.HEARTBEAT: handler})
        self._limits = limits or Limits()
        self._answers = answers or HeldAnswers()

    async def start(
        self, nursery: trio.Nursery, end: type[Exception] = BrokerLost
    ) -> UpstreamConnection:
        """Open the upstream. Answers for the client are dropped, until the `end`."""
        resources = StreamResources(answers=self._answers)
        opened = await BrokerConnection.open(*self.broker.address)
        upstream = UpstreamConnection(
            opened.detach(),
            opened.versions,
            limits=self._limits,
            resources=resources,
            slot=ConnectionLimiter(self._limits).take("127.0.0.1", has_handshake=False),
        )

        async def pump() -> None:
            with pytest.raises(end):
                await upstream.pump(upstream.sock)

        nursery.start_soon(resources.poller.run)
        nursery.start_soon(pump)
        return upstream


async def test_concurrent_tasks_get_their_own_answers(nursery: trio.Nursery) -> None:
    """This holds for any order of the requests, and beyond the limit of the pipeline."""
    asking = Asking(_echo, Limits(max_pipelined=4))
    async with running_fake_broker(asking.broker):
        upstream = await asking.start(nursery)

        async def ask_for(number: int) -> None:
            assert (await ask(upstream, _asking(number), 4, "test")).error_code == number

        async with trio.open_nursery() as asks:
            for number in range(50):
                asks.start_soon(ask_for, number)
        nursery.cancel_scope.cancel()
    upstream.close()


async def test_an_answer_in_pieces_is_delivered_whole(nursery: trio.Nursery) -> None:
    """A piece may end anywhere, and the next answer may follow in the same one."""

    async def piecemeal(wire: Wire, header: RequestHeader, body: bytes) -> None:
        request = decode(HeartbeatRequest, body, header.api_version)
        start = encode_response_header(header.api_key, header.api_version, header.correlation_id)
        answered = HeartbeatResponse(error_code=request.generation_id)
        frame = make_frame(start + encode(answered, header.api_version))
        for at in range(0, len(frame), 5):
            await wire.send(frame[at : at + 5])
            await trio.testing.wait_all_tasks_blocked(0.001)  # a piece of its own

    asking = Asking(piecemeal)
    async with running_fake_broker(asking.broker):
        upstream = await asking.start(nursery)
        sent = await upstream.send([_asking(number) for number in (1, 2, 3)], 4, "test")
        for number, asked in enumerate(sent, start=1):
            await asked.wait_until_arrived()
            assert await asked.answer() == HeartbeatResponse(error_code=number)
        nursery.cancel_scope.cancel()
    upstream.close()


async def test_a_cancelled_caller_leaves_the_connection_in_sync(
    nursery: trio.Nursery,
) -> None:
    """The late answer is dropped, and the next one is not mistaken for it."""
    release = trio.Event()

    async def late(wire: Wire, header: RequestHeader, body: bytes) -> None:
        await release.wait()
        await _echo(wire, header, body)

    asking = Asking(late)
    async with running_fake_broker(asking.broker):
        upstream = await asking.start(nursery)
        with trio.move_on_after(0.05) as given_up:
            await ask(upstream, _asking(1), 4, "test")
        assert given_up.cancelled_caught
        release.set()
        assert (await ask(upstream, _asking(2), 4, "test")).error_code == 2
        nursery.cancel_scope.cancel()
    upstream.close()


async def test_waiting_callers_learn_that_the_broker_has_gone(nursery: trio.Nursery) -> None:
    """Later callers do as well."""

    async def close(wire: Wire, header: RequestHeader, body: bytes) -> None:
        raise EOFError

    asking = Asking(close)
    async with running_fake_broker(asking.broker):
        upstream = await asking.start(nursery)
        assert await ask(upstream, _asking(1), 4, "test") is None
        with pytest.raises(UpstreamAway):
            await ask(upstream, _asking(1), 4, "test")
    upstream.close()


async def test_a_broker_that_answers_out_of_turn_has_answered_nobody(
    nursery: trio.Nursery,
) -> None:
    """Callers that wait learn of it: a commit would otherwise count as under way for ever."""

    async def out_of_turn(wire: Wire, header: RequestHeader, body: bytes) -> None:
        await _echo(wire, replace(header, correlation_id=header.correlation_id + 1), body)

    asking = Asking(out_of_turn)
    async with running_fake_broker(asking.broker):
        upstream = await asking.start(nursery, BadAnswer)
        with trio.fail_after(5):
            assert await ask(upstream, _asking(1), 4, "test") is None
        nursery.cancel_scope.cancel()
    upstream.close()


async def test_nothing_follows_an_answer_that_was_lost(nursery: trio.Nursery) -> None:
    """Java's consumer ends if it gets another answer than the one that is due, as it did behind a
    gateway that gave a broker up while a Fetch and a FindCoordinator of one client waited."""
    asking = Asking(_echo)
    async with running_fake_broker(asking.broker):
        upstream = await asking.start(nursery)
        upstream.expect(7)
        with pytest.RaisesGroup(BrokerLost):
            async with trio.open_nursery() as answering:
                answering.start_soon(upstream.idle)
                await trio.testing.wait_all_tasks_blocked()
                upstream.give_up()
                assert not upstream.is_idle
        with pytest.raises(BrokerLost):
            await upstream.idle()
        nursery.cancel_scope.cancel()
    upstream.close()


async def test_a_malformed_answer_fails_only_its_caller(nursery: trio.Nursery) -> None:
    """The length of the frame is known, so the connection continues."""
    bodies = [b"\xff" * 9, struct.pack(">ihb", 0, 7, 0)]

    async def answer_next(wire: Wire, header: RequestHeader, body: bytes) -> None:
        await answer_bytes(wire, header, bodies.pop(0))

    asking = Asking(answer_next)
    async with running_fake_broker(asking.broker):
        upstream = await asking.start(nursery)
        with pytest.raises(BadAnswer):
            await ask(upstream, _asking(1), 4, "test")
        assert (await ask(upstream, _asking(1), 4, "test")).error_code == 7
        nursery.cancel_scope.cancel()
    upstream.close()


async def test_an_unsupported_version_is_never_sent(
    nursery: trio.Nursery,
) -> None:
    """The broker would close the connection."""
    asking = Asking(_echo)
    asking.broker.versions = {**asking.broker.versions, ApiKey.HEARTBEAT: (0, 3)}
    async with running_fake_broker(asking.broker):
        upstream = await asking.start(nursery)
        with pytest.raises(ValueError, match="HEARTBEAT version 4"):
            await ask(upstream, _asking(1), 4, "test")
        assert (await ask(upstream, _asking(3), 3, "test")).error_code == 3
        nursery.cancel_scope.cancel()
    upstream.close()


async def test_the_broker_sees_the_clients_id(nursery: trio.Nursery) -> None:
    """Quotas and logs use it."""
    asking = Asking(_echo)
    async with running_fake_broker(asking.broker):
        upstream = await asking.start(nursery)
        await ask(upstream, _asking(1), 4, "billing")
        nursery.cancel_scope.cancel()
    assert asking.broker.seen[-1].client_id == "billing"
    upstream.close()


LONG = 100_000
"""Bytes of an answer that does not fit into the buffer with others."""


async def _describe_at_length(wire: Wire, header: RequestHeader, body: bytes) -> None:
    state = "x" * (3 * LONG)
    group = DescribedGroup(group_id="g", group_state=state[: 2 * LONG // 7])
    await answer(wire, header, DescribeGroupsResponse(groups=(group,) * 7))


async def _begin_long_answer(
    asking: Asking, nursery: trio.Nursery
) -> tuple[UpstreamConnection, ExpectedAnswer]:
    """A connection to which the broker sends a long answer."""
    asking.broker.handlers[ApiKey.DESCRIBE_GROUPS] = _describe_at_length
    asking.broker.versions = {**asking.broker.versions, ApiKey.DESCRIBE_GROUPS: (0, 4)}
    upstream = await asking.start(nursery)
    (asked,) = await upstream.send((DescribeGroupsRequest(groups=("g",)),), 4, "test")
    return upstream, asked


async def test_long_answers_of_all_connections_wait_for_each_other(nursery: trio.Nursery) -> None:
    """The next one is not even received before the first has been read."""
    answers = HeldAnswers(3 * LONG)
    asking = Asking(_echo, answers=answers)
    async with running_fake_broker(asking.broker):
        first, asked = await _begin_long_answer(asking, nursery)
        await asked.wait_until_arrived()
        second, asked_later = await _begin_long_answer(asking, nursery)
        with trio.move_on_after(0.3):
            await asked_later.wait_until_arrived()
            pytest.fail("both are held")
        assert 2 * LONG <= answers._total.used <= 3 * LONG
        response: DescribeGroupsResponse | None = await asked.answer()
        assert response is not None
        assert len(response.groups) == 7
        await asked_later.wait_until_arrived()
        asked_later.forget()
        assert answers._total.used == 0
        nursery.cancel_scope.cancel()
    first.close()
    second.close()


async def test_a_lost_answer_gives_its_room_back(nursery: trio.Nursery) -> None:
    """The broker closes in the middle of it."""

    async def half(wire: Wire, header: RequestHeader, body: bytes) -> None:
        start = encode_response_header(header.api_key, header.api_version, header.correlation_id)
        await wire.send(make_frame(start + bytes(3 * LONG))[:LONG])
        raise EOFError

    answers = HeldAnswers()
    asking = Asking(half, answers=answers)
    async with running_fake_broker(asking.broker):
        upstream = await asking.start(nursery, StreamEnded)
        (asked,) = await upstream.send((_asking(1),), 4, "test")
        await asked.wait_until_arrived()
        assert await asked.answer() is None
        assert answers._total.used == 0
        nursery.cancel_scope.cancel()
    upstream.close()
