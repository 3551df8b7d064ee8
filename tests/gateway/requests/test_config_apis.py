"""Config requests are split between gateway and cluster. test_config_apis_with_kafka.py compares
the answers with real Kafka."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from gateway.cluster.broker_connection import BrokerConnection
from gateway.cluster.errors import UpstreamError
from gateway.quotas.shares import ShareRule
from gateway.requests import answer_budget
from gateway.requests.config_apis import ConfigApis, ConfigMessage
from kafka_codecs import decode
from kafka_codecs.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from kafka_codecs.apis import ApiKey
from kafka_codecs.describe_configs import (
    ConfigSource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.header import RequestHeader
from kafka_codecs.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kafka_codecs.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from tests.support.configs import (
    BROKER,
    DELETE,
    GROUP,
    HEARTBEAT,
    INTERVAL,
    SESSION,
    SET,
    TOPIC,
    ConfigClient,
)
from tests.support.fake_broker import answer, running_fake_broker
from tests.support.gateway import whole_gateway
from tests.support.group_client import GroupClient
from tests.support.hosted_groups import GROUP as GROUP_ID
from tests.support.hosted_groups import HostedGroups, hosted_groups, lone_request
from tests.support.offset_broker import OffsetBroker
from tests.support.wire import Wire

NO_SUCH_OPERATION = 9
FIFTY = (SESSION, SET, "50000")
ABOUT_GROUP = DescribeConfigsResource(resource_type=GROUP, resource_name=GROUP_ID)
ALTER_GROUP = IncrementalAlterConfigsRequest(
    resources=(
        AlterConfigsResource(
            resource_type=GROUP,
            resource_name=GROUP_ID,
            configs=(AlterableConfig(name=SESSION, config_operation=SET, value="50000"),),
        ),
    ),
    validate_only=False,
)


@dataclass(slots=True, kw_only=True)
class ConfigBroker(OffsetBroker):
    """Answers in reverse order, and records its requests."""

    asked_about: list[tuple[int, list[tuple[int, str]]]] = field(default_factory=list)
    """The api version and resources of each request."""
    documentation: list[bool] = field(default_factory=list)

    def __post_init__(self) -> None:
        OffsetBroker.__post_init__(self)
        self.versions = {
            **self.versions,
            ApiKey.DESCRIBE_CONFIGS: (0, 2),
            ApiKey.ALTER_CONFIGS: (0, 2),
            ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 1),
        }
        self.handlers = {
            **self.handlers,
            ApiKey.DESCRIBE_CONFIGS: self._describe_configs,
            ApiKey.ALTER_CONFIGS: self._alter_configs,
            ApiKey.INCREMENTAL_ALTER_CONFIGS: self._alter_configs,
        }

    async def _describe_configs(self, wire: Wire, header: RequestHeader, body: bytes) -> None:
        request = decode(DescribeConfigsRequest, body, header.api_version)
        about = [(resource.resource_type, resource.resource_name) for resource in request.resources]
        self._record(header, request, about)
        results = tuple(
            DescribeConfigsResult(resource_type=type_, resource_name=name, error_message="theirs")
            for type_, name in reversed(about)
        )
        await answer(wire, header, DescribeConfigsResponse(results=results))

    def _record(self, header: RequestHeader, request: Any, about: list[tuple[int, str]]) -> None:
        """A question about permissions names no configs."""
        names_some = any(
            resource.configs if hasattr(resource, "configs") else resource.configuration_keys != ()
            for resource in request.resources
        )
        if names_some:
            self.asked_about.append((header.api_version, about))

    async def _alter_configs(self, wire: Wire, header: RequestHeader, body: bytes) -> None:
        legacy = header.api_key == ApiKey.ALTER_CONFIGS
        request: Any = decode(
            AlterConfigsRequest if legacy else IncrementalAlterConfigsRequest,
            body,
            header.api_version,
        )
        about = [(resource.resource_type, resource.resource_name) for resource in request.resources]
        self._record(header, request, about)
        responses = tuple(
            AlterConfigsResourceResponse(
                resource_type=type_, resource_name=name, error_message="theirs"
            )
            for type_, name in reversed(about)
        )
        kind = AlterConfigsResponse if legacy else IncrementalAlterConfigsResponse
        await answer(wire, header, kind(responses=responses))


@asynccontextmanager
async def scene(
    broker: OffsetBroker, *, max_groups: int = 16
) -> AsyncIterator[tuple[ConfigClient, BrokerConnection]]:
    """A gateway before the broker, and a client of it."""
    with trio.fail_after(10):
        async with (
            running_fake_broker(broker),
            whole_gateway(
                [broker.address], max_groups=max_groups, forward_patterns=("legacy-*",)
            ) as gateway,
            await BrokerConnection.open(*gateway.address) as connection,
        ):
            yield ConfigClient(connection), connection


async def test_the_cluster_answers_for_other_resources() -> None:
    """The cluster receives one request, in a version that it supports. Answers are in the client's
    order."""
    broker = ConfigBroker()
    async with scene(broker) as (client, _):
        about = [(TOPIC, "t"), (GROUP, "g"), (BROKER, "1"), (GROUP, "legacy-g"), (GROUP, "")]
        theirs = [(TOPIC, "t"), (BROKER, "1"), (GROUP, "legacy-g")]
        results = await client.describe(*about, documentation=True)
        assert [(result.resource_type, result.resource_name) for result in results] == about
        assert [result.error_message == "theirs" for result in results] == [1, 0, 1, 1, 0]
        assert results[4].error_code == ErrorCode.INVALID_REQUEST
        assert [config.name for config in results[1].configs] == [SESSION, INTERVAL, HEARTBEAT]
        assert all(config.documentation for config in results[1].configs)
        altered = await client.alter(*((*resource, [FIFTY]) for resource in about))
        assert [(result.resource_type, result.resource_name) for result in altered] == about
        assert [result.error_message == "theirs" for result in altered] == [1, 0, 1, 1, 0]
        assert [result.error_code for result in altered] == [0, 0, 0, 0, ErrorCode.INVALID_REQUEST]
        with_hosted = [(TOPIC, "t"), (GROUP, "g"), *theirs[1:]]
        assert broker.asked_about == [(2, with_hosted), (1, theirs)]
        assert (await client.values("g"))[SESSION] == ("50000", ConfigSource.DYNAMIC_GROUP)


async def test_configs_of_share_groups_are_the_clusters() -> None:
    """A client that sets them has no group yet. They are not mixed with those that are stored
    here."""
    broker = ConfigBroker()
    async with scene(broker) as (client, _):
        ours, theirs = FIFTY, ("share.auto.offset.reset", SET, "earliest")
        (answer,) = await client.alter((GROUP, "g", [theirs]))
        assert answer.error_message == "theirs"
        assert broker.asked_about == [(1, [(GROUP, "g")])]
        (answer,) = await client.alter((GROUP, "g", [ours, theirs]))
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        assert (await client.values("g"))[SESSION] == ("45000", ConfigSource.DEFAULT)


async def test_hosted_groups_alone_need_no_cluster() -> None:
    """An upstream without the APIs, such as the demo's, still has group configs."""
    async with scene(OffsetBroker()) as (client, connection):
        assert ApiKey.ALTER_CONFIGS not in connection.versions
        for version in (0, 1):
            altered = await client.alter((GROUP, "g", [FIFTY]), (TOPIC, "t", []), version=version)
            assert [result.error_code for result in altered] == [0, ErrorCode.UNSUPPORTED_VERSION]
        for version in (1, 2, 3, 4):
            results = await client.describe((TOPIC, "t"), (GROUP, "g"), version=version)
            assert [result.error_code for result in results] == [ErrorCode.UNSUPPORTED_VERSION, 0]
            assert results[1].configs[0].value == "50000"
        assert await client.list_resources() == (0, {(GROUP, "g")})
        assert await client.list_resources(GROUP) == (0, {(GROUP, "g")})
        assert await client.list_resources(GROUP, TOPIC) == (ErrorCode.UNSUPPORTED_VERSION, set())
        assert await client.alter_group("g", (SESSION, DELETE, None)) == (0, None)
        assert await client.list_resources(GROUP) == (0, set())


