"""What members of a hosted group are told while the cluster is away: nothing that ends it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import trio

from gateway.anchor.anchors import MEMBER_PATIENCE_S
from gateway.cluster.broker_connection import BrokerConnection
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
from kafka_codecs.offset_fetch import OffsetFetchRequest
from tests.support.fake_broker import answer, run_until_cancelled, running_fake_broker
from tests.support.gateway import Gateway, whole_gateway
from tests.support.group_client import GroupClient, group_client
from tests.support.offset_broker import PARTITIONS, OffsetBroker
from tests.support.ports import HOST, free_port
from tests.support.wire import Wire, connected, request_frame

MEMBER = "n"


@dataclass(frozen=True, slots=True)
class Scene:
    """A gateway with a group of one native member, whose broker has gone."""

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
    """It comes back with `running_fake_broker`. `owes_an_answer`: to a commit of partition 0."""
    broker = OffsetBroker()
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


async def test_heartbeats_go_on_and_commits_are_to_be_tried_again() -> None:
    """On the same connection, which then serves as before; the commit was never sent, so that it
    holds nothing up."""
    async with away() as scene:
        for _ in range(2):
            assert (await scene.client.native(MEMBER, scene.epoch)).error_code == 0
            assert await scene.commit() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            fetch = OffsetFetchRequest(group_id="g", topics=None)
            fetched = await scene.client.connection.ask(fetch, 5)
            assert fetched.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        async with running_fake_broker(scene.broker):
            while await scene.commit():  # nobody would tell
                await trio.sleep(0.05)
            assert scene.broker.offsets == {0: 7}
            assert (await scene.client.native(MEMBER, scene.epoch)).error_code == 0


async def test_commits_do_not_wait_for_an_anchor_that_the_broker_must_take() -> None:
    """One commit was on its way when the broker went, so the anchor is to be taken again, which
    takes as long as the broker is away. The member's heartbeats are behind its other commits."""
    async with away(owes_an_answer=True) as scene:
        with trio.fail_after(MEMBER_PATIENCE_S):
            for partition in (0, 1, 2, 1, 2):
                assert await scene.commit(partition) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            assert (await scene.client.native(MEMBER, scene.epoch)).error_code == 0
        scene.broker.gate = None
        async with running_fake_broker(scene.broker):
            while await scene.commit():  # nobody would tell
                await trio.sleep(0.05)
            assert scene.broker.offsets == {0: 7}


async def test_a_client_that_fetches_finds_its_coordinator_behind_that() -> None:
    """It fetches first on each new connection: librdkafka looks for the coordinator on any."""
    async with away() as scene, connected(scene.gateway.address) as wire:
        fetch = FetchRequest(max_wait_ms=0, min_bytes=0, topics=())
        find = FindCoordinatorRequest(key="g")
        await wire.send(
            request_frame(ApiKey.FETCH, 11, 1, encode(fetch, 11))
            + request_frame(ApiKey.FIND_COORDINATOR, 3, 2, encode(find, 3))
        )
        fetched, _ = decode_response_header(ApiKey.FETCH, 11, await wire.frame())
        frame = await wire.frame()
        found, offset = decode_response_header(ApiKey.FIND_COORDINATOR, 3, frame)
        assert (fetched, found) == (1, 2)
        here = decode(FindCoordinatorResponse, frame[offset:], 3)
        assert (here.error_code, here.node_id) == (0, 1)


async def test_a_client_that_comes_back_finds_its_group_where_it_was() -> None:
    """Its coordinator and its topics are told from memory. A group that nobody knew is to be looked
    for again."""
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


async def test_a_classic_member_of_whom_nobody_knows_is_to_look_for_its_coordinator() -> None:
    """Whose the group is only the cluster can say; see `refusal`."""
    async with away() as scene:
        member = GroupClient(scene.client.connection, "another")
        beaten = await member.beat(JoinGroupResponse(generation_id=1, member_id="c", members=()))
        assert beaten.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_no_reason_names_an_address_of_the_cluster() -> None:
    """Neither who joins a group that must be looked at, nor who waits for an anchor that is being
    taken: brokers are for the gateway alone to know."""
    async with away(owes_an_answer=True) as scene:
        newcomer = GroupClient(scene.client.connection, "another")
        for refused in (await newcomer.native(MEMBER), await scene.client.native("second")):
            assert refused.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            _assert_names_no_address(refused, scene.broker)


async def test_nor_does_it_when_the_coordinator_is_not_known() -> None:
    """A gateway that has just taken up the group, and then the broker went."""
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
            assert refused.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            _assert_names_no_address(refused, broker)
            nursery.cancel_scope.cancel()


def _assert_names_no_address(refused: ConsumerGroupHeartbeatResponse, broker: OffsetBroker) -> None:
    assert refused.error_message
    assert str(broker.address[1]) not in refused.error_message


async def test_a_coordinator_that_has_only_just_joined_is_looked_for_again() -> None:
    """It is gone before the cluster's Metadata has told us where it was, and the other broker still
    names it."""

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
            found = await client.connection.ask(FindCoordinatorRequest(key="g"), 3)
            assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
