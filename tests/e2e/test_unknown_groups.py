"""Thousands of requests about groups that are not hosted do not disturb a hosted group."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID, uuid4

import pytest
import trio

from gateway.cluster.broker_connection import BrokerConnection
from kafka_codecs.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kafka_codecs.error_codes import ErrorCode
from tests.support.fake_broker import running_fake_broker
from tests.support.group_client import Address, GroupClient, group_client
from tests.support.guarded_broker import GuardedBroker
from tests.support.serve_process import serving
from tests.support.unknown_groups import OF_NO_MEMBER, REQUESTS

GROUP = "healthy"
PARTITIONS = 3
CONNECTIONS, ROUNDS = 4, 60
"""Each connection sends one request of each kind in each round, about another group."""
WAIT_S_MAX = 2.0
"""The longest wait of a heartbeat. The session is 10 s."""
LIMIT_S = 90


@dataclass(slots=True)
class Observed:
    """What the members of the healthy group have met since they were left alone."""

    rejoins: int = 0
    errors: list[int] = field(default_factory=list)
    longest_s: float = 0.0
    epochs: set[int] = field(default_factory=set)

    @asynccontextmanager
    async def time_request(self) -> AsyncIterator[None]:
        """Note how long a request takes."""
        started_s = trio.current_time()
        yield
        self.longest_s = max(self.longest_s, trio.current_time() - started_s)


async def be_classic(client: GroupClient, observed: Observed, in_group: trio.Event) -> None:
    """Be a classic member, until cancelled."""
    member_id = ""
    while True:
        joined = await client.join(member_id)
        member_id = joined.member_id or member_id
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            continue
        if joined.error_code:
            observed.errors.append(joined.error_code)
            member_id = ""
            continue
        ids = [member.member_id for member in joined.members]
        shares = {
            id_: {"numbers": range(number, PARTITIONS, len(ids))} for number, id_ in enumerate(ids)
        }
        code = (await client.sync(joined, shares)).error_code
        in_group.set()
        while not code:
            await trio.sleep(0.1)
            async with observed.time_request():
                code = (await client.beat(joined)).error_code
        observed.rejoins += 1
        if code != ErrorCode.REBALANCE_IN_PROGRESS:
            observed.errors.append(code)


async def be_native(client: GroupClient, observed: Observed, in_group: trio.Event) -> None:
    """Be a native member, until cancelled."""
    member_id, epoch, owned = f"{uuid4()}", 0, None
    while True:
        answer: ConsumerGroupHeartbeatResponse
        async with observed.time_request():
            answer = await client.native(member_id, epoch, owned=owned)
        if answer.error_code:
            observed.errors.append(answer.error_code)
        epoch, owned = answer.member_epoch, None
        observed.epochs.add(epoch)
        in_group.set()
        if answer.assignment is not None:
            owned = _partitions(answer)
        await trio.sleep(0.1)


def _partitions(answer: ConsumerGroupHeartbeatResponse) -> dict[UUID, tuple[int, ...]]:
    assert answer.assignment is not None
    return {topic.topic_id: topic.partitions for topic in answer.assignment.topic_partitions}


async def flood(address: Address, number: int) -> None:
    """Send requests of every kind, each about another group."""
    async with await BrokerConnection.open(*address) as connection:
        for turn in range(ROUNDS):
            for kind, make in {**REQUESTS, **OF_NO_MEMBER}.items():
                await connection.ask(make(f"unknown-{number}-{turn}-{kind}"))


@pytest.mark.parametrize("hosted", ["*", GROUP], ids=["all would be hosted", "all are forwarded"])
async def test_requests_about_unknown_groups_disturb_nobody(tmp_path: Path, hosted: str) -> None:
    """Two classic members and a native one have one group meanwhile."""
    broker = GuardedBroker(topic_id=uuid4())
    observed = Observed()
    with trio.fail_after(LIMIT_S):
        async with running_fake_broker(broker):
            upstream = f"{broker.address[0]}:{broker.address[1]}"
            async with (
                serving(upstream, tmp_path, f"--groups-host={hosted}") as gateway,
                group_client(gateway.address, GROUP) as one,
                group_client(gateway.address, GROUP) as other,
                group_client(gateway.address, GROUP) as native,
                trio.open_nursery() as nursery,
            ):
                for be, client in ((be_classic, one), (be_classic, other), (be_native, native)):
                    in_group = trio.Event()
                    nursery.start_soon(be, client, observed, in_group)
                    await in_group.wait()
                await until_steady(observed)
                rejoins = observed.rejoins
                observed.longest_s = 0.0
                observed.epochs.clear()
                async with trio.open_nursery() as floods:
                    for number in range(CONNECTIONS):
                        floods.start_soon(flood, gateway.address, number)
                assert observed.errors == []
                assert observed.rejoins == rejoins
                assert len(observed.epochs) == 1
                assert observed.longest_s < WAIT_S_MAX
                nursery.cancel_scope.cancel()


async def until_steady(observed: Observed) -> None:
    """Wait until no member has rejoined for a while."""
    before = -1
    while before != observed.rejoins or len(observed.epochs) > 1:
        before = observed.rejoins
        observed.epochs.clear()
        await trio.sleep(2)
