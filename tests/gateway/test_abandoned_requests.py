"""Hundreds of clients send a request and close their connections: what they leave behind."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs

from gateway import batches
from kafka_codecs import encode
from kafka_codecs.api_versions import ApiVersionsRequest
from kafka_codecs.apis import ApiKey
from kafka_codecs.declaration import Struct
from kafka_codecs.delete_groups import DeleteGroupsRequest
from kafka_codecs.describe_groups import DescribeGroupsRequest
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.find_coordinator import FindCoordinatorRequest
from kafka_codecs.header import RequestHeader
from kafka_codecs.heartbeat import HeartbeatRequest
from kafka_codecs.join_group import JoinGroupResponse
from kafka_codecs.list_groups import ListGroupsRequest
from kafka_codecs.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kafka_codecs.sync_group import SyncGroupRequest
from tests.support.commits import commit_of
from tests.support.group_client import GroupClient, group_client
from tests.support.group_requests import join_request
from tests.support.offset_broker import OffsetBroker
from tests.support.offset_stage import offset_stage
from tests.support.until import until, until_answered
from tests.support.wire import Wire, open_wire, request_frame

CLIENTS = 200
NAMES = tuple(f"unknown-{number}" for number in range(400))
STEPS_LEFT_MAX = 4
"""Requests to the broker that the step of one abandoned request may still make."""
ESTABLISHED, CLOSE_WAIT = "01", "08"

LONG_REQUESTS: Sequence[tuple[Struct, int]] = (
    (
        OffsetFetchRequest(
            groups=tuple(OffsetFetchRequestGroup(group_id=name, topics=()) for name in NAMES)
        ),
        8,
    ),
    (DescribeGroupsRequest(groups=NAMES), 5),
    (DeleteGroupsRequest(groups_names=NAMES), 2),
)


class CountingBroker(OffsetBroker):
    """Has OffsetFetch for many groups."""

    def __post_init__(self) -> None:
        OffsetBroker.__post_init__(self)
        self.versions = {**self.versions, ApiKey.OFFSET_FETCH: (0, 8)}


def frame_of(message: Struct, version: int) -> bytes:
    """The frame of a request."""
    key = message.SCHEMA.api_key
    assert key is not None
    return request_frame(key, version, 1, encode(message, version))


@asynccontextmanager
async def clients_of(address: tuple[str, int], count: int) -> AsyncIterator[Sequence[Wire]]:
    """Connections that are closed at the end of the block."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(open_wire(address)) for _ in range(count)]


def count_sockets(address: tuple[str, int], state: str) -> int:
    """The gateway's sockets of this listener in this state."""
    port = f"{address[1]:04X}"
    rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[1].endswith(f":{port}") and row[3] == state for row in rows)


def count_tasks() -> int:
    """All tasks of this process."""
    root = trio.lowlevel.current_root_task()
    assert root is not None
    tasks, count = [root], 0
    while tasks:
        count += 1
        tasks += [child for nursery in tasks.pop().child_nurseries for child in nursery.child_tasks]
    return count


@dataclass(slots=True, kw_only=True)
class Scene:
    """A gateway that hosts a group with a member, and what it has without other clients."""

    broker: CountingBroker
    address: tuple[str, int]
    """The listener of the broker."""
    client: GroupClient
    joined: JoinGroupResponse
    tasks: int
    connections: int

    async def until_free(self) -> None:
        """Wait until nothing is left of other clients."""
        with trio.fail_after(20):
            await until(lambda: count_sockets(self.address, CLOSE_WAIT) == 0)
            await until(lambda: count_sockets(self.address, ESTABLISHED) == 1)
            await until(lambda: count_tasks() <= self.tasks)
            await self.broker.down_to(self.connections)


@asynccontextmanager
async def open_scene() -> AsyncIterator[Scene]:
    """A scene for the length of the block."""
    broker = CountingBroker()
    async with offset_stage(broker, max_groups=10) as stage:
        joined = await stage.client.enter()
        (address,) = (await stage.gateway.listeners()).values()
        await broker.down_to(broker.connections)
        yield Scene(
            broker=broker,
            address=address,
            client=stage.client,
            joined=joined,
            tasks=count_tasks(),
            connections=broker.connections,
        )


