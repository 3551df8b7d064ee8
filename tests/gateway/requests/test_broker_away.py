"""Members of a hosted group survive an outage of the cluster."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from operator import not_
from typing import Any
from uuid import UUID

import pytest
import trio

from gateway.cluster.broker_connection import BrokerConnection
from gateway.data_path.group_apis import GroupRequest
from gateway.hosting.call_stages import MEMBER_WAIT_MS
from gateway.requests.coordinators import Coordinators
from gateway.state_log.memory import MemoryLog
from kafka_codecs import decode, encode
from kafka_codecs.apis import ApiKey
from kafka_codecs.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.fetch import FetchRequest
from kafka_codecs.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafka_codecs.header import RequestHeader, decode_response_header
from kafka_codecs.join_group import JoinGroupResponse
from kafka_codecs.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kafka_codecs.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from tests.support.commits import codes_of, transactional_commit_of
from tests.support.fake_broker import answer, run_until_cancelled, running_fake_broker
from tests.support.gateway import Gateway, whole_gateway
from tests.support.group_client import GroupClient, group_client
from tests.support.offset_broker import PARTITIONS, OffsetBroker
from tests.support.ports import HOST, free_port
from tests.support.until import until_answered
from tests.support.wire import Wire, open_wire, request_frame

MEMBER = "n"


@dataclass(frozen=True, slots=True)
class Scene:
    """A gateway with a group of one native member, whose broker is down."""

    broker: OffsetBroker
    gateway: Gateway
    client: GroupClient
    epoch: int

    async def commit(self, partition: int = 0) -> int:
        """The error code of a commit."""
        answered = await self.client.commit({partition: 7}, member_id=MEMBER, epoch=self.epoch)
        return answered[partition]


@asynccontextmanager
async def away(*, owes_an_answer: bool = False) -> AsyncIterator[Scene]:
    """`running_fake_broker` starts it again. `owes_an_answer`: a commit of partition 0 is
    unanswered."""
    broker = OffsetBroker()
    broker.versions = {**broker.versions, ApiKey.TXN_OFFSET_COMMIT: (0, 5)}
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            first_run = await nursery.start(run_until_cancelled, broker)
            async with (
                whole_gateway([broker.address]) as gateway,
                group_client(gateway.address, "g") as client,
            ):
                epoch = (await client.native(MEMBER)).member_epoch
                scene = Scene(broker, gateway, client, epoch)
                async with trio.open_nursery() as committing:
                    if owes_an_answer:
                        broker.gate = trio.Event()
                        committing.start_soon(scene.commit)
                        await broker.asked.wait()
                    first_run.cancel()
                    await broker.down_to(0)
                yield scene
            nursery.cancel_scope.cancel()


async def test_the_groups_of_a_fetch_are_looked_up_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A request names thousands, and each look would wait for the other brokers."""
    asked: list[tuple[str, ...]] = []
    look_up = Coordinators.nodes_instead

    async def count(self: Coordinators, group_ids: Collection[str], request: GroupRequest) -> Any:
        asked.append(tuple(group_ids))
        return await look_up(self, group_ids, request)

    monkeypatch.setattr(Coordinators, "nodes_instead", count)
    names = ("g", *(f"g-{number}" for number in range(20)))
    async with away() as scene:
        fetch = OffsetFetchRequest(
            groups=tuple(OffsetFetchRequestGroup(group_id=name, topics=None) for name in names)
        )
        answer: OffsetFetchResponse = await scene.client.connection.ask(fetch, 8)
    assert [group.error_code for group in answer.groups] == [
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    ] * len(names)
    assert asked == [names]


async def test_heartbeats_succeed_and_commits_are_retried() -> None:
    """Both use the same connection, which later serves as before. The commit was never sent, so it
    blocks nothing."""
    async with away() as scene:
        for _ in range(2):
            assert (await scene.client.native(MEMBER, scene.epoch)).error_code == 0
            assert await scene.commit() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            fetch = OffsetFetchRequest(group_id="g", topics=None)
            fetched = await scene.client.connection.ask(fetch, 5)
            assert fetched.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        async with running_fake_broker(scene.broker):
            await until_answered(scene.commit, not_)
            assert scene.broker.offsets == {0: 7}
            assert (await scene.client.native(MEMBER, scene.epoch)).error_code == 0


async def test_commits_do_not_wait_for_an_anchor_that_the_broker_must_take() -> None:
    """A commit was in flight when the broker went down, so the anchor must be taken again, which
    lasts as long as the outage. The member's heartbeats wait behind its other commits."""
    async with away(owes_an_answer=True) as scene:
        with trio.fail_after(MEMBER_WAIT_MS / 1000):
            for partition in (0, 1, 2, 1, 2):
                assert await scene.commit(partition) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            assert (await scene.client.native(MEMBER, scene.epoch)).error_code == 0
        scene.broker.gate = None
        async with running_fake_broker(scene.broker):
            await until_answered(scene.commit, not_)
            assert scene.broker.offsets == {0: 7}


