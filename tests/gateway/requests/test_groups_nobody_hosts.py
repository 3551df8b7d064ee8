"""Requests about a group that is not hosted cost a look at the cluster and the call that the
cluster answers: neither a driver nor a task."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from gateway.groups.group_driver import GroupDriver
from kafka_codecs.api_keys import ApiKey
from kafka_codecs.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatResponse,
)
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.header import RequestHeader
from kafka_codecs.heartbeat import HeartbeatResponse
from tests.support.guarded_broker import GuardedBroker
from tests.support.offset_broker import OffsetBroker
from tests.support.offset_stage import OffsetStage, offset_stage
from tests.support.unknown_groups import OF_NO_MEMBER, REQUESTS
from tests.support.until import until
from tests.support.wire import Wire


@pytest.fixture(name="drivers")
def drivers_fixture(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The groups that have got a driver."""
    made: list[str] = []
    begin = GroupDriver.__init__

    def record(self: GroupDriver, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        made.append(self.group.group_id)

    monkeypatch.setattr(GroupDriver, "__init__", record)
    return made


class CountingBroker(GuardedBroker):
    """Counts looks at groups, which wait at `look_gate` if it is set."""

    def __post_init__(self) -> None:
        GuardedBroker.__post_init__(self)
        self.looks: list[str] = []
        self.look_gate: trio.Event | None = None
        describe = self.handlers[ApiKey.DESCRIBE_GROUPS]

        async def look(wire: Wire, header: RequestHeader, body: bytes) -> None:
            self.looks.append(header.client_id or "")
            if self.look_gate is not None:
                await self.look_gate.wait()
            await describe(wire, header, body)

        self.handlers[ApiKey.DESCRIBE_GROUPS] = look


@asynccontextmanager
async def stage(hosts: bool, broker: OffsetBroker | None = None) -> AsyncIterator[OffsetStage]:
    """A gateway that would host any group from its first join on, or none."""
    patterns = ("*",) if hosts else ()
    broker = broker or GuardedBroker()
    async with offset_stage(broker, host_patterns=patterns, max_groups=3) as scene:
        yield scene


@pytest.mark.parametrize("hosts", [True, False], ids=["to be hosted", "of the cluster"])
@pytest.mark.parametrize("kind", REQUESTS)
async def test_no_request_that_adds_no_member_makes_a_driver(
    kind: str, drivers: list[str], *, hosts: bool
) -> None:
    """Whether its group would be hosted from its first join on or not."""
    async with stage(hosts) as scene:
        for number in range(10):
            await scene.client.connection.ask(REQUESTS[kind](f"unknown-{number}"))
        assert drivers == []


@pytest.mark.parametrize("kind", OF_NO_MEMBER)
async def test_a_commit_to_a_group_of_the_cluster_makes_no_driver(
    kind: str, drivers: list[str]
) -> None:
    """Its committer assigns itself partitions."""
    async with stage(hosts=False) as scene:
        for number in range(10):
            await scene.client.connection.ask(OF_NO_MEMBER[kind](f"unknown-{number}"))
        assert drivers == []
        assert len(scene.broker.commits) == 10


@pytest.mark.parametrize("kind", OF_NO_MEMBER)
async def test_a_commit_that_the_engine_accepts_is_sent_by_the_group(
    kind: str, drivers: list[str]
) -> None:
    """While it is under way, no member may join and fetch what it replaces."""
    async with stage(hosts=True) as scene:
        await scene.client.connection.ask(OF_NO_MEMBER[kind]("unknown"))
        assert drivers == ["unknown"]
        assert len(scene.broker.commits) == 1


async def test_codes_are_those_of_an_unknown_group(drivers: list[str]) -> None:
    """The engine answers by the log, as it does for a group in memory."""
    async with stage(hosts=True) as scene:
        ask = scene.client.connection.ask
        beat: HeartbeatResponse = await ask(REQUESTS["Heartbeat"]("unknown"))
        native: ConsumerGroupHeartbeatResponse = await ask(
            REQUESTS["ConsumerGroupHeartbeat"]("unknown")
        )
        assert beat.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert native.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND)
        committed = await ask(REQUESTS["OffsetCommit of a member"]("unknown"))
        (topic,) = committed.topics
        assert [partition.error_code for partition in topic.partitions] == [
            ErrorCode.GROUP_ID_NOT_FOUND
        ]
        assert scene.broker.commits == []
        assert drivers == []


async def test_members_of_one_group_share_a_look() -> None:
    """After a restart each of them sends a heartbeat, and the answer has all of them."""
    broker = CountingBroker(read_code=ErrorCode.NONE)
    async with stage(hosts=False, broker=broker) as scene, trio.open_nursery() as nursery:
        broker.look_gate = trio.Event()
        answers: list[HeartbeatResponse] = []

        async def beat() -> None:
            async with scene.another_client() as client:
                beats = REQUESTS["Heartbeat"]("orders")
                answers.append(await client.connection.ask(beats))

        for _ in range(10):
            nursery.start_soon(beat)
        await trio.testing.wait_all_tasks_blocked(0.05)
        broker.look_gate.set()
        await until(lambda: len(answers) == 10)
        assert len(broker.looks) == 1
        assert {answer.error_code for answer in answers} == {ErrorCode.NONE}


async def test_a_group_that_a_member_joins_during_the_look_answers_itself(
    drivers: list[str],
) -> None:
    """The commit of a stranger must not reach the cluster behind the group's back."""
    broker = CountingBroker()
    async with stage(hosts=True, broker=broker) as scene, trio.open_nursery() as nursery:
        broker.look_gate = trio.Event()
        codes: list[int] = []

        async def commit() -> None:
            async with scene.another_client() as client:
                stored = await client.connection.ask(REQUESTS["OffsetCommit of a member"]("g"))
                codes.extend(entry.error_code for entry in stored.topics[0].partitions)

        nursery.start_soon(commit)
        await until(lambda: broker.looks)
        nursery.start_soon(scene.client.enter)
        await until(lambda: drivers)
        assert drivers == ["g"]
        broker.look_gate.set()
        await until(lambda: codes)
        assert codes in ([ErrorCode.UNKNOWN_MEMBER_ID], [ErrorCode.GROUP_ID_NOT_FOUND])
        assert broker.commits == []


async def test_a_relayed_heartbeat_leaves_no_driver_behind(drivers: list[str]) -> None:
    """With `auto`, only an answer that may lead to an adoption needs one."""
    broker = GuardedBroker(read_code=ErrorCode.UNKNOWN_MEMBER_ID)
    how: dict[str, Any] = {"host_patterns": (), "adoption": "auto"}
    async with offset_stage(broker, **how) as scene:
        await scene.client.connection.ask(REQUESTS["Heartbeat"]("unknown"))
        assert drivers == []
        broker.read_code = ErrorCode.NONE
        for _ in range(5):
            await scene.client.connection.ask(REQUESTS["Heartbeat"]("unknown"))
        assert len(drivers) == 1  # the next in some seconds


def test_every_kind_is_tried() -> None:
    """An api that is added is tried as well."""
    asked = {make("g").SCHEMA.api_key for make in (*REQUESTS.values(), *OF_NO_MEMBER.values())}
    assert len(asked) == 10