@pytest.mark.parametrize(
    ("message", "version"),
    LONG_REQUESTS,
    ids=[type(request).__name__ for request, _ in LONG_REQUESTS],
)
async def test_an_abandoned_request_costs_no_more_than_its_step(
    message: Struct, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connections are closed, and a member's heartbeat does not wait for the rest."""
    monkeypatch.setattr(batches, "NAMES_TOGETHER_MAX", 2)
    async with open_scene() as scene:
        async with clients_of(scene.address, CLIENTS) as clients:
            before = len(scene.broker.seen)
            for client in clients:
                await client.send(frame_of(message, version))
            await until(lambda: len(scene.broker.seen) - before > 2 * CLIENTS)  # all are served
        at_close = len(scene.broker.seen)
        beaten = await scene.client.beat(scene.joined)
        assert beaten.error_code == ErrorCode.NONE
        await scene.until_free()
        assert len(scene.broker.seen) - at_close <= STEPS_LEFT_MAX * CLIENTS


async def test_clients_that_close_at_once_leave_nothing_behind() -> None:
    """Their requests and the ends of their connections arrive together."""
    async with open_scene() as scene:
        for message, version in LONG_REQUESTS:
            for _ in range(CLIENTS // 10):
                async with clients_of(scene.address, 10) as clients:
                    for client in clients:
                        await client.send(frame_of(message, version))
        assert (await scene.client.beat(scene.joined)).error_code == ErrorCode.NONE
        await scene.until_free()


async def test_joins_that_wait_hold_no_sockets() -> None:
    """The clients are members until the round or their session ends, as in Kafka."""
    join = join_request("g", ["numbers"])
    async with open_scene() as scene:
        async with clients_of(scene.address, CLIENTS) as clients:
            for client in clients:
                await client.send(frame_of(join, 3))
            await until_members(scene, 1 + CLIENTS)
        await scene.until_free()
        beaten = await scene.client.beat(scene.joined)
        assert beaten.error_code == ErrorCode.REBALANCE_IN_PROGRESS
        await until_members(scene, 1 + CLIENTS)


async def until_members(scene: Scene, count: int) -> None:
    """Wait until the group has this many members."""
    await until_answered(scene.client.describe, lambda group: len(group.members) >= count)


async def test_a_follower_that_waits_for_its_leader_holds_no_socket() -> None:
    """The others do not notice."""
    async with open_scene() as scene:
        leader = scene.client
        async with group_client(scene.address, "g") as follower:
            joined = await join_both(scene, follower)
            sync = SyncGroupRequest(
                group_id="g",
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                assignments=(),
            )
            async with clients_of(scene.address, 1) as (waiting,):
                await waiting.send(frame_of(sync, 3))
                await trio.testing.wait_all_tasks_blocked(0.01)
        await scene.until_free()
        shares = {scene.joined.member_id: {"numbers": range(3)}}
        synced = await leader.sync(replace(joined, member_id=scene.joined.member_id), shares)
        assert synced.error_code == ErrorCode.NONE


async def join_both(scene: Scene, follower: GroupClient) -> JoinGroupResponse:
    """The answer to the follower, once both have joined."""
    joined: list[JoinGroupResponse] = []

    async def join() -> None:
        joined.append(await follower.join(version=3))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(join)
        await until_members(scene, 2)
        await scene.client.join(scene.joined.member_id)
    return joined[0]


@pytest.mark.parametrize("is_first", [True, False])
async def test_a_commit_in_flight_ends_as_if_its_client_were_there(*, is_first: bool) -> None:
    """A commit whose answer is lost would cost the anchor a new member id."""
    async with open_scene() as scene:
        scene.broker.gate = trio.Event()
        commit = commit_of(
            {"numbers": {0: 7}},
            group_id="g",
            member_id=scene.joined.member_id,
            epoch=scene.joined.generation_id,
        )
        async with clients_of(scene.address, 1) as (client,):
            if not is_first:  # the next request may be answered without a task
                await client.ask(ApiVersionsRequest(), 0)
            await client.send(frame_of(commit, 7))
            await scene.broker.asked.wait()
        await trio.testing.wait_all_tasks_blocked(0.01)
        before = len(scene.broker.seen)
        scene.broker.gate.set()
        await scene.until_free()
        assert scene.broker.offsets[0] == 7
        assert (await scene.client.beat(scene.joined)).error_code == ErrorCode.NONE
        keys = {header.api_key for header in scene.broker.seen[before:]}
        assert ApiKey.JOIN_GROUP not in keys


@pytest.mark.parametrize(
    ("message", "version", "frozen_key"),
    [
        (LONG_REQUESTS[0][0], 8, ApiKey.OFFSET_FETCH),
        (LONG_REQUESTS[1][0], 5, ApiKey.DESCRIBE_GROUPS),
        (FindCoordinatorRequest(key="other"), 3, ApiKey.FIND_COORDINATOR),
        (HeartbeatRequest(group_id="other", generation_id=1, member_id="m"), 4, ApiKey.HEARTBEAT),
        (ListGroupsRequest(), 4, ApiKey.LIST_GROUPS),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Struct) else None,
)
async def test_a_request_that_a_frozen_broker_holds_up_ends_with_its_client(
    message: Struct, version: int, frozen_key: ApiKey
) -> None:
    """Whatever the gateway has asked it, and long before it gives the broker up."""
    asked: list[RequestHeader] = []

    async def freeze(wire: Wire, header: RequestHeader, body: bytes) -> None:
        asked.append(header)
        await wire.at_end()
        raise EOFError

    async with open_scene() as scene:
        answer = scene.broker.handlers[frozen_key]
        scene.broker.handlers[frozen_key] = freeze
        async with clients_of(scene.address, 20) as clients:
            for client in clients:
                await client.send(frame_of(message, version))
            await until(lambda: bool(asked))
            await trio.testing.wait_all_tasks_blocked(0.01)
        with trio.fail_after(20), capture_logs() as lines:
            await until(lambda: count_sockets(scene.address, CLOSE_WAIT) == 0)
        assert "broker_slow" not in [line["event"] for line in lines]
        scene.broker.handlers[frozen_key] = answer
        await scene.until_free()
