"""The start finds out how many connections the brokers accept from the gateway's address."""

import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from gateway.cluster import connection_limits
from gateway.cluster.access import PLAIN_ACCESS
from gateway.cluster.broker_connection import BrokerConnection
from gateway.cluster.connection_limits import ConnectionLimit, connection_limits_below
from kafka_codecs import decode
from kafka_codecs.apis import ApiKey
from kafka_codecs.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kafka_codecs.header import RequestHeader
from kafka_codecs.metadata import MetadataResponse, MetadataResponseBroker
from tests.support.fake_broker import KAFKA_3, FakeBroker, answer, running_fake_broker
from tests.support.kafka_broker import KafkaCluster
from tests.support.wire import Wire

UNLIMITED = f"{2**31 - 1}"
WANTED = 100
CLUSTER_AUTHORIZATION_FAILED = 31


@asynccontextmanager
async def broker_with(
    configs: Mapping[str, str],
    error_code: int = 0,
    others: tuple[MetadataResponseBroker, ...] = (),
) -> AsyncIterator[BrokerConnection]:
    """A connection to a broker that has these configs, and lists other brokers before itself."""

    async def describe(wire: Wire, header: RequestHeader, body: bytes) -> None:
        request = decode(DescribeConfigsRequest, body, header.api_version)
        (resource,) = request.resources
        result = DescribeConfigsResult(
            error_code=error_code,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=tuple(
                DescribeConfigsResourceResult(
                    name=name, value=value, read_only=True, is_sensitive=False, synonyms=()
                )
                for name, value in configs.items()
                if name in (resource.configuration_keys or ())
            ),
        )
        await answer(wire, header, DescribeConfigsResponse(results=(result,)))

    async def list_brokers(wire: Wire, header: RequestHeader, _body: bytes) -> None:
        brokers = (*others, *broker.metadata().brokers)
        await answer(wire, header, MetadataResponse(brokers=brokers))

    broker = FakeBroker(
        versions=KAFKA_3 | {ApiKey.DESCRIBE_CONFIGS: (1, 4), ApiKey.DESCRIBE_GROUPS: (0, 5)},
        handlers={ApiKey.DESCRIBE_CONFIGS: describe, ApiKey.METADATA: list_brokers},
    )
    async with running_fake_broker(broker):
        async with await BrokerConnection.open(*broker.address) as connection:
            yield connection


@pytest.mark.parametrize(
    ("configs", "expected"),
    [
        ({"max.connections": UNLIMITED, "max.connections.per.ip": "100"}, {}),
        ({"max.connections.per.ip": "99"}, {"max.connections.per.ip": 99}),
        ({"max.connections": "50"}, {"max.connections": 50}),
        (
            {
                "max.connections.per.ip": UNLIMITED,
                "max.connections.per.ip.overrides": "elsewhere:1, 127.0.0.1:7",
            },
            {"max.connections.per.ip.overrides": 7},
        ),
        (
            {
                "max.connections.per.ip": "1",
                "max.connections.per.ip.overrides": "127.0.0.1:1000",
            },
            {},
        ),
    ],
)
async def test_limits_below_the_gateways_own_are_found(
    configs: Mapping[str, str], expected: Mapping[str, int]
) -> None:
    """An override for the gateway's address replaces the limit per address."""
    async with broker_with(configs) as connection:
        limits = await connection_limits_below(WANTED, connection, PLAIN_ACCESS)
    assert limits == [
        ConnectionLimit(node_id=1, config=config, limit=limit) for config, limit in expected.items()
    ]


async def test_a_broker_that_hangs_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first broker of the list hangs."""
    monkeypatch.setattr(connection_limits, "ANSWER_TIMEOUT_S", 2.0)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        hanging = MetadataResponseBroker(node_id=0, host="127.0.0.1", port=deaf.getsockname()[1])
        async with broker_with({"max.connections": "50"}, others=(hanging,)) as connection:
            limits = await connection_limits_below(WANTED, connection, PLAIN_ACCESS)
    assert [limit.node_id for limit in limits] == [1]


async def test_a_broker_that_does_not_say_its_limits_adds_none() -> None:
    """The gateway may lack DESCRIBE_CONFIGS on the cluster."""
    async with broker_with({}, CLUSTER_AUTHORIZATION_FAILED) as connection:
        assert await connection_limits_below(WANTED, connection, PLAIN_ACCESS) == []


@pytest.mark.kafka
async def test_a_real_broker_states_its_limits(kafka: KafkaCluster) -> None:
    """Its default is no limit."""
    address = kafka.addresses[0]
    async with await BrokerConnection.open(*address) as connection:
        assert await connection_limits_below(WANTED, connection, PLAIN_ACCESS) == []
        every = await connection_limits_below(2**31, connection, PLAIN_ACCESS)
    assert {limit.config for limit in every} == {"max.connections", "max.connections.per.ip"}
