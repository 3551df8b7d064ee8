"""OffsetFetch in front of clusters that support fewer versions than the client.
test_group_service.py tests it over sockets."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from structlog.testing import capture_logs

from gateway.cluster.broker_connection import Address, BrokerConnection
from gateway.requests import offset_fetch
from kafka_codecs.apis import ApiKey
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from tests.support.fake_broker import running_fake_broker, together
from tests.support.gateway import whole_gateway
from tests.support.group_client import GroupClient
from tests.support.offset_broker import OffsetBroker


@asynccontextmanager
async def scene_with_address(broker: OffsetBroker) -> AsyncIterator[Address]:
    """The gateway's listener for this broker."""
    async with running_fake_broker(broker), whole_gateway([broker.address]) as gateway:
        (address,) = (await gateway.listeners()).values()
        yield address


@asynccontextmanager
async def open_scene(
    versions: tuple[int, int] = (0, 6),
) -> AsyncIterator[tuple[OffsetBroker, BrokerConnection]]:
    """A broker that supports these versions of OffsetFetch, and a client of the gateway."""
    broker = OffsetBroker()
    broker.versions = {**broker.versions, ApiKey.OFFSET_FETCH: versions}
    with trio.fail_after(10):
        async with scene_with_address(broker) as address:
            async with await BrokerConnection.open(*address) as connection:
                yield broker, connection


def fetch_of_one(*, stable: bool = False) -> OffsetFetchRequest:
    """A request about one group."""
    topic = OffsetFetchRequestTopic(name="numbers", partition_indexes=(0, 1))
    return OffsetFetchRequest(group_id="g", topics=(topic,), require_stable=stable)


def fetch_of_many(*group_ids: str, stable: bool = False) -> OffsetFetchRequest:
    """A request about many groups."""
    topic = OffsetFetchRequestTopic(name="numbers", partition_indexes=(0, 1))
    return OffsetFetchRequest(
        groups=tuple(
            OffsetFetchRequestGroup(group_id=group_id, topics=(topic,)) for group_id in group_ids
        ),
        require_stable=stable,
    )


async def test_stable_offsets_are_not_requested_where_the_cluster_lacks_them() -> None:
    """Every librdkafka and Java consumer requests them in v7, and reads without them from a broker
    before 2.5. The gateway has raised the version, so it drops the flag, as these clients do."""
    async with open_scene() as (broker, connection):
        broker.offsets = {0: 5}
        answer: OffsetFetchResponse = await connection.ask(fetch_of_one(stable=True), 7)
        assert (answer.error_code, answer.topics[0].partitions[0].committed_offset) == (0, 5)
        batch: OffsetFetchResponse = await connection.ask(fetch_of_many("g", "h", stable=True), 9)
        assert [group.error_code for group in batch.groups] == [0, 0]
        seen = [header for header in broker.seen if header.api_key == ApiKey.OFFSET_FETCH]
        assert [header.api_version for header in seen] == [6, 6, 6]


async def test_stable_offsets_are_requested_where_the_cluster_has_them() -> None:
    """Brokers support them from v7 on."""
    async with open_scene((0, 7)) as (broker, connection):
        answer: OffsetFetchResponse = await connection.ask(fetch_of_many("g", stable=True), 9)
        assert answer.groups[0].error_code == 0
        (seen,) = [header for header in broker.seen if header.api_key == ApiKey.OFFSET_FETCH]
        assert seen.api_version == 7


async def test_a_batch_becomes_one_request_per_group_for_an_old_cluster() -> None:
    """The answers become one again."""
    async with open_scene() as (broker, connection):
        broker.offsets = {0: 5}
        answer: OffsetFetchResponse = await connection.ask(fetch_of_many("g", "h"), 8)
        assert [group.group_id for group in answer.groups] == ["g", "h"]
        for group in answer.groups:
            offsets = {p.partition_index: p.committed_offset for p in group.topics[0].partitions}
            assert offsets == {0: 5, 1: -1}
        seen = [header for header in broker.seen if header.api_key == ApiKey.OFFSET_FETCH]
        assert [header.api_version for header in seen] == [6, 6]


