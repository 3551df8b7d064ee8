"""Addresses in the configs of brokers, found and withheld. Pure functions on decoded messages.

A broker's listeners, or the controllers' addresses, would lead a client around the gateway. Such a
value becomes null and sensitive, as a password does: tools show that there is one, and not which.
"""

import re
from dataclasses import replace

from kafka_codecs.describe_configs import (
    ConfigResourceType,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
)
from kafka_codecs.incremental_alter_configs import AlterConfigsResourceResponse

ADDRESS_CONFIGS = frozenset(
    {
        *("listeners", "advertised.listeners"),
        *("controller.quorum.voters", "controller.quorum.bootstrap.servers", "zookeeper.connect"),
        *("host.name", "port", "advertised.host.name", "advertised.port"),  # before Kafka 3.0
    }
)
"""Configs that are addresses, whatever their value looks like."""

WITHHELD = "(withheld)"

# HOST:PORT, in whatever a plug-in of the broker may be told. A few other values look like it.
_ADDRESS = re.compile(r"[\w.-]*[\w.\]-]:\d{1,5}(?!\d)")


def described_without_addresses(result: DescribeConfigsResult) -> DescribeConfigsResult:
    """What the cluster describes, as a client may see it."""
    if result.resource_type != ConfigResourceType.BROKER:
        return result
    configs = tuple(
        _withheld(config) if _names_address(config) else config for config in result.configs
    )
    return replace(result, configs=configs, error_message=_redacted(result.error_message))


def altered_without_addresses(result: AlterConfigsResourceResponse) -> AlterConfigsResourceResponse:
    """What the cluster answers to a change: a refusal may quote what is set already."""
    if result.resource_type != ConfigResourceType.BROKER:
        return result
    return replace(result, error_message=_redacted(result.error_message))


def _names_address(config: DescribeConfigsResourceResult) -> bool:
    values = [value for value in (config.value, *(s.value for s in config.synonyms)) if value]
    return any(config.name in ADDRESS_CONFIGS or _ADDRESS.search(value) for value in values)


def _withheld(config: DescribeConfigsResourceResult) -> DescribeConfigsResourceResult:
    synonyms = tuple(replace(synonym, value=None) for synonym in config.synonyms)
    return replace(config, value=None, is_sensitive=True, synonyms=synonyms)


def _redacted(text: str | None) -> str | None:
    return _ADDRESS.sub(WITHHELD, text) if text else text
