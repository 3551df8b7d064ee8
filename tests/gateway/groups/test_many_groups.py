"""One request about many groups costs the cluster a constant number of requests."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
import trio

from coordinator.interface.records import ClassicGroupMetadata, ClassicGroupValue
from gateway.cluster.broker_connection import BrokerConnection
from gateway.groups.cluster_group_reader import GROUPS_PER_LOOKUP_MAX
from gateway.state_log.memory import MemoryLog
from kafka_codecs.apis import ApiKey
from kafka_codecs.consumer_group_describe import ConsumerGroupDescribeRequest
from kafka_codecs.declaration import Struct
from kafka_codecs.delete_groups import DeleteGroupsRequest
from kafka_codecs.describe_configs import (
    ConfigResourceType,
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from kafka_codecs.describe_groups import DescribeGroupsRequest
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.find_coordinator import FindCoordinatorRequest
from kafka_codecs.header import RequestHeader
from kafka_codecs.list_groups import ListGroupsRequest, ListGroupsResponse
from kafka_codecs.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.support.fake_broker import answer as answer_request
from tests.support.fake_broker import running_fake_broker
from tests.support.gateway import whole_gateway
from tests.support.offset_broker import OffsetBroker
from tests.support.wire import Wire

EMPTY_GROUP = (
    ClassicGroupMetadata(
        value=ClassicGroupValue(protocol_type="consumer", generation=1, protocol=None, leader=None)
    ),
)
MANY = tuple(f"unknown-{number}" for number in range(2 * GROUPS_PER_LOOKUP_MAX))
QUESTIONS_MAX = 9
"""The requests for any number of groups: ApiVersions of each connection, the coordinators, the
descriptions (two batches), and the client's own request."""


def questions(seen: Sequence[RequestHeader]) -> int:
    """The number of these requests, without Metadata, which is requested periodically anyway."""
    return sum(header.api_key != ApiKey.METADATA for header in seen)


@asynccontextmanager
async def open_scene(
    log: MemoryLog | None = None,
) -> AsyncIterator[tuple[OffsetBroker, BrokerConnection]]:
    """A broker that supports batches, and a client of the gateway."""
    broker = OffsetBroker()
    broker.versions = {
        **broker.versions,
        ApiKey.FIND_COORDINATOR: (0, 4),
        ApiKey.OFFSET_FETCH: (0, 8),
    }
    with trio.fail_after(30):
        async with (
            running_fake_broker(broker),
            whole_gateway([broker.address], state_log=log) as gateway,
        ):
            (address,) = (await gateway.listeners()).values()
            async with await BrokerConnection.open(*address) as connection:
                yield broker, connection


@pytest.mark.parametrize(
    ("asked", "version"),
    [
        (
            OffsetFetchRequest(
                groups=tuple(
                    OffsetFetchRequestGroup(group_id=group_id, topics=()) for group_id in MANY
                )
            ),
            8,
        ),
        (
            DescribeConfigsRequest(
                resources=tuple(
                    DescribeConfigsResource(
                        resource_type=ConfigResourceType.GROUP, resource_name=group_id
                    )
                    for group_id in MANY
                )
            ),
            4,
        ),
        (DeleteGroupsRequest(groups_names=MANY), 2),
        (DescribeGroupsRequest(groups=MANY), 5),
        (ConsumerGroupDescribeRequest(group_ids=MANY, include_authorized_operations=False), 1),
        (FindCoordinatorRequest(coordinator_keys=MANY), 4),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Struct) else "",
)
async def test_unknown_groups_cost_no_broker_call_each(asked: Struct, version: int) -> None:
    """Clients can invent any number of names."""
    async with open_scene() as (broker, connection):
        seen_before = len(broker.seen)
        await connection.ask(asked, version)
        assert questions(broker.seen[seen_before:]) <= QUESTIONS_MAX


async def test_a_list_of_many_empty_groups_needs_one_look_up() -> None:
    """After a restart no request has looked up their coordinators yet, and a broker that loads does
    not list its groups."""
    log = MemoryLog()
    for group_id in MANY:
        await log.append(group_id, EMPTY_GROUP)

    async def loads(wire: Wire, header: RequestHeader, _body: bytes) -> None:
        loading = ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        await answer_request(wire, header, loading)

    async with open_scene(log) as (broker, connection):
        broker.handlers[ApiKey.LIST_GROUPS] = loads
        seen_before = len(broker.seen)
        answer = await connection.ask(ListGroupsRequest(), 4)
        assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert {group.group_id for group in answer.groups} == set(MANY)
        assert questions(broker.seen[seen_before:]) <= QUESTIONS_MAX


@pytest.mark.parametrize("is_same", [True, False])
async def test_a_repeated_group_in_a_fetch_is_answered_once(*, is_same: bool) -> None:
    """Different topics for the same group are ambiguous, and refused."""
    again = OffsetFetchRequestGroup(group_id="g", topics=() if is_same else None)
    one = OffsetFetchRequestGroup(group_id="g", topics=())
    other = OffsetFetchRequestGroup(group_id="h", topics=())
    async with open_scene() as (_, connection):
        answer = await connection.ask(OffsetFetchRequest(groups=(one, other, again)), 8)
        codes = [(group.group_id, group.error_code) for group in answer.groups]
        assert codes == [("g", 0 if is_same else ErrorCode.INVALID_REQUEST), ("h", 0)]
