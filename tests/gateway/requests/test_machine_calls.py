"""Admin requests about groups that a gateway on another machine has."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypeVar, cast
from uuid import uuid4

import pytest
import trio

from gateway.cluster.access import PLAIN_ACCESS
from gateway.data_path.group_apis import GroupRequest
from gateway.data_path.upstream import Upstream
from gateway.fleet.seated_member import FLEET_CLIENT_ID, SeatedMember
from gateway.fleet.table import FleetTable, GatewayAddress, Seat
from gateway.hosting.answers import GroupApi, RefusalReason, code_for
from gateway.requests import machine_calls
from gateway.requests.machine_calls import MachineCalls
from gateway.requests.owner_calls import CALLS_MAX, OwnerAway
from kafka_codecs import consumer_group_describe as described
from kafka_codecs.apis import ApiKey
from kafka_codecs.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from kafka_codecs.declaration import Struct
from kafka_codecs.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from kafka_codecs.describe_configs import (
    ConfigResourceType,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kafka_codecs.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kafka_codecs.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from kafka_codecs.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from kafka_codecs.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from kafka_codecs.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from tests.support.fake_broker import FakeBroker, replying, running_fake_broker
from tests.support.hosted_groups import lone_request
from tests.support.until import until

OWN, OTHER = 0, 1
REFUSED = ErrorCode.GROUP_AUTHORIZATION_FAILED
AWAY = code_for(RefusalReason.LOADING, GroupApi.ADMIN)
VERSIONS = {
    ApiKey.API_VERSIONS: (0, 3),
    ApiKey.DESCRIBE_GROUPS: (0, 6),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 1),
    ApiKey.DELETE_GROUPS: (0, 2),
    ApiKey.OFFSET_DELETE: (0, 0),
    ApiKey.OFFSET_FETCH: (0, 9),
    ApiKey.METADATA: (0, 12),
    ApiKey.FIND_COORDINATOR: (0, 4),
    ApiKey.LIST_GROUPS: (0, 4),
    ApiKey.DESCRIBE_CONFIGS: (0, 4),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 1),
    ApiKey.LIST_CONFIG_RESOURCES: (0, 1),
}
OPERATIONS = 1 << 3 | 1 << 8
"""READ and DESCRIBE."""


R = TypeVar("R", DescribeConfigsResult, AlterConfigsResourceResponse)
CodeOf = Callable[[str], ErrorCode]


def results(kind: type[R], resources: Iterable[Any], code_of: CodeOf) -> tuple[R, ...]:
    """The result of each resource, of this kind."""
    return tuple(
        kind(
            error_code=code_of(one.resource_name),
            resource_type=one.resource_type,
            resource_name=one.resource_name,
        )
        for one in resources
    )


def configs_described(resources: Iterable[Any], code_of: CodeOf) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(results=results(DescribeConfigsResult, resources, code_of))


def configs_altered(resources: Iterable[Any], code_of: CodeOf) -> IncrementalAlterConfigsResponse:
    altered = results(AlterConfigsResourceResponse, resources, code_of)
    return IncrementalAlterConfigsResponse(responses=altered)


class ClientsBroker:
    """The client's own connection, on which some groups and topics are refused."""

    def __init__(self, *refused: str) -> None:
        self.versions = {**VERSIONS, ApiKey.LIST_CONFIG_RESOURCES: (0, 0)}
        self.is_idle = True
        self._refused = refused

    async def ask_all(self, messages: Sequence[Struct], version: int) -> Sequence[Struct]:
        """The broker's answers."""
        return [await self.ask(message, version) for message in messages]

    async def ask(self, message: Struct, _version: int) -> Struct:
        """The broker's answer."""
        match message:
            case DescribeGroupsRequest(groups=groups):
                return DescribeGroupsResponse(
                    groups=tuple(
                        DescribedGroup(
                            group_id=name,
                            error_code=self._code(name),
                            authorized_operations=OPERATIONS,
                        )
                        for name in groups
                    )
                )
            case OffsetDeleteRequest(group_id=group_id):
                return OffsetDeleteResponse(error_code=self._code(group_id))
            case DescribeConfigsRequest(resources=resources):
                return configs_described(resources, self._code)
            case IncrementalAlterConfigsRequest(resources=changed, validate_only=True):
                return configs_altered(changed, self._code)
            case MetadataRequest(topics=topics):
                return MetadataResponse(
                    topics=tuple(
                        MetadataResponseTopic(
                            name=topic.name,
                            topic_authorized_operations=0
                            if topic.name in self._refused
                            else OPERATIONS,
                        )
                        for topic in topics or ()
                    )
                )
            case OffsetFetchRequest(groups=fetched):
                return OffsetFetchResponse(
                    groups=tuple(
                        OffsetFetchResponseGroup(
                            group_id=group.group_id, error_code=self._code(group.group_id)
                        )
                        for group in fetched
                    )
                )
            case _:
                raise TypeError(message)

    def _code(self, name: str) -> ErrorCode:
        return REFUSED if name in self._refused else ErrorCode.NONE