@pytest.mark.parametrize(("asked", "spoken"), [(6, 8), (8, 8), (9, 9)])
async def test_a_batch_is_sent_in_the_clients_version_or_the_first_that_has_batches(
    asked: int, spoken: int
) -> None:
    """The answer is then as rich as the client can read."""
    async with open_scene((0, 9)) as (broker, connection):
        request = fetch_of_one() if asked < spoken else fetch_of_many("g")
        await connection.ask(request, asked)
        seen = [header for header in broker.seen if header.api_key == ApiKey.OFFSET_FETCH]
        assert [header.api_version for header in seen] == [spoken]


async def test_requests_to_an_old_cluster_are_pipelined() -> None:
    """The client must not wait for one round trip per group."""
    async with open_scene() as (broker, connection):
        handler = broker.handlers[ApiKey.OFFSET_FETCH]
        broker.handlers[ApiKey.OFFSET_FETCH] = together(3, handler)
        answer: OffsetFetchResponse = await connection.ask(fetch_of_many("g", "h", "i"), 8)
        assert [group.error_code for group in answer.groups] == [ErrorCode.NONE] * 3


async def test_the_number_of_requests_to_an_old_cluster_is_limited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An admin client retries the remaining groups."""
    monkeypatch.setattr(offset_fetch, "GROUPS_ONE_BY_ONE_MAX", 2)
    async with open_scene() as (broker, connection):
        answer: OffsetFetchResponse = await connection.ask(fetch_of_many("g", "h", "i"), 8)
        loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert [group.error_code for group in answer.groups] == [0, 0, loading]
        seen = [header for header in broker.seen if header.api_key == ApiKey.OFFSET_FETCH]
        assert len(seen) == 2


@pytest.mark.parametrize("version", [1, 2, 6, 8])
async def test_an_error_of_the_cluster_reaches_every_version(version: int) -> None:
    """v1 has only partition errors. A missing error there would mean no offset."""
    async with open_scene() as (broker, connection):
        broker.fetch_error = ErrorCode.NOT_COORDINATOR
        request = fetch_of_many("g") if version >= 8 else fetch_of_one()
        answer: OffsetFetchResponse = await connection.ask(request, version)
        if version >= 8:
            assert answer.groups[0].error_code == ErrorCode.NOT_COORDINATOR
        elif version >= 2:
            assert answer.error_code == ErrorCode.NOT_COORDINATOR
        else:
            codes = [p.error_code for p in answer.topics[0].partitions]
            assert codes == [ErrorCode.NOT_COORDINATOR] * 2


async def test_all_offsets_of_a_group_can_be_requested() -> None:
    """Null topics request them, from v2 on."""
    async with open_scene() as (_, connection):
        answer: OffsetFetchResponse = await connection.ask(
            OffsetFetchRequest(group_id="g", topics=None), 5
        )
        assert (answer.error_code, answer.topics) == (0, ())


async def test_a_batch_without_groups_has_an_empty_answer() -> None:
    """The cluster receives no request."""
    async with open_scene() as (broker, connection):
        answer: OffsetFetchResponse = await connection.ask(OffsetFetchRequest(groups=()), 8)
        assert answer.groups == ()
        assert ApiKey.OFFSET_FETCH not in {ApiKey(header.api_key) for header in broker.seen}


async def test_a_members_start_offsets_are_reported() -> None:
    """The member is known from the request, or from earlier requests on its connection. A group
    without members has no starts."""
    broker = OffsetBroker()
    broker.offsets = {0: 5}
    with trio.fail_after(20), capture_logs() as lines:
        async with (
            scene_with_address(broker) as address,
            await BrokerConnection.open(*address) as connection,
            await BrokerConnection.open(*address) as stranger,
        ):
            await connection.ask(fetch_of_one(), 6)
            assert (await GroupClient(connection, "g").native("n")).error_code == 0
            for client in (connection, connection, stranger):
                await client.ask(fetch_of_one(), 6)
    events = [line for line in lines if line["event"] == "offsets_fetched"]
    offsets = {"numbers": [{"partition": 0, "offset": 5}, {"partition": 1, "offset": -1}]}
    assert [(line["member_id"], line["starts"]) for line in events] == [
        ("n", offsets),
        ("", offsets),
    ]