async def test_a_transaction_by_topic_id_is_retried() -> None:
    """The gateway cannot ask for the name of a topic that it has not seen."""
    async with away() as scene:
        topic_id = UUID(int=9)
        commit = transactional_commit_of(
            {topic_id: {0: 7}}, member_id=MEMBER, generation=scene.epoch
        )
        answer = await scene.client.connection.ask(commit, 6)
        assert codes_of(answer) == {topic_id: {0: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}}


async def test_a_fetching_client_then_finds_its_coordinator() -> None:
    """The client fetches first on each new connection. librdkafka looks for the coordinator on any
    connection."""
    async with away() as scene, open_wire(scene.gateway.address) as wire:
        fetch = FetchRequest(max_wait_ms=0, min_bytes=0, topics=())
        find = FindCoordinatorRequest(key="g")
        await wire.send(
            request_frame(ApiKey.FETCH, 11, 1, encode(fetch, 11))
            + request_frame(ApiKey.FIND_COORDINATOR, 3, 2, encode(find, 3))
        )
        fetched, _ = decode_response_header(ApiKey.FETCH, 11, await wire.frame())
        frame = await wire.frame()
        header, offset = decode_response_header(ApiKey.FIND_COORDINATOR, 3, frame)
        assert (fetched, header) == (1, 2)
        here = decode(FindCoordinatorResponse, frame[offset:], 3)
        assert (here.error_code, here.node_id) == (0, 1)


async def test_a_returning_client_finds_its_group() -> None:
    """The gateway answers for its coordinator and topics from memory. An unknown group must be
    looked up again."""
    async with away() as scene, group_client(scene.gateway.address, "g") as client:
        ask = client.connection.ask
        here = await ask(FindCoordinatorRequest(key="g"), 3)
        assert (here.error_code, here.node_id) == (0, 1)
        assert here.port not in (scene.broker.address[1], scene.gateway.address[1])
        nobody = await ask(FindCoordinatorRequest(key="unheard of"), 3)
        assert nobody.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        transactional = await ask(FindCoordinatorRequest(key="g", key_type=1), 3)
        assert transactional.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        known: MetadataResponse = await ask(
            MetadataRequest(topics=(MetadataRequestTopic(name="numbers"),)), 12
        )
        assert [broker.port for broker in known.brokers] == [here.port]
        (topic,) = known.topics
        assert topic.error_code == 0
        codes = [partition.error_code for partition in topic.partitions]
        assert codes == PARTITIONS * [ErrorCode.LEADER_NOT_AVAILABLE]
        assert (await client.native(MEMBER, scene.epoch)).error_code == 0


async def test_an_unknown_classic_member_looks_for_its_coordinator() -> None:
    """Only the cluster can tell who holds the group; see `refusal`."""
    async with away() as scene:
        member = GroupClient(scene.client.connection, "another")
        beaten = await member.beat(JoinGroupResponse(generation_id=1, member_id="c", members=()))
        assert beaten.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_no_error_contains_a_broker_address() -> None:
    """This covers joins that need a look-up and waits for an anchor. Only the gateway may know the
    brokers' addresses."""
    async with away(owes_an_answer=True) as scene:
        newcomer = GroupClient(scene.client.connection, "another")
        for refused in (await newcomer.native(MEMBER), await scene.client.native("second")):
            assert refused.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            _assert_names_no_address(refused, scene.broker)


async def test_no_error_contains_an_address_without_a_coordinator() -> None:
    """The gateway took over the group just before the broker went down."""
    broker, state_log = OffsetBroker(), MemoryLog()
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            first_run = await nursery.start(run_until_cancelled, broker)
            async with (
                whole_gateway([broker.address], state_log=state_log) as gateway,
                group_client(gateway.address, "g") as client,
            ):
                epoch = (await client.native(MEMBER)).member_epoch
            async with whole_gateway([broker.address], state_log=state_log) as gateway:
                listeners = await gateway.listeners()
                async with await BrokerConnection.open(*listeners[broker.node_id]) as connection:
                    first_run.cancel()
                    await broker.down_to(0)
                    refused = await GroupClient(connection, "g").native(MEMBER, epoch)
            assert refused.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            _assert_names_no_address(refused, broker)
            nursery.cancel_scope.cancel()


def _assert_names_no_address(refused: ConsumerGroupHeartbeatResponse, broker: OffsetBroker) -> None:
    assert refused.error_message
    assert str(broker.address[1]) not in refused.error_message


async def test_a_new_coordinator_that_vanished_is_looked_up_again() -> None:
    """The coordinator vanished before the cluster's Metadata had its address, and the other broker
    still names it."""

    async def name_the_new_one(wire: Wire, header: RequestHeader, body: bytes) -> None:
        await answer(wire, header, FindCoordinatorResponse(node_id=2, host=HOST, port=free_port()))

    broker = OffsetBroker()
    broker.handlers[ApiKey.FIND_COORDINATOR] = name_the_new_one
    with trio.fail_after(30):
        async with (
            running_fake_broker(broker),
            whole_gateway([broker.address]) as gateway,
            group_client(gateway.address, "g") as client,  # at the listener of the new one
        ):
            coordinator = await client.connection.ask(FindCoordinatorRequest(key="g"), 3)
            assert coordinator.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
