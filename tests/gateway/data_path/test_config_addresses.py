"""Brokers' configs for clients contain no addresses.
tests/gateway/requests/test_config_apis_with_kafka.py checks all configs of a real broker."""

import pytest

from gateway.data_path.config_addresses import (
    altered_without_addresses,
    described_without_addresses,
)
from kafka_codecs.describe_configs import (
    ConfigSource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.incremental_alter_configs import AlterConfigsResourceResponse
from tests.support.configs import BROKER, TOPIC


def config_shown(
    name: str, value: str | None, *, synonym: str | None = None, resource_type: int = BROKER
) -> DescribeConfigsResourceResult:
    """The only config of a resource, as a client receives it."""
    source = ConfigSource.STATIC_BROKER
    config = DescribeConfigsResourceResult(
        name=name,
        value=value,
        read_only=True,
        config_source=source,
        is_sensitive=False,
        synonyms=(DescribeConfigsSynonym(name=name, value=synonym, source=source),),
    )
    result = DescribeConfigsResult(
        resource_type=resource_type, resource_name="1", configs=(config,)
    )
    return described_without_addresses(result).configs[0]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("listeners", "PLAINTEXT://:9092"),
        ("listeners", "PLAINTEXT://kafka-1.internal:9092,SSL://10.0.0.1:9093"),
        ("advertised.listeners", "PLAINTEXT://[fe80::1]:9092"),
        ("controller.quorum.voters", "1@kafka-1:9093"),
        ("host.name", "kafka-1"),
        ("port", "9092"),
        ("some.plugin.servers", "[::1]:9092"),
        ("some.plugin.url", "http://kafka-1:8083/path"),
    ],
)
def test_an_address_is_withheld(name: str, value: str) -> None:
    """The address is null and sensitive like a password, also in the synonyms. The source is
    kept."""
    config = config_shown(name, value, synonym=value)
    assert (config.value, config.is_sensitive) == (None, True)
    assert [synonym.value for synonym in config.synonyms] == [None]
    assert (config.name, config.config_source) == (name, ConfigSource.STATIC_BROKER)


def test_an_address_in_a_synonym_is_withheld() -> None:
    """A dynamic value may hide the one of the file."""
    assert config_shown("some.url", None, synonym="kafka-1:9092").synonyms[0].value is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("log.dirs", "/var/lib/kafka"),
        ("node.id", "9092"),
        ("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,SSL:SSL"),
        ("inter.broker.protocol.version", "3.9-IV0"),
        ("advertised.listeners", None),
        ("listeners", ""),
    ],
)
def test_other_values_are_kept(name: str, value: str | None) -> None:
    """This includes an address that is not set."""
    config = config_shown(name, value, synonym=value)
    assert (config.value, config.is_sensitive, config.synonyms[0].value) == (value, False, value)


def test_topics_have_no_addresses() -> None:
    """A value that looks like one is a list of partitions and brokers."""
    throttled = "leader.replication.throttled.replicas"
    assert config_shown(throttled, "0:1,1:2", resource_type=TOPIC).value == "0:1,1:2"


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        (None, None),
        ("no such config", "no such config"),
        ("PLAINTEXT://kafka-1:9092 is taken", "PLAINTEXT://(withheld) is taken"),
        ("kafka-1:9092,10.0.0.1:9093", "(withheld),(withheld)"),
    ],
)
def test_an_error_message_contains_no_address(reason: str | None, shown: str | None) -> None:
    """A broker's refusal may quote the value."""
    altered = AlterConfigsResourceResponse(
        error_code=ErrorCode.INVALID_CONFIG,
        error_message=reason,
        resource_type=BROKER,
        resource_name="1",
    )
    assert altered_without_addresses(altered).error_message == shown
    refused = DescribeConfigsResult(
        error_code=ErrorCode.INVALID_CONFIG,
        error_message=reason,
        resource_type=BROKER,
        resource_name="1",
    )
    assert described_without_addresses(refused).error_message == shown
