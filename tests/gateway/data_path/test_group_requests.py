"""Group requests are answered immediately where their group can, and in order."""

import struct
import sys
from collections.abc import Iterable
from typing import Any

import pytest
import structlog
import trio
import trio.lowlevel
import trio.testing
from structlog.testing import capture_logs
from trio.testing import MockClock

from gateway.data_path.connection_tasks import ConnectionTasks
from gateway.data_path.group_apis import GroupApis, GroupRequest
from gateway.data_path.group_requests import GroupRequests
from gateway.data_path.request_server import RequestServer
from kafka_codecs import encode
from kafka_codecs.apis import ApiKey
from kafka_codecs.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafka_codecs.declaration import Struct
from kafka_codecs.heartbeat import HeartbeatResponse
from tests.gateway.data_path.client_connection import (
    HEARTBEAT,
    AnswersLater,
    Parked,
    answer_after,
    ground,
)
from tests.support.wire import open_wire, request_frame


def beat_frame(correlation_id: int) -> bytes:
    return request_frame(ApiKey.HEARTBEAT, 4, correlation_id, encode(HEARTBEAT, 4))


def ids_in(frames: Iterable[bytes]) -> list[int]:
    """The correlation ids of answers."""
    return [struct.unpack_from(">i", frame)[0] for frame in frames]


async def test_a_parked_group_request_blocks_later_requests_of_its_connection() -> None:
    """A broker mutes the channel in the same way. Other connections continue."""
    apis = Parked()
    async with ground(group_apis=apis) as on, open_wire(on.gateway.address) as other:
        fetch = request_frame(ApiKey.FETCH, 4, 3, b"")
        await on.client.send(beat_frame(1) + beat_frame(2) + fetch)
        await apis.asked.wait()
        await other.send(request_frame(ApiKey.FETCH, 4, 4, b""))
        assert struct.unpack_from(">i", await other.frame()) == (4,)
        assert len(apis.requests) == 1
        apis.go_on.set()
        frames = [await on.client.frame() for _ in range(3)]
        assert ids_in(frames) == [1, 2, 3]
        assert apis.requests[0].message == HEARTBEAT
        assert apis.requests[0].client_host == "127.0.0.1"
        assert apis.requests[0].node_id == 1


async def test_a_group_request_is_decided_before_earlier_relayed_answers() -> None:
    """Its answer waits for those of the earlier requests."""
    apis = Parked()
    apis.go_on.set()
    release = trio.Event()
    async with ground(group_apis=apis) as on:
        on.broker.handlers[ApiKey.FETCH] = answer_after(release)
        await on.client.send(request_frame(ApiKey.FETCH, 4, 1, b"") + beat_frame(2))
        await apis.asked.wait()
        release.set()
        assert ids_in([await on.client.frame() for _ in range(2)]) == [1, 2]


async def test_the_final_check_runs_just_before_the_answer_leaves() -> None:
    """The group's answer may be outdated after a long wait in the connection."""

    class Changing(Parked):
        word = 1

        def last_word(self, request: GroupRequest, response: Struct) -> Struct:
            return HeartbeatResponse(error_code=self.word)

    apis = Changing()
    apis.go_on.set()
    release = trio.Event()
    async with ground(group_apis=apis) as on:
        on.broker.handlers[ApiKey.FETCH] = answer_after(release)
        await on.client.send(request_frame(ApiKey.FETCH, 4, 1, b"") + beat_frame(2))
        await apis.asked.wait()
        await trio.testing.wait_all_tasks_blocked()
        apis.word = 2
        release.set()
        await on.client.frame()
        assert (await on.client.frame()).endswith(encode(HeartbeatResponse(error_code=2), 4))


class AtOnce(GroupApis):
    """Group APIs that answer without waiting, and log."""

    def __init__(self, answer: Struct) -> None:
        self._answer = answer

    def answer(self, request: GroupRequest) -> Struct:
        structlog.get_logger().warning("asked")
        return self._answer


async def test_an_answer_that_is_there_at_once_wakes_no_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its log lines name its connection all the same."""
    served: list[object] = []
    serve, finish = RequestServer.serve, GroupRequests.finish_begun

    async def record_and_serve(server: RequestServer) -> None:
        served.append(server)
        await serve(server)

    async def record_and_finish(requests: GroupRequests) -> None:
        served.append(requests)
        await finish(requests)

    monkeypatch.setattr(RequestServer, "serve", record_and_serve)
    monkeypatch.setattr(GroupRequests, "finish_begun", record_and_finish)
    async with ground(group_apis=AtOnce(HeartbeatResponse(error_code=7))) as on:
        async with open_wire(on.gateway.address) as other:
            clients = (on.client, other)
            for client in clients:
                assert (await client.ask(HEARTBEAT, 4)).error_code == 7  # after the negotiation
            served.clear()
            with capture_logs(processors=[structlog.contextvars.merge_contextvars]) as lines:
                for client in clients:
                    assert (await client.ask(HEARTBEAT, 4)).error_code == 7
            assert not served
            assert len({line["connection_id"] for line in lines}) == 2


async def test_many_group_requests_at_once_let_others_run() -> None:
    """The connection's task answers the requests in order, and yields in between."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with ground(group_apis=AtOnce(HeartbeatResponse())) as on:
        await on.client.ask(HEARTBEAT, 4)
        async with trio.open_nursery() as nursery:
            await on.client.send(b"".join(map(beat_frame, range(500))))
            nursery.start_soon(count)
            for place in range(500):
                assert struct.unpack_from(">i", await on.client.frame()) == (place,)
            assert turns >= 200
            nursery.cancel_scope.cancel()


