"""Group configs, compared field by field with real Apache Kafka.

Messages are compared with the newest release, because older ones have other words (7.2).
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio

from coordinator.interface.config import GroupConfig
from gateway.cluster.broker_connection import BrokerConnection
from kafka_codecs.describe_configs import ConfigSource
from kafka_codecs.error_codes import ErrorCode
from tests.support.configs import (
    APPEND,
    BROKER,
    BROKER_LOGGER,
    DELETE,
    GROUP,
    HEARTBEAT,
    INTERVAL,
    SESSION,
    SET,
    SUBTRACT,
    TOPIC,
    Change,
    ConfigClient,
)
from tests.support.gateway import whole_gateway
from tests.support.group_client import fresh_group, group_client
from tests.support.kafka_broker import FETCH_TIMEOUT_S, KafkaCluster, running_kafka
from tests.support.releases import NEWEST, on_release, with_new_protocol
from tests.support.until import until_answered

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]

CATCH_UP_TIMEOUT_S = 10
CLIENT_METRICS = 16
UNKNOWN_TYPE = 99

CHANGES: list[tuple[Change, ...]] = [
    ((SESSION, SET, "50000"),),
    ((SESSION, SET, " 51000\t"), (HEARTBEAT, SET, "+6000")),
    ((SESSION, SET, "٥٢٠٠٠"), (INTERVAL, SET, "0")),
    ((SESSION, SET, "0000000000000053000"),),
    ((SESSION, DELETE, "5"), (HEARTBEAT, DELETE, None)),
    ((HEARTBEAT, DELETE, None), ("unknown", DELETE, None)),
    (),
    ((SESSION, SET, "50000"), (SESSION, SET, "51000")),
    ((SESSION, SET, None), (SESSION, SET, None)),
    ((SESSION, SET, None), (HEARTBEAT, APPEND, None)),
    (("unknown", SET, "1"), (SESSION, SET, None)),
    (("unknown", SET, "1"),),
    (("unknown", SET, "1"), (SESSION, APPEND, "1")),
    (("unknown", SET, "1"), (SESSION, SET, "x")),
    ((SESSION, APPEND, "1"),),
    ((SESSION, SUBTRACT, "1"),),
    *(((SESSION, SET, text),) for text in ("", "abc", "50000.5", "50_000", "2147483648", "0")),
    ((SESSION, SET, "x"), (HEARTBEAT, SET, "y"), (INTERVAL, SET, "z")),
    ((HEARTBEAT, SET, "x"), (SESSION, SET, "1")),
    ((SESSION, SET, "0"), (HEARTBEAT, SET, "1")),
    ((SESSION, SET, "44999"),),
    ((SESSION, SET, "60001"),),
    ((HEARTBEAT, SET, "4999"),),
    ((HEARTBEAT, SET, "15001"), (SESSION, SET, "1")),
    ((INTERVAL, SET, "15001"),),
    ((INTERVAL, SET, "-1"),),
    ((INTERVAL, SET, "15000"), (SESSION, SET, "1")),
]


@asynccontextmanager
async def both(
    kafka: KafkaCluster, config: GroupConfig | None = None
) -> AsyncIterator[tuple[ConfigClient, ConfigClient]]:
    """A client of a gateway, and one of the broker behind it."""
    async with (
        whole_gateway(kafka.addresses, groups=config or GroupConfig()) as gateway,
        await BrokerConnection.open(*gateway.address) as to_us,
        await BrokerConnection.open(*kafka.addresses[0]) as to_kafka,
    ):
        yield ConfigClient(to_us), ConfigClient(to_kafka)


async def check_same(us: ConfigClient, them: ConfigClient, group_id: str, **how: Any) -> None:
    """Wait until Kafka's description matches. Its brokers learn of a change later."""
    theirs: list[object] = []

    async def describe() -> list[object]:
        nonlocal theirs
        theirs = list(await them.describe((GROUP, group_id), **how))
        return theirs

    ours: list[object] = list(await us.describe((GROUP, group_id), **how))
    with trio.move_on_after(CATCH_UP_TIMEOUT_S):
        await until_answered(describe, ours.__eq__)
    assert ours == theirs


@on_release(NEWEST)
async def test_every_change_is_answered_as_in_kafka(kafka: KafkaCluster) -> None:
    """Code, message and the group's configs afterwards match, including synonyms and
    documentation."""
    group = fresh_group("configured")
    async with both(kafka) as (us, them):
        await check_same(us, them, group, documentation=True)
        for changes in CHANGES:
            for validate_only in (True, False):
                ours = await us.alter_group(group, *changes, validate_only=validate_only)
                kafkas = await them.alter_group(group, *changes, validate_only=validate_only)
                assert ours == kafkas, changes
            await check_same(us, them, group, documentation=True)
        for version in (1, 2, 3):
            await check_same(us, them, group, version=version)
        await check_same(us, them, group, synonyms=False)
        for keys in ((SESSION,), ("unknown", INTERVAL, SESSION, SESSION), ()):
            await check_same(us, them, group, keys=keys)


