"""What is in progress for a client ends with its connection."""

import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from gateway.data_path.client_lifetime import ClientLifetime
from gateway.data_path.config import Limits
from gateway.data_path.connection_tasks import ConnectionTasks
from gateway.data_path.group_apis import GroupApis, GroupRequest
from kafka_codecs import encode
from kafka_codecs.apis import ApiKey
from kafka_codecs.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafka_codecs.declaration import Struct
from kafka_codecs.header import RequestHeader
from kafka_codecs.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kafka_codecs.metadata import MetadataRequest
from kafka_codecs.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from tests.gateway.data_path.client_connection import (
    HEARTBEAT,
    AnswersLater,
    Ground,
    Later,
    Parked,
    go_idle_soon,
    ground,
)
from tests.support.fake_broker import answer_size
from tests.support.until import until
from tests.support.wire import Wire, open_wire, produce_body, request_frame

LONG = Limits(linger_timeout_s=600, broker_timeout_s=600)
"""No time limit ends anything while a test runs."""


def frame_of(message: Struct, version: int) -> bytes:
    """The frame of a request."""
    key = message.SCHEMA.api_key
    assert key is not None
    return request_frame(key, version, 1, encode(message, version))


HEARTBEAT_FRAME = frame_of(HEARTBEAT, 4)
LEAVE_FRAME = frame_of(LeaveGroupRequest(group_id="g", member_id="m"), 1)
FETCH_FRAME = request_frame(ApiKey.FETCH, 4, 1, b"")
TXN_COMMIT_FRAME = frame_of(
    TxnOffsetCommitRequest(
        transactional_id="t", group_id="g", producer_id=1, producer_epoch=1, topics=()
    ),
    3,
)
LIST_OFFSETS_FRAME = request_frame(ApiKey.LIST_OFFSETS, 1, 1, b"")
METADATA_FRAME = frame_of(MetadataRequest(topics=()), 13)
"""A request in a version that the broker does not know, so that the gateway asks."""
PRODUCE_FRAME = request_frame(ApiKey.PRODUCE, 3, 1, produce_body(3, -1))


def native_frame(epoch: int) -> bytes:
    """A heartbeat of a native member."""
    message = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=epoch)
    return frame_of(message, 0)


# -- the work of one client ------------------------------------------------------------------------


async def end_of_work(*, goes_s: float, lingers: bool, stops: bool = False) -> float:
    """When work ends that would never end, and whose client goes at this time."""
    lifetime = ClientLifetime(Limits(linger_timeout_s=5))

    async def end() -> None:
        await trio.sleep(goes_s)
        lifetime.end()

    started_s = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(end)
        await trio.sleep(1)
        with lifetime.limit_work(lingers=lingers) as scope:
            if stops:
                lifetime.stop_lingering()
            await trio.Event().wait()
    assert scope.cancelled_caught
    return trio.current_time() - started_s


@pytest.mark.parametrize(("goes_s", "ends_s"), [(0, 1), (3, 3)])
async def test_work_ends_with_its_client(
    autojump_clock: MockClock, goes_s: float, ends_s: float
) -> None:
    """If the client has gone before it begins, it ends immediately."""
    assert await end_of_work(goes_s=goes_s, lingers=False) == pytest.approx(ends_s)


@pytest.mark.parametrize(("goes_s", "ends_s"), [(0, 6), (3, 8)])
async def test_work_that_counts_continues_for_a_while(
    autojump_clock: MockClock, goes_s: float, ends_s: float
) -> None:
    assert await end_of_work(goes_s=goes_s, lingers=True) == pytest.approx(ends_s)


@pytest.mark.parametrize(("goes_s", "ends_s"), [(0, 1), (3, 3)])
async def test_work_may_turn_out_not_to_count(
    autojump_clock: MockClock, goes_s: float, ends_s: float
) -> None:
    assert await end_of_work(goes_s=goes_s, lingers=True, stops=True) == pytest.approx(ends_s)


async def test_nothing_ends_without_work() -> None:
    """A later piece of work begins with a client that has gone."""
    lifetime = ClientLifetime(Limits())
    with lifetime.limit_work(lingers=False) as scope:
        pass
    lifetime.end()
    assert not scope.cancel_called
    assert lifetime.has_ended


