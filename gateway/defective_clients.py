"""Versions of client libraries whose new protocol is known to be defective.

Libraries go by the names under which they introduce themselves. This is data: a new finding is a
new entry, with its source.
"""

import re
from dataclasses import dataclass

Version = tuple[int, int]
"""Major and minor version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """What goes wrong with the new protocol. The classic protocol of these versions is fine."""

    libraries: frozenset[str]
    good_since: Version
    """The first version without it."""
    symptom: str
    reference: str
    """Who reports it, and where it was fixed or seen."""


_LIBRDKAFKA = frozenset(
    {
        *("librdkafka", "confluent-kafka-python", "confluent-kafka-go", "confluent-kafka-dotnet"),
        *("confluent-kafka-javascript", "node-rdkafka"),
    }
)

DEFECTS = (
    Defect(
        libraries=_LIBRDKAFKA,
        good_since=(2, 12),
        symptom="an early version of the new protocol: partitions go without a revoke callback and"
        " have two owners",
        reference="gateway/docs/clients.md (2.8.0 on Kafka 4.3 without the gateway);"
        " confluentinc/librdkafka#5041",
    ),
    Defect(
        libraries=_LIBRDKAFKA,
        good_since=(2, 15),
        symptom="consumers stop for minutes while members come and go, and commits fail with a"
        " stale member epoch",
        reference="Blizzard/node-rdkafka#1146",
    ),
    Defect(
        libraries=frozenset({"apache-kafka-java"}),
        good_since=(4, 0),
        symptom="an early version of the new protocol, not for production",
        reference="KIP-848: general availability with Kafka 4.0",
    ),
    Defect(
        libraries=frozenset({"apache-kafka-java"}),
        good_since=(4, 4),
        symptom="after a stale member epoch, fetches of committed offsets are repeated with the old"
        " epoch until they time out",
        reference="KAFKA-20765, apache/kafka#22747 (in kafka-clients 4.4.0, not in 4.3.1)",
    ),
    Defect(
        libraries=frozenset({"platformatic-kafka"}),
        good_since=(1, 35),
        symptom="after a stale member epoch, a consumer starts at its fallback offset and skips"
        " records",
        reference="platformatic/kafka#267, fixed by #279; 1.35.0 is the first that passed a roll"
        " here (gateway/docs/clients.md)",
    ),
)

_VERSION = re.compile(r"v?(\d{1,4})\.(\d{1,4})", re.ASCII)
_BUNDLED = re.compile(r"rdkafka-(\d{1,4})\.(\d{1,4})", re.ASCII)
"""Bindings name the librdkafka that they come with after their own version."""


def defects_of(name: str | None, version: str | None) -> tuple[Defect, ...]:
    """What is known against this version; nothing if the client has not introduced itself."""
    if name is None or version is None:
        return ()
    found = _BUNDLED.search(version) or _VERSION.match(version)
    if found is None:
        return ()
    number = (int(found[1]), int(found[2]))
    return tuple(each for each in DEFECTS if name in each.libraries and number < each.good_since)