LOOSE_BOUNDS = {
    "group.consumer.min.session.timeout.ms": 6_000,
    "group.consumer.session.timeout.ms": 10_000,
    "group.consumer.min.heartbeat.interval.ms": 1_000,
    "group.consumer.heartbeat.interval.ms": 3_000,
}
LOOSE = GroupConfig(
    consumer_session_timeout_ms=10_000,
    consumer_min_session_timeout_ms=6_000,
    consumer_heartbeat_interval_ms=3_000,
    consumer_min_heartbeat_interval_ms=1_000,
)


def test_the_brokers_values_and_bounds_apply() -> None:
    """The brokers' values are among the synonyms. The heartbeat interval must be below the session
    timeout."""

    async def compare(kafka: KafkaCluster) -> None:
        group = fresh_group("configured")
        async with both(kafka, LOOSE) as (us, them):
            for changes in (
                [(HEARTBEAT, SET, "10000")],
                [(HEARTBEAT, SET, "9999")],
                [(SESSION, SET, "9999")],
                [(SESSION, SET, "6000"), (HEARTBEAT, SET, "5999")],
                [(SESSION, SET, "5999")],
                [(HEARTBEAT, SET, "999")],
            ):
                ours = await us.alter_group(group, *changes)
                assert ours == await them.alter_group(group, *changes), changes
                await check_same(us, them, group)

    with running_kafka(NEWEST, brokers=1, settings=LOOSE_BOUNDS) as kafka:
        trio.run(compare, kafka)


@on_release(NEWEST)
async def test_the_legacy_request_replaces_all_configs(kafka: KafkaCluster) -> None:
    """Configs that it omits get the broker's value."""
    group = fresh_group("replaced")
    async with both(kafka) as (us, them):
        for values in (
            {"session_timeout": "50000", "heartbeat_interval": "6000"},
            {"session_timeout": "51000"},
            {"session_timeout": "1"},
            {"made_up": "1"},
            {},
        ):
            ours = await us.replace_group(group, **values)
            assert ours == await them.replace_group(group, **values), values
            await check_same(us, them, group)


@on_release(NEWEST)
async def test_a_request_about_many_resources(kafka: KafkaCluster) -> None:
    """Each resource has its answer in the request's order, from the gateway or the cluster."""
    groups = [fresh_group("mixed") for _ in range(3)]
    topic = fresh_group("topic")  # a name that no other test alters
    async with both(kafka) as (us, them):
        fine, wrong = (SESSION, SET, "50000"), (SESSION, SET, "1")
        resources = [
            (GROUP, groups[0], [fine]),
            (TOPIC, "numbers", [("retention.ms", SET, "100000000")]),
            (GROUP, "", [fine]),
            (GROUP, groups[1], [wrong]),
            (TOPIC, topic, [("retention.ms", SET, "1")]),
            (GROUP, groups[2], [fine]),
            (UNKNOWN_TYPE, "x", []),
            (GROUP, groups[2], [fine]),
        ]
        for version in (0, 1):
            ours = await us.alter(*resources, version=version)
            assert ours == await them.alter(*resources, version=version)
        for group in groups:
            await check_same(us, them, group)
        about = [(type_, name) for type_, name, _ in resources if type_ != UNKNOWN_TYPE]
        described = list(await us.describe(*about, synonyms=False))
        once = list(dict.fromkeys(about))  # DEV D50: Kafka answers every mention
        assert described == list(await them.describe(*once, synonyms=False))
        assert await us.describe() == await them.describe() == ()


async def test_a_cluster_without_group_configs(kafka: KafkaCluster) -> None:
    """Hosted groups have configs at every listener. A group of the cluster has those of the
    cluster."""
    group, theirs = fresh_group("hosted"), fresh_group("legacy")
    async with whole_gateway(kafka.addresses, forward_patterns=("legacy-*",)) as gateway:
        first, second = (await gateway.listeners()).values()
        async with (
            await BrokerConnection.open(*first) as one,
            await BrokerConnection.open(*second) as other,
        ):
            assert await ConfigClient(one).alter_group(group, (SESSION, SET, "50000")) == (0, None)
            values = await ConfigClient(other).values(group)
            assert values[SESSION] == ("50000", ConfigSource.DYNAMIC_GROUP)
            code, _reason = await ConfigClient(one).alter_group(theirs, (SESSION, SET, "50000"))
            assert (code == 0) is kafka.has_new_protocol
            assert GROUP in {
                type_ for type_, _ in (await ConfigClient(one).list_resources(GROUP))[1]
            }
        async with await BrokerConnection.open(*kafka.addresses[0]) as direct:
            if kafka.has_new_protocol:
                values = await ConfigClient(direct).values(group)
                assert values[SESSION] == ("45000", ConfigSource.DEFAULT)