def request_of(message: Struct, version: int, *refused: str) -> GroupRequest:
    """A client's request. The cluster refuses it these groups and topics."""
    request = lone_request(message, version)
    request.upstream = cast(Upstream, ClientsBroker(*refused))
    return request


def member_beside(address: tuple[str, int]) -> SeatedMember:
    """The view of a gateway whose fleet has another one, at this address."""
    host, port = address
    seats = tuple(
        Seat(
            name=f"g{slot}",
            member_id=f"g{slot}-id",
            stamp="0",
            slot=slot,
            address=GatewayAddress(host=host, port=slot),
            node_ports={1: port},
        )
        for slot in (OWN, OTHER)
    )
    table = FleetTable(generation=1, log_id="log", first_run=0, seats=seats, owners=(OTHER,) * 4)
    return SeatedMember(slot=OWN, slots=1, shards=4, owners=[OTHER] * 4, table=table)


class OtherGateway:
    """The gateway that has the groups: what it was asked, and what it answers."""

    def __init__(self, broker: FakeBroker) -> None:
        self.asked: list[Struct] = []
        self._broker = broker
        self.calls = MachineCalls(member_beside(broker.address), None, PLAIN_ACCESS)

    def answers(self, key: ApiKey, make: Callable[[Any], Struct | Awaitable[Struct]]) -> None:
        """Have it answer requests of an api."""

        def reply(message: Struct) -> Struct | Awaitable[Struct]:
            self.asked.append(message)
            return make(message)

        self._broker.handlers[key] = replying(reply)

    @property
    def client_ids(self) -> set[str | None]:
        """Who has asked it."""
        return {header.client_id for header in self._broker.seen}


@asynccontextmanager
async def other_gateway() -> AsyncIterator[OtherGateway]:
    """A gateway elsewhere for the length of the block."""
    with trio.fail_after(10):
        async with running_fake_broker(FakeBroker(versions=VERSIONS)) as broker:
            yield OtherGateway(broker)


def stable(message: DescribeGroupsRequest) -> DescribeGroupsResponse:
    """All groups exist."""
    groups = (DescribedGroup(group_id=name, group_state="Stable") for name in message.groups)
    return DescribeGroupsResponse(groups=tuple(groups))


async def test_the_owner_describes_what_the_client_may_see() -> None:
    """Other groups are not asked about, and the operations are those of the client."""
    async with other_gateway() as other:
        other.answers(ApiKey.DESCRIBE_GROUPS, stable)
        message = DescribeGroupsRequest(groups=("a", "b"), include_authorized_operations=True)
        shown = await other.calls.ask(OTHER, request_of(message, 5, "b"), message)
        assert [
            (group.group_id, group.group_state, group.error_code) for group in shown.groups
        ] == [
            ("a", "Stable", ErrorCode.NONE),
            ("b", "", REFUSED),
        ]
        assert shown.groups[0].authorized_operations == OPERATIONS
        assert other.asked == [DescribeGroupsRequest(groups=("a",))]
        assert other.client_ids == {FLEET_CLIENT_ID}