async def test_the_first_version_says_which_values_are_defaults() -> None:
    """The first version has a flag in place of the source."""
    async with scene(OffsetBroker()) as (client, _):
        await client.alter((GROUP, "g", [FIFTY]), version=1)
        (result,) = await client.describe((GROUP, "g"), synonyms=False, version=0)
        changed = {config.name for config in result.configs if not config.is_default}
        (later,) = await client.describe((GROUP, "g"), version=1)
        default = ConfigSource.DEFAULT
        assert changed == {
            config.name for config in later.configs if config.config_source != default
        }
        assert SESSION in changed < {config.name for config in result.configs}


async def test_the_legacy_request_replaces_a_hosted_groups_configs() -> None:
    """The cluster is only asked for what it has of every group."""
    broker = ConfigBroker()
    async with scene(broker) as (client, _):
        assert await client.replace_group("g", session_timeout="50000") == (0, None)
        assert await client.replace_group("g", heartbeat_interval="6000") == (0, None)
        values = await client.values("g")
        assert values[SESSION] == ("45000", ConfigSource.DEFAULT)
        assert values[HEARTBEAT] == ("6000", ConfigSource.DYNAMIC_GROUP)
        code, reason = await client.replace_group("g", session_timeout=None)
        assert (code, reason) == (
            ErrorCode.INVALID_REQUEST,
            f"Null value not supported for : {SESSION}",
        )
        assert await client.replace_group("legacy-g", made_up="1") == (0, "theirs")
        assert broker.asked_about == [(2, [(GROUP, "g")]), (2, [(GROUP, "legacy-g")])]


