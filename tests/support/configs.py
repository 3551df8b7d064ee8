"""A client for config requests to a gateway or broker."""

from collections.abc import Iterable

from gateway.cluster.broker_connection import BrokerConnection
from kafka_codecs.alter_configs import AlterableConfig as ReplacedConfig
from kafka_codecs.alter_configs import AlterConfigsRequest
from kafka_codecs.alter_configs import AlterConfigsResource as ReplacedResource
from kafka_codecs.describe_configs import (
    ConfigResourceType,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResult,
)
from kafka_codecs.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    ConfigOperation,
    IncrementalAlterConfigsRequest,
)
from kafka_codecs.list_config_resources import ListConfigResourcesRequest

GROUP = ConfigResourceType.GROUP
TOPIC = ConfigResourceType.TOPIC
BROKER = ConfigResourceType.BROKER
BROKER_LOGGER = ConfigResourceType.BROKER_LOGGER

SESSION = "consumer.session.timeout.ms"
HEARTBEAT = "consumer.heartbeat.interval.ms"
INTERVAL = "consumer.assignment.interval.ms"

Change = tuple[str, int, str | None]
SET, DELETE, APPEND, SUBTRACT = ConfigOperation


class ConfigClient:
    """Sends config requests on one connection."""

    def __init__(self, connection: BrokerConnection) -> None:
        self._connection = connection

    async def describe(
        self,
        *resources: tuple[int, str],
        keys: tuple[str, ...] | None = None,
        synonyms: bool = True,
        documentation: bool = False,
        version: int = 4,
    ) -> tuple[DescribeConfigsResult, ...]:
        asked = tuple(
            DescribeConfigsResource(
                resource_type=type_, resource_name=name, configuration_keys=keys
            )
            for type_, name in resources
        )
        request = DescribeConfigsRequest(
            resources=asked, include_synonyms=synonyms, include_documentation=documentation
        )
        results: tuple[DescribeConfigsResult, ...] = (
            await self._connection.ask(request, version)
        ).results
        return results

    async def values(self, group_id: str) -> dict[str, tuple[str | None, int]]:
        """Value and source of each of a group's configs for consumer groups."""
        (result,) = await self.describe((GROUP, group_id))
        return {
            config.name: (config.value, config.config_source)
            for config in result.configs
            if config.name.startswith("consumer.")
        }

    async def alter(
        self,
        *resources: tuple[int, str, Iterable[Change]],
        validate_only: bool = False,
        version: int = 1,
    ) -> tuple[AlterConfigsResourceResponse, ...]:
        asked = tuple(
            AlterConfigsResource(
                resource_type=type_,
                resource_name=name,
                configs=tuple(
                    AlterableConfig(name=key, config_operation=operation, value=value)
                    for key, operation, value in changes
                ),
            )
            for type_, name, changes in resources
        )
        request = IncrementalAlterConfigsRequest(resources=asked, validate_only=validate_only)
        responses: tuple[AlterConfigsResourceResponse, ...] = (
            await self._connection.ask(request, version)
        ).responses
        return responses

    async def alter_group(
        self, group_id: str, *changes: Change, validate_only: bool = False
    ) -> tuple[int, str | None]:
        """Error code and message of an IncrementalAlterConfigs of one group."""
        (answer,) = await self.alter((GROUP, group_id, changes), validate_only=validate_only)
        assert (answer.resource_type, answer.resource_name) == (GROUP, group_id)
        return answer.error_code, answer.error_message

    async def replace_group(self, group_id: str, **values: str | None) -> tuple[int, str | None]:
        """Error code and message of the legacy AlterConfigs; `session_timeout` is that key."""
        configs = tuple(
            ReplacedConfig(name=f"consumer.{name.replace('_', '.')}.ms", value=value)
            for name, value in values.items()
        )
        resource = ReplacedResource(resource_type=GROUP, resource_name=group_id, configs=configs)
        request = AlterConfigsRequest(resources=(resource,), validate_only=False)
        (answer,) = (await self._connection.ask(request, 2)).responses
        return answer.error_code, answer.error_message

    async def list_resources(
        self, *types: int, version: int = 1
    ) -> tuple[int, set[tuple[int, str]]]:
        """Error code and resources of a ListConfigResources."""
        request = ListConfigResourcesRequest(resource_types=types)
        answer = await self._connection.ask(request, version)
        resources = {
            (resource.resource_type, resource.resource_name) for resource in answer.config_resources
        }
        return answer.error_code, resources
