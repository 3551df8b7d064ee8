"""A running gateway adopts live groups of a real cluster, and their members notice nothing."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import pytest
import trio

from coordinator.interface.records import AdoptionRecord
from gateway.events.event import GatewayEvent
from gateway.events.group_events import AdoptionUndone, GroupAdopted
from gateway.hosting.adoption import HOLD_MAX_MS
from gateway.hosting.identity import log_of
from gateway.state_log.last_events import LogRecord
from gateway.state_log.log import StateLogError
from gateway.state_log.memory import MemoryLog
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.join_group import JoinGroupResponse
from tests.support.gateway import Gateway, whole_gateway
from tests.support.group_client import GroupClient, fresh_group, group_client
from tests.support.kafka_broker import FETCH_TIMEOUT_S, KafkaCluster
from tests.support.releases import with_new_protocol
from tests.support.until import until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]

BEAT_EVERY_S = 0.05
IN_A_LARGE_GROUP_S = 2.0
LARGE = 300
T = TypeVar("T", bound=GatewayEvent)


@dataclass
class Member:
    """Sends heartbeats and commits, one after the other, and notes every code."""

    client: GroupClient
    joined: JoinGroupResponse
    numbers: tuple[int, ...]
    codes: list[int] = field(default_factory=list)
    committed: int = 0
    every_s: float = BEAT_EVERY_S
    is_recalled: bool = False

    async def run(self) -> None:
        """Run until a heartbeat says that the group rebalances."""
        while True:
            self.codes.append((await self.client.beat(self.joined)).error_code)
            if self.codes[-1] == ErrorCode.REBALANCE_IN_PROGRESS:
                self.is_recalled = True
                return
            await trio.sleep(self.every_s)
            if not self.numbers:
                continue
            offset = self.committed + 1
            outcomes = await self.client.commit(
                dict.fromkeys(self.numbers, offset),
                member_id=self.joined.member_id,
                epoch=self.joined.generation_id,
            )
            self.codes += outcomes.values()
            self.committed = offset


@dataclass
class LiveGroup:
    """A group behind a gateway. The first two members have partitions."""

    gateway: Gateway
    name: str
    members: list[Member]

    def events_of(self, kind: type[T]) -> list[T]:
        return [event for event in self.gateway.events if isinstance(event, kind)]


@asynccontextmanager
async def live_group(
    gateway: Gateway, kafka: KafkaCluster, size: int = 2, every_s: float = BEAT_EVERY_S
) -> AsyncIterator[LiveGroup]:
    """The cluster serves the group, because a consumer that bypasses the gateway was there
    first."""
    name = fresh_group("adopted")
    async with AsyncExitStack() as stack, trio.open_nursery() as nursery:
        beside = await stack.enter_async_context(
            group_client(kafka.addresses[0], name, client_id="beside")
        )
        clients = [
            await stack.enter_async_context(group_client(gateway.address, name, client_id=f"c{n}"))
            for n in range(size)
        ]
        joined = await beside.enter(session_timeout_ms=60_000)
        ids = [(await client.join(session_timeout_ms=60_000)).member_id for client in clients]
        await beside.leave(joined.member_id)
        alone = await clients[0].join(ids[0], session_timeout_ms=60_000)
        await clients[0].sync(alone, {})
        members = await stable(clients, ids, every_s)
        for member in members:
            nursery.start_soon(member.run)
        yield LiveGroup(gateway, name, members)
        nursery.cancel_scope.cancel()


async def stable(clients: list[GroupClient], ids: list[str], every_s: float) -> list[Member]:
    """A round of all, in which the first two get the partitions. The cluster waits for every id
    that it has given."""
    members: list[Member] = []
    numbers = dict(zip(ids, ((0, 1), (2,)), strict=False))
    shares = {member_id: {"numbers": partitions} for member_id, partitions in numbers.items()}

    async def enter(client: GroupClient, member_id: str) -> None:
        joined = await client.join(member_id, session_timeout_ms=60_000)
        assert joined.error_code == 0, joined
        await client.sync(joined, shares if joined.leader == member_id else None)
        member = Member(client, joined, numbers.get(member_id, ()), every_s=every_s)
        members.append(member)

    async with trio.open_nursery() as nursery:
        for client, member_id in zip(clients, ids, strict=True):
            nursery.start_soon(enter, client, member_id)
    return sorted(members, key=lambda member: ids.index(member.joined.member_id))


async def test_a_live_group_is_adopted_without_an_error_or_a_rebalance(kafka: KafkaCluster) -> None:
    """Its commits and heartbeats continue under the same ids, and the anchor holds it in the
    cluster."""
    async with (
        whole_gateway(kafka.addresses, adoption="auto") as gateway,
        live_group(gateway, kafka) as group,
        group_client(kafka.addresses[0], group.name) as direct,
    ):
        await until(lambda: group.events_of(GroupAdopted))
        before = [member.committed for member in group.members]
        await until(
            lambda: all(
                member.committed > number + 5
                for member, number in zip(group.members, before, strict=True)
            )
        )
        (adopted,) = group.events_of(GroupAdopted)
        assert adopted.held_ms < HOLD_MAX_MS
        assert {code for member in group.members for code in member.codes} == {ErrorCode.NONE}
        assert log_of(await direct.describe()) is not None
        stored = await direct.fetch_offsets()
        assert stored[2] >= before[1]
        assert group.events_of(AdoptionUndone) == []


@with_new_protocol()
async def test_a_group_of_hundreds_of_members_is_adopted(kafka: KafkaCluster) -> None:
    """None of them notices."""
    async with (
        whole_gateway(kafka.addresses, adoption="auto") as gateway,
        live_group(gateway, kafka, LARGE, IN_A_LARGE_GROUP_S) as group,
    ):
        await until(lambda: group.events_of(GroupAdopted) or group.events_of(AdoptionUndone))
        assert group.events_of(AdoptionUndone) == []
        (adopted,) = group.events_of(GroupAdopted)
        print(f"the calls of {LARGE} members were held for {adopted.held_ms} ms")
        before = [len(member.codes) for member in group.members]
        await until(
            lambda: all(
                len(member.codes) > count + 2
                for member, count in zip(group.members, before, strict=True)
            )
        )
        assert {code for member in group.members for code in member.codes} == {ErrorCode.NONE}


class LogWithoutLocks(MemoryLog):
    """Fails when it has to store that the cluster's group is locked."""

    async def append(self, group_id: str, batch: Sequence[LogRecord]) -> None:
        adoptions = [record.value for record in batch if isinstance(record, AdoptionRecord)]
        if any(
            adoption is not None and adoption.lock_generation is not None for adoption in adoptions
        ):
            raise StateLogError("the disk is full")
        await super().append(group_id, batch)


