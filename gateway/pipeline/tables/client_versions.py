"""The first versions of client libraries that support the new protocol (KIP-848), by the names
under which they introduce themselves.

A version counts if its makers call it ready, or if it passed a roll here (tests/matrix.json). Early
access does not count: it may drop partitions without a callback. Other names are unknown.
"""

from collections.abc import Mapping
from types import MappingProxyType

from pyspark.sql import Column
from pyspark.sql import functions as F

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

_NEVER = (1 << 31) - 1


def speaks_consumer(name: Column, version: Column) -> Column:
    """Whether a client supports the new protocol; null if unknown."""
    pairs = [
        F.lit(each)
        for software, since in SPEAKS_CONSUMER_SINCE.items()
        for each in (software, _ordered(*since) if since else _NEVER)
    ]
    numbers = [
        F.regexp_extract(version, r"^v?(\d{1,4})\.(\d{1,4})", place).try_cast("int")
        for place in (1, 2)
    ]
    return (numbers[0] * 10_000 + numbers[1]) >= F.try_element_at(F.create_map(*pairs), name)


def _ordered(major: int, minor: int) -> int:
    return major * 10_000 + minor