async def test_a_repeated_group_is_not_altered() -> None:
    """Neither entry applies."""
    async with scene(OffsetBroker()) as (client, _):
        altered = await client.alter((GROUP, "g", [FIFTY]), (GROUP, "h", [FIFTY]), (GROUP, "g", []))
        assert [result.error_code for result in altered] == [
            ErrorCode.INVALID_REQUEST,
            0,
            ErrorCode.INVALID_REQUEST,
        ]
        assert altered[0].error_message == "Each resource must appear at most once."
        assert await client.list_resources(GROUP) == (0, {(GROUP, "h")})


async def test_a_repeated_resource_is_described_once() -> None:
    """A few bytes must not make an answer a thousand times longer."""
    async with scene(OffsetBroker()) as (client, _):
        described = await client.describe((GROUP, "h"), (GROUP, "g"), (GROUP, "h"))
        assert [result.resource_name for result in described] == ["h", "g"]


async def test_descriptions_beyond_the_limit_are_refused(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Resources within the limit are answered, and the configs of others are not even looked up."""
    monkeypatch.setattr(answer_budget, "ANSWER_BYTES_MAX", 1_000)
    async with hosted_groups() as groups:
        looked_up: list[str] = []
        look_up = groups.table.views.configs

        async def noting(group_id: str) -> Any:
            looked_up.append(group_id)
            return await look_up(group_id)

        monkeypatch.setattr(groups.table.views, "configs", noting)
        about = tuple(
            DescribeConfigsResource(resource_type=GROUP, resource_name=f"g{number}")
            for number in range(50)
        )
        described = await ask(groups, DescribeConfigsRequest(resources=about))
        codes = [result.error_code for result in described]
        assert codes[0] == 0
        assert codes[-1] == ErrorCode.UNKNOWN_SERVER_ERROR
        assert codes == sorted(codes, reverse=True)
        assert len(looked_up) == codes.count(0) + 1


async def test_an_unknown_operation_is_invalid() -> None:
    """Kafka answers UNKNOWN_SERVER_ERROR."""
    async with scene(OffsetBroker()) as (client, _):
        code, reason = await client.alter_group("g", (SESSION, NO_SUCH_OPERATION, "1"))
        assert (code, reason) == (ErrorCode.INVALID_REQUEST, "Unknown operation 9")


async def test_a_change_is_refused_beyond_max_groups() -> None:
    """A description is not."""
    async with scene(OffsetBroker(), max_groups=1) as (client, connection):
        await GroupClient(connection, "a").native("n")
        code, _reason = await client.alter_group("b", FIFTY)
        assert code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (await client.values("b"))[SESSION] == ("45000", ConfigSource.DEFAULT)


async def test_configs_wait_for_the_cluster_to_say_who_holds_a_group(
    autojump_clock: MockClock,
) -> None:
    """The group may be the cluster's own, and have configs there."""
    async with hosted_groups() as groups:
        groups.cluster.failure = UpstreamError("no broker answers")
        (described,) = await ask(groups, DescribeConfigsRequest(resources=(ABOUT_GROUP,)))
        assert described.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert described.error_message == "the cluster does not say who is in the group"
        (altered,) = await ask(groups, ALTER_GROUP)
        assert altered.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def test_an_unreadable_log_is_an_error(autojump_clock: MockClock) -> None:
    """Each group has its own error, and a list has one."""
    async with hosted_groups() as groups:
        groups.log.is_unreadable = True
        (described,) = await ask(groups, DescribeConfigsRequest(resources=(ABOUT_GROUP,)))
        assert described.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        # The reason may contain a path or an address.
        assert described.error_message == "the group cannot be read from the state log"
        answer = await ConfigApis(groups.table, ShareRule()).answer(
            lone_request(ListConfigResourcesRequest(), 1), ListConfigResourcesRequest()
        )
        assert answer == ListConfigResourcesResponse(
            error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        )


async def test_a_change_that_cannot_be_written_has_no_effect(
    autojump_clock: MockClock,
) -> None:
    """The client gets an error and may retry."""
    async with hosted_groups() as groups:
        groups.log.is_failing = True
        (altered,) = await ask(groups, ALTER_GROUP)
        assert altered.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        groups.log.is_failing = False
        assert [view.override for view in await groups.table.views.configs(GROUP_ID)] == [None] * 3
        (altered,) = await ask(groups, ALTER_GROUP)
        assert altered.error_code == 0
        await trio.sleep(1)
        assert groups.running == ()
        views = {view.name: view.override for view in await groups.table.views.configs(GROUP_ID)}
        assert views[SESSION] == 50_000


async def ask(groups: HostedGroups, message: ConfigMessage) -> Any:
    """The answers of a gateway whose cluster does not support configs."""
    answer: Any = await ConfigApis(groups.table, ShareRule()).answer(
        lone_request(message, 1), message
    )
    return answer.results if isinstance(message, DescribeConfigsRequest) else answer.responses
