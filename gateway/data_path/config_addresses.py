"""Withholds addresses in broker configs. Pure functions on decoded messages.

Listeners and controller addresses would lead a client around the gateway. Their values become null
and sensitive, like passwords: tools then show that a value exists.
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
"""Configs that hold addresses, whatever their value looks like."""

WITHHELD = "(withheld)"

# HOST:PORT anywhere in a value, for configs of broker plug-ins. A few other values match as well.
_ADDRESS = re.compile(r"[\w.-]*[\w.\]-]:\d{1,5}(?!\d)")


def described_without_addresses(result: DescribeConfigsResult) -> DescribeConfigsResult:
    """The cluster's description, without addresses."""
    if result.resource_type != ConfigResourceType.BROKER:
        return result
    configs = tuple(
        _withheld(config) if _names_address(config) else config for config in result.configs
    )
    return replace(result, configs=configs, error_message=_redact(result.error_message))


def altered_without_addresses(result: AlterConfigsResourceResponse) -> AlterConfigsResourceResponse:
    """The cluster's answer to a change, without addresses: an error message may quote current
    values."""
    if result.resource_type != ConfigResourceType.BROKER:
        return result
    return replace(result, error_message=_redact(result.error_message))


def _names_address(config: DescribeConfigsResourceResult) -> bool:
    values = [value for value in (config.value, *(s.value for s in config.synonyms)) if value]
    return any(config.name in ADDRESS_CONFIGS or _ADDRESS.search(value) for value in values)


def _withheld(config: DescribeConfigsResourceResult) -> DescribeConfigsResourceResult:
    synonyms = tuple(replace(synonym, value=None) for synonym in config.synonyms)
    return replace(config, value=None, is_sensitive=True, synonyms=synonyms)


def _redact(text: str | None) -> str | None:
    return _ADDRESS.sub(WITHHELD, text) if text else text