async def test_resources_with_configs_are_listed(kafka: KafkaCluster) -> None:
    """The list has groups with overrides, and the cluster's own resources."""
    group = fresh_group("listed")
    async with both(kafka) as (us, them):
        assert await us.alter_group(group, (SESSION, SET, "50000")) == (0, None)
        code, resources = await us.list_resources(GROUP)
        assert (code, (GROUP, group) in resources) == (0, True)
        if kafka.has_new_protocol:
            _, clusters = await them.list_resources()
            assert await us.list_resources() == (0, clusters | {(GROUP, group)})
            assert await us.list_resources(TOPIC) == await them.list_resources(TOPIC)
            assert await us.list_resources(UNKNOWN_TYPE) == (ErrorCode.UNSUPPORTED_VERSION, set())
        else:
            _, groups = await us.list_resources(GROUP)
            assert await us.list_resources() == (0, groups)
            assert await us.list_resources(CLIENT_METRICS) == (0, set())
            assert await us.list_resources(GROUP, TOPIC) == (ErrorCode.UNSUPPORTED_VERSION, set())
        assert (
            await us.list_resources(version=0) == await them.list_resources(version=0) == (0, set())
        )


async def test_configs_contain_no_address_of_the_cluster(kafka: KafkaCluster) -> None:
    """This covers every config of every broker with all synonyms. Other configs are unchanged."""
    withheld: set[str] = set()
    async with whole_gateway(kafka.addresses) as gateway:
        listeners = await gateway.listeners()
        for node_id, address in listeners.items():
            host, port = kafka.addresses[node_id - 1]
            async with (
                await BrokerConnection.open(*address) as through,
                await BrokerConnection.open(host, port) as direct,
            ):
                about = [(BROKER, str(node_id)), (BROKER, ""), (BROKER_LOGGER, str(node_id))]
                ours = await ConfigClient(through).describe(*about)
                theirs = await ConfigClient(direct).describe(*about)
                text = repr(ours)
                upstream = [str(port) for _, port in kafka.addresses]
                assert all(f":{port}" not in text for port in upstream)
                assert host not in text
                assert f":{port}" in repr(theirs)
                for my_result, their_result in zip(ours, theirs, strict=True):
                    my_configs = {config.name: config for config in my_result.configs}
                    for their_config in their_result.configs:
                        # A logger may have been created between the two answers.
                        my_config = my_configs.get(their_config.name)
                        if my_config is None:
                            assert their_result.resource_type == BROKER_LOGGER
                        elif my_config != their_config:
                            assert (my_config.value, my_config.is_sensitive) == (None, True)
                            withheld.add(my_config.name)
    assert withheld == {"listeners", "controller.quorum.voters"}  # the others are not set


async def test_a_refusal_contains_no_address_of_the_cluster(kafka: KafkaCluster) -> None:
    """A refusal may quote the value."""
    change = ("advertised.listeners", SET, "PLAINTEXT://elsewhere:1,OTHER://elsewhere:2")
    async with both(kafka) as (us, _them):
        for name in ("1", "2", ""):
            (answer,) = await us.alter((BROKER, name, [change]))
            assert answer.error_code != 0
            for _host, port in kafka.addresses:
                assert f":{port}" not in (answer.error_message or "")


@with_new_protocol()
async def test_configs_are_independent_of_the_group(kafka: KafkaCluster) -> None:
    """Configs apply from the first heartbeat on, and survive the group's deletion, as in Kafka."""
    group = fresh_group("kept")
    async with whole_gateway(kafka.addresses) as gateway:
        for address in (gateway.address, kafka.addresses[0]):
            async with group_client(address, group) as client:
                configs = ConfigClient(client.connection)
                assert await configs.alter_group(group, (HEARTBEAT, SET, "7000")) == (0, None)
                await until_answered(
                    partial(configs.values, group), lambda values: values[HEARTBEAT][0] == "7000"
                )
                assert (await client.native("n")).heartbeat_interval_ms == 7_000
                await client.native("n", -1)
                assert await client.delete() == 0
                assert (await configs.values(group))[HEARTBEAT] == ("7000", 8)
