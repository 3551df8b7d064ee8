"""Reads configs of brokers, as far as the cluster lets the gateway: DESCRIBE_CONFIGS on it."""

from collections.abc import Collection, Mapping
from contextlib import suppress
from itertools import islice

import trio

from gateway.cluster.access import Access
from gateway.cluster.broker_connection import BrokerConnection
from gateway.cluster.errors import UpstreamError
from kafka_codecs.describe_configs import (
    ConfigResourceType,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from kafka_codecs.metadata import MetadataRequest

BROKERS_ASKED_MAX = 3
"""Brokers that are asked for the configs of the cluster; the first that answers speaks for all."""
ANSWER_TIMEOUT_S = 3.0


async def broker_configs(
    connection: BrokerConnection, node_id: int, names: Collection[str]
) -> Mapping[str, str | None]:
    """These configs of the broker at the other end, whose id is `node_id`. Those that it does not
    have, or does not reveal, are missing. Raises UpstreamError."""
    return configs_in(await connection.ask(configs_request(node_id, names)))


def configs_request(node_id: int, names: Collection[str]) -> DescribeConfigsRequest:
    """The request for these configs of a broker, which it answers itself."""
    resource = DescribeConfigsResource(
        resource_type=ConfigResourceType.BROKER,
        resource_name=f"{node_id}",
        configuration_keys=tuple(names),
    )
    return DescribeConfigsRequest(resources=(resource,))


def configs_in(answer: DescribeConfigsResponse) -> Mapping[str, str | None]:
    """The configs that a broker has told, by name."""
    return {config.name: config.value for result in answer.results for config in result.configs}


async def cluster_numbers(
    connection: BrokerConnection, access: Access, names: Collection[str]
) -> Mapping[str, int]:
    """These configs, which are numbers and the same on each broker; empty if no broker reveals
    them. Raises UpstreamError if the connection is lost."""
    brokers = (await connection.ask(MetadataRequest(topics=()))).brokers
    for broker in islice(brokers, BROKERS_ASKED_MAX):
        address = (broker.host, broker.port)
        with suppress(UpstreamError), trio.move_on_after(ANSWER_TIMEOUT_S):
            async with await BrokerConnection.open(*address, access=access) as own:
                configs = await broker_configs(own, broker.node_id, names)
                if numbers := {name: int(v) for name, v in configs.items() if v and v.isdecimal()}:
                    return numbers
    return {}