# -- requests that end with their connection -------------------------------------------------------


@pytest.fixture(params=["awake", "sleepy"])
def sleepiness(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the connection keeps its tasks while it has nothing to do."""
    if request.param == "sleepy":
        monkeypatch.setattr(ConnectionTasks, "record_rest", go_idle_soon)


class Frozen:
    """A broker that takes requests and never answers them."""

    def __init__(self) -> None:
        self.asked: list[RequestHeader] = []

    async def answer(self, wire: Wire, header: RequestHeader, body: bytes) -> None:
        self.asked.append(header)
        await wire.at_end()
        raise EOFError


async def freeze(on: Ground, *keys: ApiKey) -> Frozen:
    """Let the broker answer no more requests of these apis."""
    await on.client.send(FETCH_FRAME)
    await on.client.frame()  # the gateway's own requests at the start are over
    frozen = Frozen()
    assert on.gateway.limiter.count == 1
    on.broker.handlers |= dict.fromkeys(keys, frozen.answer)
    return frozen


async def until_closed(on: Ground) -> None:
    """Only the scene's own client is connected, and nothing is left of another one."""
    with trio.fail_after(5):
        await until(lambda: on.gateway.limiter.count == 1)
        await until(lambda: len(on.gateway.limiter.traffic.open) == 1)


def go(wire: Wire, *, resets: bool) -> None:
    """Close the connection, with FIN or RST."""
    if resets:
        linger = struct.pack("ii", 1, 0)
        wire.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    wire.stream.socket.close()


@pytest.mark.usefixtures("sleepiness")
@pytest.mark.parametrize("resets", [False, True])
@pytest.mark.parametrize(
    ("sent", "frozen_key"),
    [
        (METADATA_FRAME, ApiKey.METADATA),
        (FETCH_FRAME, ApiKey.FETCH),
        (FETCH_FRAME, ApiKey.API_VERSIONS),
        (HEARTBEAT_FRAME, ApiKey.API_VERSIONS),
        (FETCH_FRAME + LIST_OFFSETS_FRAME, ApiKey.API_VERSIONS),
    ],
    ids=["asked", "relayed", "connect", "group", "pipelined"],
)
async def test_a_request_that_waits_for_a_broker_ends_with_its_client(
    sent: bytes, frozen_key: ApiKey, *, resets: bool
) -> None:
    """The connection to the broker ends as well, while it is opened and while an answer is
    awaited."""
    async with ground(limits=LONG) as on:
        frozen = await freeze(on, frozen_key)
        connections = on.broker.connections
        async with open_wire(on.gateway.address) as client:
            await client.send(sent)
            await until(lambda: bool(frozen.asked))
            go(client, resets=resets)
            await until_closed(on)
            await on.broker.down_to(connections)


async def test_a_request_that_waits_for_room_ends_with_its_client() -> None:
    """The broker never sees it."""
    async with ground(limits=Limits(linger_timeout_s=0.05, max_pipelined=1)) as on:
        frozen = await freeze(on, ApiKey.PRODUCE, ApiKey.LIST_OFFSETS)
        async with open_wire(on.gateway.address) as client:
            await client.send(PRODUCE_FRAME + LIST_OFFSETS_FRAME)
            await until(lambda: bool(frozen.asked))
            await trio.testing.wait_all_tasks_blocked(0.01)
        await until_closed(on)
        assert [header.api_key for header in frozen.asked] == [ApiKey.PRODUCE]


async def test_records_wait_for_a_frozen_broker_no_longer_than_answers_do() -> None:
    """The broker has them; their client does not wait for the answer."""
    async with ground(limits=Limits(linger_timeout_s=0.05)) as on:
        frozen = await freeze(on, ApiKey.PRODUCE)
        async with open_wire(on.gateway.address) as client:
            await client.send(PRODUCE_FRAME)
            await until(lambda: bool(frozen.asked))
        await until_closed(on)


class Watched(Parked):
    """Group APIs that note what becomes of their work."""

    def __init__(self) -> None:
        super().__init__()
        self.ended: list[str] = []

    async def answer(self, request: GroupRequest) -> Struct:
        name = type(request.message).__name__.removesuffix("Request")
        try:
            await super().answer(request)
        except trio.Cancelled:
            self.ended.append(f"{name} cancelled")
            raise
        self.ended.append(name)
        match request.message:
            case LeaveGroupRequest():
                return LeaveGroupResponse()
            case TxnOffsetCommitRequest():
                return TxnOffsetCommitResponse(topics=())
            case _:
                return ConsumerGroupHeartbeatResponse()


@pytest.mark.parametrize("resets", [False, True])
@pytest.mark.parametrize(
    "sent",
    [HEARTBEAT_FRAME, native_frame(0), native_frame(1), HEARTBEAT_FRAME + FETCH_FRAME],
    ids=["classic", "join", "native", "more"],
)
async def test_a_group_request_ends_with_its_client(sent: bytes, *, resets: bool) -> None:
    """Whatever the client has sent behind it."""
    apis = Watched()
    async with ground(group_apis=apis, limits=LONG) as on:
        async with open_wire(on.gateway.address) as client:
            await client.send(sent)
            await apis.asked.wait()
            go(client, resets=resets)
            await until_closed(on)
        assert len(apis.ended) == 1
        assert apis.ended[0].endswith("cancelled")


@pytest.mark.usefixtures("sleepiness")
@pytest.mark.parametrize("more", [b"", HEARTBEAT_FRAME, HEARTBEAT_FRAME[:9]])
async def test_an_answer_that_a_group_gives_later_holds_no_socket(more: bytes) -> None:
    """The group learns that no client waits for it."""
    apis = AnswersLater()
    async with ground(group_apis=apis, limits=LONG) as on:
        await on.client.ask(HEARTBEAT, 4)
        async with open_wire(on.gateway.address) as client:
            await client.send(FETCH_FRAME)
            await client.frame()  # after the negotiation, requests are answered without a task
            await client.send(HEARTBEAT_FRAME)
            later = await apis.wait_for_requests(1)
            if more:
                await client.send(more)
                await trio.testing.wait_all_tasks_blocked(0.01)
        await until_closed(on)
        assert later.is_abandoned
        assert len(apis.pending) == 1
        assert later.changed is not None
        later.answer = LeaveGroupResponse()
        later.changed()  # comes too late, and is dropped


async def until_given_up(later: Later) -> None:
    await until(lambda: later.is_abandoned or later.is_cancelled)


async def test_an_answer_is_given_up_if_its_client_goes_before_the_task_that_it_takes() -> None:
    """The group would keep the call, and everything that waits for its end, for ever."""
    clients: list[Wire] = []

    class TakesTask(Later):
        def watch(self, changed: Callable[[], None]) -> bool:
            hang_up(clients[-1])
            return False

    apis = AnswersLater(TakesTask)
    async with ground(group_apis=apis, limits=LONG) as on:
        await on.client.ask(HEARTBEAT, 4)
        for number in range(1, 11):  # whether the task or the hang-up comes first is random
            async with open_wire(on.gateway.address) as client:
                clients.append(client)
                await client.send(FETCH_FRAME)
                await client.frame()
                await client.send(HEARTBEAT_FRAME)
                await until_given_up(await apis.wait_for_requests(number))


async def test_an_answer_that_turns_out_to_take_a_task_is_given_up_with_its_client() -> None:
    """The client may go after the group has called, and before the task begins."""
    apis = AnswersLater()
    async with ground(group_apis=apis, limits=LONG) as on:
        await on.client.ask(HEARTBEAT, 4)
        for number in range(1, 11):  # whether the task or the hang-up comes first is random
            async with open_wire(on.gateway.address) as client:
                await client.send(FETCH_FRAME)
                await client.frame()
                await client.send(HEARTBEAT_FRAME)
                later = await apis.wait_for_requests(number)
                assert later.changed is not None
                hang_up(client)
                later.changed()
                await until_given_up(later)


def hang_up(client: Wire) -> None:
    """Close the client's side now, before other tasks run."""
    assert isinstance(client.stream, trio.SocketStream)
    client.stream.socket.shutdown(socket.SHUT_RDWR)


async def test_nothing_follows_an_answer_that_has_left_in_part() -> None:
    """A client that has closed its side only would take what follows for the rest."""
    asked: list[Struct] = []

    class Long(GroupApis):
        def answer(self, request: GroupRequest) -> Struct:
            asked.append(request.message)
            return ConsumerGroupHeartbeatResponse(error_message="x" * 30_000)

    async with leavable(Long()) as on:
        async with open_wire(on.gateway.address) as client:
            for _ in range(1_000):
                await client.send(native_frame(1))
            await client.send(LEAVE_FRAME)
            await trio.testing.wait_all_tasks_blocked(0.01)
            await client.stream.send_eof()
            await until_closed(on)
    assert not any(isinstance(message, LeaveGroupRequest) for message in asked)


@pytest.mark.parametrize("word", [PRODUCE_FRAME, LEAVE_FRAME], ids=["relayed", "answered"])
async def test_nothing_follows_an_answer_that_was_left_out(word: bytes) -> None:
    """A client that has closed its side only would take it for that answer. What still counts
    happens."""
    apis, produced = Watched(), list[int]()

    async def produce(wire: Wire, header: RequestHeader, body: bytes) -> None:
        produced.append(header.correlation_id)
        await answer_size(wire, header, body)

    async with leavable(apis) as on:
        on.broker.handlers[ApiKey.PRODUCE] = produce
        async with open_wire(on.gateway.address) as client:
            await client.send(HEARTBEAT_FRAME + word + word)
            await apis.asked.wait()
            await client.stream.send_eof()
            await until(lambda: bool(apis.ended))
            apis.go_on.set()
            assert await client.at_end()
    assert len(produced) + apis.ended.count("LeaveGroup") == 2


# -- last words ------------------------------------------------------------------------------------


@asynccontextmanager
async def leavable(apis: GroupApis, limits: Limits = LONG) -> AsyncIterator[Ground]:
    """A server like `ground`, in front of a broker that takes last words about groups."""
    theirs = {ApiKey.LEAVE_GROUP: (0, 5), ApiKey.TXN_OFFSET_COMMIT: (0, 3)}
    async with ground(group_apis=apis, limits=limits, versions=theirs) as on:
        yield on


@pytest.mark.parametrize(
    "word",
    [LEAVE_FRAME, native_frame(-1), native_frame(-2), TXN_COMMIT_FRAME],
    ids=["leave", "native", "static", "transaction"],
)
async def test_a_last_word_counts_although_its_client_has_gone(word: bytes) -> None:
    """A client closes its connection as soon as it has sent it."""
    apis = Watched()
    async with leavable(apis) as on:
        async with open_wire(on.gateway.address) as client:
            await client.send(word)
            await apis.asked.wait()
        await trio.testing.wait_all_tasks_blocked(0.01)
        apis.go_on.set()
        await until_closed(on)
        (ended,) = apis.ended
        assert not ended.endswith("cancelled")


@pytest.mark.parametrize(
    ("sent", "is_seen_by_broker"),
    [
        (LEAVE_FRAME, False),
        (FETCH_FRAME + LEAVE_FRAME, True),
        (METADATA_FRAME + LEAVE_FRAME, False),
    ],
)
async def test_a_last_word_behind_a_request_that_has_ended_counts(
    sent: bytes, *, is_seen_by_broker: bool
) -> None:
    """A consumer that is closed while it joins leaves behind its JoinGroup. A request that is not
    relayed immediately, and has no effect, is skipped."""
    apis = Watched()
    async with leavable(apis) as on:
        async with open_wire(on.gateway.address) as client:
            await client.send(METADATA_FRAME)
            await client.frame()  # the connection to the broker is open
            await client.send(HEARTBEAT_FRAME)
            await apis.asked.wait()
            await client.send(sent)
        await until(lambda: len(apis.requests) == 2)
        apis.go_on.set()
        await until_closed(on)
        assert apis.ended == ["Heartbeat cancelled", "LeaveGroup"]
        is_seen = any(header.api_key == ApiKey.FETCH for header in on.broker.seen)
        assert is_seen == is_seen_by_broker


async def test_a_last_word_that_takes_too_long_ends_as_well() -> None:
    apis = Watched()
    async with leavable(apis, Limits(linger_timeout_s=0.05)) as on:
        async with open_wire(on.gateway.address) as client:
            await client.send(LEAVE_FRAME + LEAVE_FRAME)
            await apis.asked.wait()
        await until_closed(on)
        assert apis.ended == ["LeaveGroup cancelled"]
