"""The gateway learns configs of the brokers, if they tell them."""

from collections.abc import Mapping

import pytest

from gateway.cluster.access import PLAIN_ACCESS
from gateway.cluster.broker_configs import cluster_numbers
from gateway.cluster.broker_connection import BrokerConnection
from gateway.settings import BROKER_CONFIGS, Settings, file_key
from gateway.settings_sources import load
from gateway.start_checks import group_config_at
from kafka_codecs.metadata import MetadataRequest
from tests.gateway.cluster.test_connection_limits import CLUSTER_AUTHORIZATION_FAILED, broker_with
from tests.support.kafka_broker import KafkaCluster
from tests.support.releases import LAST_CLASSIC

MIN_SESSION, MAX_SIZE = "group.min.session.timeout.ms", "group.max.size"
LACKING = {
    LAST_CLASSIC: {
        "group.consumer.assignment.interval.ms",
        "group.consumer.min.assignment.interval.ms",
        "group.consumer.max.assignment.interval.ms",
    },
}
"""What a release does not have."""


@pytest.mark.parametrize(
    ("configs", "numbers"),
    [
        ({MIN_SESSION: "1000", "other": "5"}, {MIN_SESSION: 1_000}),
        ({MIN_SESSION: "", MAX_SIZE: "-1"}, {}),
        ({}, {}),
    ],
)
async def test_numbers_are_taken_as_the_broker_states_them(
    configs: Mapping[str, str], numbers: Mapping[str, int]
) -> None:
    """An older broker lacks some of them."""
    async with broker_with(configs) as connection:
        assert await cluster_numbers(connection, PLAIN_ACCESS, (MIN_SESSION, MAX_SIZE)) == numbers


async def test_a_broker_that_does_not_say_its_limits_is_not_an_error() -> None:
    """The gateway may lack DESCRIBE_CONFIGS."""
    async with broker_with({}, CLUSTER_AUTHORIZATION_FAILED) as connection:
        assert await cluster_numbers(connection, PLAIN_ACCESS, (MIN_SESSION,)) == {}


@pytest.mark.parametrize(("limit", "in_force"), [(None, 1_000), ("7000", 7_000), ("99000", 99_000)])
async def test_groups_keep_to_the_limits_here_and_remember_the_brokers(
    limit: str | None, in_force: int
) -> None:
    """A limit that is set here counts. The brokers' is for refusals, also if it does not fit."""
    flags = {} if limit is None else {"group_min_session_timeout_ms": limit}
    settings = load({"upstream": "a:1", **flags})
    configs = {MIN_SESSION: "1000", "group.max.session.timeout.ms": "60000"}
    async with broker_with(configs) as connection:
        (broker,) = (await connection.ask(MetadataRequest(topics=()))).brokers
        config = await group_config_at(settings, (broker.host, broker.port), PLAIN_ACCESS)
    assert config.classic_min_session_timeout_ms == in_force
    assert dict(config.broker_limits) == {name: int(value) for name, value in configs.items()}


async def test_a_group_waits_for_its_first_members_as_long_as_at_the_brokers() -> None:
    """Many brokers that serve development have no delay."""
    async with broker_with({"group.initial.rebalance.delay.ms": "0"}) as connection:
        (broker,) = (await connection.ask(MetadataRequest(topics=()))).brokers
        address = broker.host, broker.port
        config = await group_config_at(load({"upstream": "a:1"}), address, PLAIN_ACCESS)
    assert config.classic_initial_rebalance_delay_ms == 0


@pytest.mark.kafka
async def test_a_real_broker_describes_all_that_it_has(kafka: KafkaCluster) -> None:
    """The defaults of the settings are Kafka's, so a broker that sets nothing changes nothing. The
    brokers of the tests set the initial delay."""
    names = {file_key(name): name for name in BROKER_CONFIGS}
    async with await BrokerConnection.open(*kafka.addresses[0]) as connection:
        numbers = await cluster_numbers(connection, PLAIN_ACCESS, tuple(names))
    defaults = {name: Settings.model_fields[field].default for name, field in names.items()}
    wanted = defaults | {"group.initial.rebalance.delay.ms": 0}
    assert numbers == {
        name: wanted[name] for name in wanted.keys() - LACKING.get(kafka.release, set())
    }
