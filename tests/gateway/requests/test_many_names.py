"""Requests with many groups are handled in parts, so that other clients get their turn.

The tests count the groups in each request to the broker. Other clients are served between two of
them.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from coordinator.interface.records import ClassicGroupMetadata, ClassicGroupValue
from gateway import batches
from gateway.cluster.broker_connection import BrokerConnection
from gateway.data_path import listeners
from gateway.data_path.rewrite import with_addresses
from gateway.groups import group_drivers as groups_module
from gateway.groups.group_driver import GroupDriver
from gateway.hosting.group import HostedGroup
from gateway.quotas.shares import ShareRule
from gateway.requests import config_apis
from gateway.requests.config_apis import ConfigApis
from gateway.state_log.log import StateLog
from gateway.state_log.memory import MemoryLog
from kafka_codecs import decode
from kafka_codecs.apis import APIS, ApiKey
from kafka_codecs.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from kafka_codecs.declaration import Struct
from kafka_codecs.delete_groups import DeleteGroupsRequest
from kafka_codecs.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kafka_codecs.describe_groups import DescribeGroupsRequest
from kafka_codecs.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafka_codecs.header import RequestHeader
from kafka_codecs.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafka_codecs.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from tests.support.configs import GROUP, SESSION, SET, TOPIC, ConfigClient
from tests.support.fake_broker import Handler, answer, running_fake_broker
from tests.support.gateway import whole_gateway
from tests.support.hosted_groups import QUIET_S, hosted_groups, lone_request
from tests.support.offset_broker import OffsetBroker
from tests.support.operations import counted_steps
from tests.support.wire import Wire

CLIENT_ID = "admin"
_COUNTED = frozenset(
    {
        *(ApiKey.FIND_COORDINATOR, ApiKey.DESCRIBE_GROUPS, ApiKey.CONSUMER_GROUP_DESCRIBE),
        *(ApiKey.DELETE_GROUPS, ApiKey.OFFSET_FETCH, ApiKey.DESCRIBE_CONFIGS),
    }
)
NAMES = ("a", "b", "c", "d", "e")


class CountingBroker(OffsetBroker):
    """Counts the names in each request that the test's client causes."""

    def __post_init__(self) -> None:
        OffsetBroker.__post_init__(self)
        self.counted: list[int] = []
        self.versions = {
            **self.versions,
            ApiKey.FIND_COORDINATOR: (0, 4),
            ApiKey.OFFSET_FETCH: (0, 8),
            ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 0),
            ApiKey.DESCRIBE_CONFIGS: (0, 4),
        }
        self.handlers |= {
            ApiKey.CONSUMER_GROUP_DESCRIBE: _describe_consumer_groups,
            ApiKey.DESCRIBE_CONFIGS: _describe_configs,
        }
        self.handlers = {key: self._counting(handler) for key, handler in self.handlers.items()}

    def _counting(self, handler: Handler) -> Handler:
        async def count(wire: Wire, header: RequestHeader, body: bytes) -> None:
            if header.client_id == CLIENT_ID and header.api_key in _COUNTED:
                request = APIS[ApiKey(header.api_key)].request
                assert request is not None
                self.counted.append(len(_names(decode(request, body, header.api_version))))
            await handler(wire, header, body)

        return count


async def _describe_consumer_groups(wire: Wire, header: RequestHeader, body: bytes) -> None:
    request = decode(ConsumerGroupDescribeRequest, body, header.api_version)
    groups = tuple(DescribedGroup(group_id=group_id) for group_id in request.group_ids)
    await answer(wire, header, ConsumerGroupDescribeResponse(groups=groups))