async def test_an_adoption_that_fails_in_the_middle_ends_in_an_ordinary_rebalance(
    kafka: KafkaCluster,
) -> None:
    """The members are told to rejoin under new ids. Until both have given up their partitions, the
    cluster admits nobody, and their commits are stored under the ids of the leader's member."""
    async with (
        whole_gateway(kafka.addresses, adoption="auto", state_log=LogWithoutLocks()) as gateway,
        live_group(gateway, kafka) as group,
        group_client(kafka.addresses[0], group.name) as direct,
    ):
        a, b = group.members
        await until(lambda: ErrorCode.REBALANCE_IN_PROGRESS in a.codes + b.codes)
        await until(lambda: a.is_recalled and b.is_recalled)
        for member in (a, b):
            codes = await member.client.commit(
                dict.fromkeys(member.numbers, member.committed + 1),
                member_id=member.joined.member_id,
                epoch=member.joined.generation_id,
            )
            assert set(codes.values()) == {ErrorCode.NONE}
        assert (await direct.fetch_offsets())[2] == b.committed + 1
        rejoined: list[JoinGroupResponse] = []

        async def rejoin(member: Member) -> None:
            refused = await member.client.join(member.joined.member_id)
            assert refused.error_code == ErrorCode.UNKNOWN_MEMBER_ID
            rejoined.append(await member.client.join(version=3))

        with trio.fail_after(20):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(rejoin, a)
                # Nothing tells that a join waits: the group must not change for a while.
                await trio.sleep(0.5)
                assert len((await direct.describe()).members) == 1  # the leader's member guards
                nursery.start_soon(rejoin, b)
        await until(lambda: group.events_of(AdoptionUndone))
        assert {member.error_code for member in rejoined} == {ErrorCode.NONE}
        ids = {member.member_id for member in rejoined}
        assert ids.isdisjoint({a.joined.member_id, b.joined.member_id})
        assert log_of(await direct.describe()) is not None  # an empty group is hosted