async def test_answers_wait_for_a_client_that_reads_nothing() -> None:
    """All arrive whole and in order once it reads, and meanwhile few are made."""
    long = ConsumerGroupHeartbeatResponse(error_message="x" * 30_000)
    request = encode(ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=1), 0)
    asked = 0

    class Counting(AtOnce):
        def answer(self, request: GroupRequest) -> Struct:
            nonlocal asked
            asked += 1
            return long

    async with ground(group_apis=Counting(long)) as on:
        count, before = 0, -1
        while before != asked:
            before = asked
            for _ in range(20):
                frame = request_frame(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, count, request)
                await on.client.send(frame)
                count += 1
                await trio.testing.wait_all_tasks_blocked(0.001)
            assert count < 5_000
        for place in range(count):
            frame = await on.client.frame()
            assert struct.unpack_from(">i", frame) == (place,)
            assert frame.endswith(encode(long, 0))


# -- answers that come later -----------------------------------------------------------------------


WAITING = HeartbeatResponse(error_code=27)


async def test_an_answer_that_comes_later_takes_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of joins may wait at the same time. Its log lines name its connection all the
    same."""
    started: list[object] = []
    start = ConnectionTasks.start

    def record_and_start(tasks: ConnectionTasks[Any], connection: Any) -> None:
        started.append(connection)
        start(tasks, connection)

    monkeypatch.setattr(ConnectionTasks, "start", record_and_start)
    monkeypatch.setattr("gateway.data_path.connection_tasks.KEPT_MAX", 0)
    apis = AnswersLater()
    async with ground(group_apis=apis) as on:
        await on.client.ask(HEARTBEAT, 4)
        await trio.testing.wait_all_tasks_blocked(0.001)
        started.clear()
        for count in (1, 2):
            await on.client.send(beat_frame(1))
            later = await apis.wait_for_requests(count)
            assert later.changed is not None
            later.answer = WAITING
            with capture_logs(processors=[structlog.contextvars.merge_contextvars]) as lines:
                later.changed()
            assert (await on.client.frame()).endswith(encode(WAITING, 4))
            assert [line["event"] for line in lines if "connection_id" in line] == ["taken"]
        assert not started


async def test_what_a_client_sends_meanwhile_waits_for_the_answer() -> None:
    """The requests wait, as in a broker, even if their bytes have woken a task."""
    apis = AnswersLater()
    async with ground(group_apis=apis) as on:
        await on.client.ask(HEARTBEAT, 4)
        await on.client.send(beat_frame(1))
        first = await apis.wait_for_requests(1)
        await on.client.send(beat_frame(1) + request_frame(ApiKey.FETCH, 4, 3, b""))
        await trio.testing.wait_all_tasks_blocked(0.001)
        assert len(apis.pending) == 1
        assert first.changed is not None
        first.answer = HeartbeatResponse()
        first.changed()
        second = await apis.wait_for_requests(2)
        second.answer = HeartbeatResponse()
        second.taken.set()
        frames = [await on.client.frame() for _ in range(3)]
        assert ids_in(frames) == [1, 1, 3]


async def test_a_task_awaits_what_the_group_cannot_answer_alone() -> None:
    """The cluster has to be asked, for example."""
    apis = AnswersLater()
    async with ground(group_apis=apis) as on:
        await on.client.ask(HEARTBEAT, 4)
        await on.client.send(beat_frame(1))
        later = await apis.wait_for_requests(1)
        assert later.changed is not None
        later.changed()
        await trio.testing.wait_all_tasks_blocked(0.001)
        later.answer = WAITING
        later.taken.set()
        assert (await on.client.frame()).endswith(encode(WAITING, 4))


async def test_an_answer_that_fails_ends_its_connection_only() -> None:
    """The group has called, and must not notice."""
    apis = AnswersLater()
    async with ground(group_apis=apis) as on, open_wire(on.gateway.address) as other:
        await on.client.ask(HEARTBEAT, 4)
        await on.client.send(beat_frame(1))
        later = await apis.wait_for_requests(1)
        assert later.changed is not None
        later.answer = ValueError("a bug")
        with capture_logs() as lines:
            later.changed()
            assert await on.client.at_end()
        assert [line["event"] for line in lines] == ["connection_failed"]
        await other.send(request_frame(ApiKey.FETCH, 4, 4, b""))
        assert struct.unpack_from(">i", await other.frame()) == (4,)


async def test_nobody_waits_for_the_answer_to_a_connection_that_has_ended() -> None:
    """The group learns it, and a late answer is dropped."""
    apis = AnswersLater()
    async with ground(group_apis=apis) as on:
        await on.client.ask(HEARTBEAT, 4)
        await on.client.send(beat_frame(1))
        later = await apis.wait_for_requests(1)
    assert later.is_abandoned
    assert later.changed is not None
    later.answer = WAITING
    later.changed()


BEAT = encode(ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=1), 0)


class Granting(AtOnce):
    """Grants with each heartbeat, and records which of them follow the answers before."""

    def __init__(self, takes_time: bool) -> None:
        self.granted = ConsumerGroupHeartbeatResponse(assignment=Assignment(topic_partitions=()))
        AtOnce.__init__(self, self.granted)
        self.takes_time = takes_time
        self.follows: list[bool] = []

    def answer(self, request: GroupRequest) -> Any:
        self.follows.append(request.follows_answers)
        return self._answer_later() if self.takes_time else self.granted

    async def _answer_later(self) -> Struct:
        await trio.lowlevel.checkpoint()
        return self.granted


@pytest.mark.parametrize("takes_time", [False, True])
async def test_a_heartbeat_that_was_here_before_an_assignment_left_does_not_follow_it(
    takes_time: bool,
) -> None:
    """Its client may not know the assignment yet, even if it is read afterwards (DEV D90). Commits
    in between change nothing."""
    apis = Granting(takes_time)
    async with ground(group_apis=apis) as on:
        frames = [
            request_frame(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, number, BEAT) for number in (1, 2)
        ]
        await on.client.send(b"".join(frames))
        for _ in frames:
            await on.client.frame()
        await on.client.send(frames[0])
        await on.client.frame()
    assert apis.follows == [True, False, True]


PROMPT_CLIENT = """
import socket, sys
port, frame, count = int(sys.argv[1]), bytes.fromhex(sys.argv[2]), int(sys.argv[3])
client = socket.create_connection(("127.0.0.1", port))
for _ in range(count):
    client.sendall(frame)
    client.recv(65536)
