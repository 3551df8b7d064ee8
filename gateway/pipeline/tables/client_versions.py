"""The first versions of client libraries that support the new protocol (KIP-848), by the names
under which they introduce themselves.

A version counts if its makers call it ready, or if it passed a roll here (tests/matrix.json). Early
access does not count: it may drop partitions without a callback. Other names are unknown.
"""

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


def speaks_consumer(name: str | None, version: str | None) -> bool | None:
    """Whether a client supports the new protocol; None if unknown."""
    found = _VERSION.match(version or "")
    if name is None or name not in SPEAKS_CONSUMER_SINCE or found is None:
        return None
    since = SPEAKS_CONSUMER_SINCE[name]
    return since is not None and (int(found[1]), int(found[2])) >= since