async def _describe_configs(wire: Wire, header: RequestHeader, body: bytes) -> None:
    request = decode(DescribeConfigsRequest, body, header.api_version)
    results = tuple(
        DescribeConfigsResult(
            resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        for resource in request.resources
    )
    await answer(wire, header, DescribeConfigsResponse(results=results))


def _names(message: Any) -> tuple[str, ...]:
    """The names in a request or response of these APIs."""
    match message:
        case FindCoordinatorRequest(coordinator_keys=keys):
            return keys
        case DescribeGroupsRequest(groups=group_ids):
            return group_ids
        case ConsumerGroupDescribeRequest(group_ids=group_ids):
            return group_ids
        case DeleteGroupsRequest(groups_names=group_ids):
            return group_ids
        case DescribeConfigsRequest(resources=resources):
            return tuple(resource.resource_name for resource in resources)
        case OffsetFetchRequest(groups=groups):
            return tuple(group.group_id for group in groups)
        case DescribeConfigsResponse(results=results):
            return tuple(result.resource_name for result in results)
        case _ if hasattr(message, "coordinators"):
            return tuple(coordinator.key for coordinator in message.coordinators)
        case _:
            groups = message.results if hasattr(message, "results") else message.groups
            return tuple(group.group_id for group in groups)


@asynccontextmanager
async def open_scene(
    forward_patterns: tuple[str, ...] = (),
    state_log: StateLog | None = None,
) -> AsyncIterator[tuple[CountingBroker, BrokerConnection]]:
    """A gateway before the broker, and the client."""
    broker = CountingBroker()
    with trio.fail_after(20):
        async with (
            running_fake_broker(broker),
            whole_gateway(
                [broker.address], forward_patterns=forward_patterns, state_log=state_log
            ) as gateway,
            await BrokerConnection.open(*gateway.address, client_id=CLIENT_ID) as client,
        ):
            yield broker, client


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (FindCoordinatorRequest(coordinator_keys=NAMES), 4),
        (DescribeGroupsRequest(groups=NAMES), 5),
        (ConsumerGroupDescribeRequest(group_ids=NAMES, include_authorized_operations=False), 0),
        (DeleteGroupsRequest(groups_names=NAMES), 2),
        (
            OffsetFetchRequest(
                groups=tuple(OffsetFetchRequestGroup(group_id=name, topics=()) for name in NAMES)
            ),
            8,
        ),
        (
            DescribeConfigsRequest(
                resources=tuple(
                    DescribeConfigsResource(
                        resource_type=TOPIC, resource_name=name, configuration_keys=None
                    )
                    for name in NAMES
                )
            ),
            4,
        ),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_the_cluster_is_asked_in_limited_parts(
    request_: Struct, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is complete and in the order of the request."""
    monkeypatch.setattr(batches, "NAMES_TOGETHER_MAX", 2)
    async with open_scene(("*",)) as (broker, client):
        answer = await client.ask(request_, version)
    assert broker.counted == [2, 2, 1]
    assert _names(answer) == NAMES


def _altering(*names: str, value: str = "50000", validate_only: bool = False) -> Struct:
    """Set one config of these groups."""
    change = AlterableConfig(name=SESSION, config_operation=SET, value=value)
    return IncrementalAlterConfigsRequest(
        resources=tuple(
            AlterConfigsResource(resource_type=GROUP, resource_name=name, configs=(change,))
            for name in names
        ),
        validate_only=validate_only,
    )


def _fetching(*names: str, member_id: str | None = None) -> Struct:
    """Fetch offsets of these groups."""
    topic = OffsetFetchRequestTopic(name="numbers", partition_indexes=(0,))
    return OffsetFetchRequest(
        groups=tuple(
            OffsetFetchRequestGroup(group_id=name, member_id=member_id, topics=(topic,))
            for name in names
        )
    )


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (_fetching(*NAMES), 8),
        (_fetching(*NAMES, member_id="m"), 9),
        (DescribeGroupsRequest(groups=NAMES), 5),
        (ConsumerGroupDescribeRequest(group_ids=NAMES, include_authorized_operations=False), 0),
        (DeleteGroupsRequest(groups_names=NAMES), 2),
        (
            DescribeConfigsRequest(
                resources=tuple(
                    DescribeConfigsResource(resource_type=GROUP, resource_name=name)
                    for name in NAMES
                )
            ),
            4,
        ),
        (_altering(*NAMES, validate_only=True), 1),
        (_altering(*NAMES, value="not a number"), 1),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("names", ["of nobody", "in the log"])
async def test_a_name_costs_no_more_than_a_look(
    request_: Struct, version: int, names: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that names groups without members does not create drivers, tasks or followed topics:
    all of these would be loaded, and stay for a while."""
    made: list[str] = []

    class CountedDriver(GroupDriver):
        def __init__(self, group: HostedGroup, *args: Any, **kwargs: Any) -> None:
            made.append(group.group_id)
            super().__init__(group, *args, **kwargs)

    monkeypatch.setattr(groups_module, "GroupDriver", CountedDriver)
    log = MemoryLog()
    if names == "in the log":
        value = ClassicGroupValue(
            protocol_type="consumer", generation=1, protocol=None, leader=None, members=()
        )
        for name in NAMES:
            await log.append(name, (ClassicGroupMetadata(value=value),))
    async with open_scene(state_log=log) as (_, client):
        await client.ask(request_, version)
    if names == "in the log" and isinstance(request_, DeleteGroupsRequest):
        assert made == list(NAMES)  # a deletion changes them
    else:
        assert made == []


async def test_a_name_costs_the_same_however_many_configs_are_stored(
    autojump_clock: MockClock,
) -> None:
    """A client may store hundreds, and then have thousands of names refused."""
    steps_by_stored = {}
    for stored in (2, 200):
        async with hosted_groups(max_groups=1_000) as groups:
            configs = ConfigApis(groups.table, ShareRule(per_address=stored))
            for names in ([f"stored-{number}" for number in range(stored)], ()):
                await _answer_configs(configs, _altering(*names))
            await trio.sleep(QUIET_S)
            with counted_steps() as steps:
                await _answer_configs(
                    configs, _altering(*(f"new-{number}" for number in range(100)))
                )
            steps_by_stored[stored] = steps.count
    assert steps_by_stored[200] < 1.2 * steps_by_stored[2]


async def _answer_configs(configs: ConfigApis, message: Any) -> None:
    await configs.answer(lone_request(message, 1), message)


async def test_addresses_are_replaced_in_limited_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """No address of the cluster is left over."""
    replaced = []

    def counting(answer: Any, readdress: Any) -> Any:
        if isinstance(answer, FindCoordinatorResponse):
            replaced.append(len(answer.coordinators))
        return with_addresses(answer, readdress)

    monkeypatch.setattr(listeners, "with_addresses", counting)
    monkeypatch.setattr(batches, "NAMES_TOGETHER_MAX", 2)
    async with open_scene() as (broker, client):
        answer = await client.ask(FindCoordinatorRequest(coordinator_keys=NAMES), 4)
    assert list(filter(None, replaced)) == [2, 2, 1]
    assert broker.address[1] not in {coordinator.port for coordinator in answer.coordinators}


async def test_shared_configs_are_described_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Hardly any of ten thousand groups has overrides."""
    described = []
    entry = config_apis._entry

    def counting(*args: Any, **kwargs: Any) -> Any:
        described.append(args)
        return entry(*args, **kwargs)

    monkeypatch.setattr(config_apis, "_entry", counting)
    async with open_scene() as (_, client):
        results = await ConfigClient(client).describe(*((GROUP, name) for name in NAMES))
    assert [len(result.configs) for result in results] == [len(described)] * len(NAMES)