"""


@pytest.mark.parametrize("takes_time", [False, True])
async def test_a_heartbeat_that_follows_an_assignment_promptly_follows_it(takes_time: bool) -> None:
    """A client on the same machine has the answer before the gateway's `send` returns (DEV D90)."""
    apis = Granting(takes_time)
    async with ground(group_apis=apis) as on:
        _, port = on.gateway.address
        frame = request_frame(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1, BEAT)
        client = [sys.executable, "-c", PROMPT_CLIENT, f"{port}", frame.hex(), "200"]
        await trio.run_process(client)
    assert apis.follows == [True] * 200


@pytest.mark.parametrize("takes_time", [False, True])
async def test_a_client_lacks_an_answer_from_an_error_until_the_next_assignment(
    takes_time: bool,
) -> None:
    """The error may stand in place of an answer with another assignment (DEV D90). An error that
    the group has decided on hides nothing."""
    beat = encode(ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=1), 0)
    granted = ConsumerGroupHeartbeatResponse(assignment=Assignment(topic_partitions=()))
    decided = ConsumerGroupHeartbeatResponse(error_code=15)
    refused = ConsumerGroupHeartbeatResponse(error_code=14)
    answers = [decided, refused, ConsumerGroupHeartbeatResponse(), decided, granted, decided]
    lacks: list[bool] = []

    class Refusing(AtOnce):
        def answer(self, request: GroupRequest) -> Any:
            answer = answers[len(lacks)]
            lacks.append(request.lacks_answer)
            request.is_refused = answer is refused
            return later(answer) if takes_time else answer

    async def later(answer: Struct) -> Struct:
        await trio.lowlevel.checkpoint()
        return answer

    async with ground(group_apis=Refusing(granted)) as on:
        for number in range(len(answers)):
            await on.client.send(request_frame(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, number, beat))
            await on.client.frame()
    assert lacks == [False, False, True, True, True, False]


async def test_a_heartbeat_that_waited_behind_a_slow_call_is_known_to_come_too_late(
    autojump_clock: MockClock,
) -> None:
    """Its client has sent the next one before the answer left. The gateway knows how long calls on
    this connection take."""
    frame = request_frame(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1, BEAT)
    seen: list[tuple[bool, bool]] = []
    answer = ConsumerGroupHeartbeatResponse()

    class Slow(AtOnce):
        def answer(self, request: GroupRequest) -> Any:
            seen.append((request.follows_answers, request.calls_within_ms >= 150))
            return slowly() if len(seen) == 1 else answer

    async def slowly() -> Struct:
        await trio.sleep(0.15)
        return answer

    async with ground(group_apis=Slow(answer)) as on:
        await on.client.send(frame * 3)
        for _ in range(3):
            await on.client.frame()
        await on.client.send(frame)
        await on.client.frame()
    assert seen == [(True, False), (False, True), (False, True), (True, True)]
