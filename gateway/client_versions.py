"""Which client libraries support the new protocol, and since when."""

import re
from collections.abc import Mapping
from types import MappingProxyType

SPEAKS_CONSUMER_SINCE: Mapping[str, tuple[int, int] | None] = MappingProxyType(
    {
        "apache-kafka-java": (4, 0),
        "librdkafka": (2, 12),
        "confluent-kafka-python": (2, 12),
        "confluent-kafka-go": (2, 12),
        "confluent-kafka-dotnet": (2, 12),
        "confluent-kafka-rust": (1, 0),
        "kgo": (1, 22),
        "platformatic-kafka": (1, 35),
        "sarama": None,
        "kafka-python": None,
        "aiokafka": None,
        "kafkajs": None,
    }
)
"""Major and minor version; None if no version supports it."""

_VERSION = re.compile(r"v?(\d{1,4})\.(\d{1,4})", re.ASCII)


def explain_lack(name: str | None, version: str | None) -> str:
    """What a client lacks for the new protocol; empty if nothing, as far as known."""
    if speaks_consumer(name, version) is not False:
        return ""
    since = SPEAKS_CONSUMER_SINCE[name or ""]
    if since is None:
        return f"no version of {name} has the new protocol"
    return f"{name} {version} is too old for the new protocol: it takes {since[0]}.{since[1]}"


def speaks_consumer(name: str | None, version: str | None) -> bool | None:
    """Whether a client supports the new protocol; None if unknown."""
    numbers = _VERSION.match(version or "")
    if name is None or name not in SPEAKS_CONSUMER_SINCE or numbers is None:
        return None
    since = SPEAKS_CONSUMER_SINCE[name]
    return since is not None and (int(numbers[1]), int(numbers[2])) >= since