async def test_a_refusal_of_the_gateways_own_user_is_not_the_clients() -> None:
    """The client may try again. So it may if the other one does not have the group any more."""

    def refuse(message: DeleteGroupsRequest) -> DeleteGroupsResponse:
        codes = (REFUSED, ErrorCode.NOT_COORDINATOR, ErrorCode.NON_EMPTY_GROUP)
        return DeleteGroupsResponse(
            results=tuple(
                DeletableGroupResult(group_id=name, error_code=code)
                for name, code in zip(message.groups_names, codes, strict=True)
            )
        )

    async with other_gateway() as other:
        other.answers(ApiKey.DELETE_GROUPS, refuse)
        message = DeleteGroupsRequest(groups_names=("a", "b", "c"))
        shown = await other.calls.ask(OTHER, request_of(message, 2), message)
        codes = [result.error_code for result in shown.results]
        assert codes == [AWAY, AWAY, ErrorCode.NON_EMPTY_GROUP]


def member_with(topic: str) -> described.Member:
    """A member that has a partition of this topic."""
    partition = described.TopicPartitions(topic_id=uuid4(), topic_name=topic, partitions=(0,))
    assigned = described.Assignment(topic_partitions=(partition,))
    return described.Member(
        member_id="m",
        member_epoch=1,
        client_id="c",
        client_host="/1.2.3.4",
        subscribed_topic_names=(topic,),
        assignment=assigned,
        target_assignment=assigned,
    )


async def test_groups_with_topics_that_the_client_may_not_describe_are_hidden() -> None:
    """Consumer groups are described with their topics."""

    def describe(message: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
        groups = (
            described.DescribedGroup(group_id=name, members=(member_with(f"topic-{name}"),))
            for name in message.group_ids
        )
        return ConsumerGroupDescribeResponse(groups=tuple(groups))

    async with other_gateway() as other:
        other.answers(ApiKey.CONSUMER_GROUP_DESCRIBE, describe)
        message = ConsumerGroupDescribeRequest(
            group_ids=("a", "b"), include_authorized_operations=False
        )
        request = request_of(message, 0, "topic-b")
        shown = await other.calls.ask(OTHER, request, message)
        assert [(group.error_code, len(group.members)) for group in shown.groups] == [
            (ErrorCode.NONE, 1),
            (ErrorCode.TOPIC_AUTHORIZATION_FAILED, 0),
        ]


async def test_the_cluster_answers_about_committed_offsets() -> None:
    """The cluster knows what the client may see, and no gateway is asked."""
    async with other_gateway() as other:
        groups = tuple(OffsetFetchRequestGroup(group_id=name, topics=None) for name in "ab")
        message = OffsetFetchRequest(groups=groups)
        shown = await other.calls.ask(OTHER, request_of(message, 8, "b"), message)
        assert [group.error_code for group in shown.groups] == [ErrorCode.NONE, REFUSED]
        assert other.client_ids == set()


async def test_offsets_are_deleted_where_the_client_may_do_so() -> None:
    """The gateway's own user may delete more."""
    partitions = (OffsetDeleteRequestPartition(partition_index=0),)
    topics = tuple(
        OffsetDeleteRequestTopic(name=name, partitions=partitions) for name in ("open", "closed")
    )
    message = OffsetDeleteRequest(group_id="a", topics=topics)
    async with other_gateway() as other:
        other.answers(ApiKey.OFFSET_DELETE, lambda _message: OffsetDeleteResponse())
        refused = await other.calls.ask(OTHER, request_of(message, 0, "a"), message)
        assert refused.error_code == REFUSED
        assert other.asked == []
        done = await other.calls.ask(OTHER, request_of(message, 0, "closed"), message)
        assert [(topic.name, topic.partitions[0].error_code) for topic in done.topics] == [
            ("closed", ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        ]
        assert other.asked == [replace(message, topics=topics[:1])]
        other.answers(
            ApiKey.OFFSET_DELETE, lambda _message: OffsetDeleteResponse(error_code=REFUSED)
        )
        with pytest.raises(OwnerAway):
            await other.calls.ask(OTHER, request_of(message, 0), message)


def codes_in(results: Iterable[Any]) -> Mapping[str, int]:
    """The error of each resource."""
    return {one.resource_name: one.error_code for one in results}


async def test_the_owner_has_the_configs_of_groups() -> None:
    """The owner is not asked about those that the client may not see. What the gateway's own user
    may not see, the client may ask for again."""
    codes = {"a": ErrorCode.NONE, "own": REFUSED, "moved": ErrorCode.NOT_COORDINATOR}
    groups = tuple(
        DescribeConfigsResource(
            resource_type=ConfigResourceType.GROUP, resource_name=name, configuration_keys=None
        )
        for name in (*codes, "hidden")
    )
    message = DescribeConfigsRequest(resources=groups)
    async with other_gateway() as other:
        other.answers(
            ApiKey.DESCRIBE_CONFIGS,
            lambda asked: configs_described(asked.resources, codes.__getitem__),
        )
        shown = await other.calls.ask(OTHER, request_of(message, 4, "hidden"), message)
        expected = {"a": ErrorCode.NONE, "own": AWAY, "moved": AWAY, "hidden": REFUSED}
        assert codes_in(shown.results) == expected
        assert other.asked == [replace(message, resources=groups[:-1])]


async def test_configs_are_changed_where_the_client_may_do_so() -> None:
    """The other gateway decides about the values."""
    groups = tuple(
        AlterConfigsResource(resource_type=ConfigResourceType.GROUP, resource_name=name, configs=())
        for name in ("open", "closed")
    )
    message = IncrementalAlterConfigsRequest(resources=groups, validate_only=False)
    async with other_gateway() as other:
        other.answers(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            lambda asked: configs_altered(asked.resources, lambda _name: ErrorCode.INVALID_CONFIG),
        )
        done = await other.calls.ask(OTHER, request_of(message, 1, "closed"), message)
        assert codes_in(done.responses) == {"open": ErrorCode.INVALID_CONFIG, "closed": REFUSED}
        assert other.asked == [replace(message, resources=groups[:1])]


async def test_groups_with_configs_are_listed_for_who_may_see_them() -> None:
    """A cluster of Kafka before 4.1 lists no groups, and so checks no permissions. Other resources
    are the cluster's, and this gateway lists them."""
    message = ListConfigResourcesRequest()
    group, other_kind = ConfigResourceType.GROUP, ConfigResourceType.CLIENT_METRICS
    listed = [("a", group), ("hidden", group), ("metrics", other_kind)]
    answer = ListConfigResourcesResponse(
        config_resources=tuple(
            ConfigResource(resource_name=name, resource_type=kind) for name, kind in listed
        )
    )
    async with other_gateway() as other:
        other.answers(ApiKey.LIST_CONFIG_RESOURCES, lambda _asked: answer)
        shown = await other.calls.ask(OTHER, request_of(message, 1, "hidden"), message)
        assert [one.resource_name for one in shown.config_resources] == ["a"]


async def test_who_is_asked_by_a_gateway_asks_no_other() -> None:
    """Two gateways might each take the other for the owner."""
    message = DescribeGroupsRequest(groups=("a",))
    async with other_gateway() as other:
        request = request_of(message, 5)
        request.header = replace(request.header, client_id=FLEET_CLIENT_ID)
        with pytest.raises(OwnerAway):
            await other.calls.ask(OTHER, request, message)
        assert other.client_ids == set()


@pytest.mark.parametrize("version", [5, 99])
async def test_an_owner_that_cannot_be_asked_counts_as_away(version: int) -> None:
    """The owner ends the connection, or does not know the version."""
    message = DescribeGroupsRequest(groups=("a",))
    async with other_gateway() as other:
        with pytest.raises(OwnerAway):
            await other.calls.ask(OTHER, request_of(message, version), message)


async def be_silent(_message: Struct) -> Struct:
    await trio.sleep_forever()
    raise AssertionError


async def test_a_silent_owner_holds_few_requests() -> None:
    message = DescribeGroupsRequest(groups=("a",))
    async with other_gateway() as other, trio.open_nursery() as nursery:
        other.answers(ApiKey.DESCRIBE_GROUPS, be_silent)
        for _ in range(CALLS_MAX):
            nursery.start_soon(other.calls.ask, OTHER, request_of(message, 5), message)
        await until(lambda: len(other.asked) == CALLS_MAX)
        with pytest.raises(OwnerAway):
            await other.calls.ask(OTHER, request_of(message, 5), message)
        assert len(other.asked) == CALLS_MAX
        nursery.cancel_scope.cancel()


async def test_a_silent_owner_holds_a_request_for_some_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine_calls, "ANSWER_S", 0.5)
    message = DescribeGroupsRequest(groups=("a",))
    async with other_gateway() as other:
        other.answers(ApiKey.DESCRIBE_GROUPS, be_silent)
        with pytest.raises(OwnerAway):
            await other.calls.ask(OTHER, request_of(message, 5), message)
