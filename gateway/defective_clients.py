"""Versions of client libraries whose new protocol is known to be defective.

Libraries go by the names under which they introduce themselves. This is data: a new finding is a
new entry, with its source.
"""

import re
from dataclasses import dataclass
from typing import Literal

Version = tuple[int, int, int]
"""Major, minor and patch version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """What goes wrong with the new protocol. The classic protocol of these versions is fine."""

    libraries: frozenset[str]
    good_since: Version
    """The first version without it."""
    level: Literal["defective", "slower"] = "defective"
    """A slower version does nothing wrong, and is never refused."""
    symptom: str
    reference: str
    """Who reports it, and where it was fixed or seen."""

    @property
    def first_good_version(self) -> str:
        """The first version without it, without a patch level of 0."""
        major, minor, patch = self.good_since
        return f"{major}.{minor}.{patch}" if patch else f"{major}.{minor}"


_LIBRDKAFKA = frozenset(
    {
        *("librdkafka", "confluent-kafka-python", "confluent-kafka-go", "confluent-kafka-dotnet"),
        *("confluent-kafka-javascript", "node-rdkafka"),
    }
)

DEFECTS = (
    Defect(
        libraries=_LIBRDKAFKA,
        good_since=(2, 12, 0),
        symptom="an early version of the new protocol: partitions go without a revoke callback and"
        " have two owners",
        reference="gateway/docs/clients.md (2.8.0 on Kafka 4.3 without the gateway);"
        " confluentinc/librdkafka#5041",
    ),
    Defect(
        libraries=_LIBRDKAFKA,
        good_since=(2, 15, 0),
        symptom="consumers stop for minutes while members come and go, and commits fail with a"
        " stale member epoch",
        reference="Blizzard/node-rdkafka#1146",
    ),
    Defect(
        libraries=_LIBRDKAFKA,
        good_since=(2, 15, 0),
        symptom="a consumer that exceeds max.poll.interval.ms may end with a fatal"
        " INVALID_REQUEST, and errors that last are retried for ever",
        reference="confluentinc/librdkafka#5541, fixed with #5488",
    ),
    Defect(
        libraries=frozenset({"apache-kafka-java"}),
        good_since=(4, 0, 0),
        symptom="an early version of the new protocol, not for production",
        reference="KIP-848: general availability with Kafka 4.0",
    ),
    Defect(
        libraries=frozenset({"apache-kafka-java"}),
        good_since=(4, 4, 0),
        symptom="after a stale member epoch, fetches of committed offsets are repeated with the old"
        " epoch until they time out",
        reference="KAFKA-20765, apache/kafka#22747 (in kafka-clients 4.4.0, not in 4.3.1)",
    ),
    Defect(
        libraries=frozenset({"apache-kafka-java"}),
        good_since=(4, 3, 1),
        level="slower",
        symptom="with a small max.poll.records a consumer takes much more processor time",
        reference="KAFKA-20535, apache/kafka#22199",
    ),
    Defect(
        libraries=frozenset({"apache-kafka-java"}),
        good_since=(4, 2, 0),
        level="slower",
        symptom="after an empty fetch, a consumer waits for its whole poll timeout",
        reference="KAFKA-19259, apache/kafka#19980",
    ),
    Defect(
        libraries=frozenset({"apache-kafka-java"}),
        good_since=(4, 4, 0),
        level="slower",
        symptom="after an empty fetch, a consumer waits before it sends the next one, so that"
        " records of a quiet topic arrive late",
        reference="KAFKA-20780, apache/kafka#22979 (in kafka-clients 4.4.0, not in 4.3.1)",
    ),
    Defect(
        libraries=frozenset({"platformatic-kafka"}),
        good_since=(1, 35, 0),
        symptom="after a stale member epoch, a consumer starts at its fallback offset and skips"
        " records",
        reference="platformatic/kafka#267, fixed by #279; 1.35.0 is the first that passed a roll"
        " here (gateway/docs/clients.md)",
    ),
    Defect(
        libraries=frozenset({"platformatic-kafka"}),
        good_since=(2, 11, 0),
        symptom="no event tells the application that partitions are revoked, so that it cannot"
        " commit before another member reads them",
        reference="platformatic/kafka#339, fixed by #340 (in 2.11.0, not in 2.7.0)",
    ),
    Defect(
        libraries=frozenset({"kgo"}),
        good_since=(1, 22, 1),
        symptom="several faults of the new protocol, which its author's audits found",
        reference="twmb/franz-go, CHANGELOG.md, v1.21.4 to v1.22.1 (the option is public since"
        " v1.22.0)",
    ),
)

_NUMBER = r"(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?"
_VERSION = re.compile(f"v?{_NUMBER}", re.ASCII)
_BUNDLED = re.compile(f"rdkafka-v?{_NUMBER}", re.ASCII)
"""Bindings name the librdkafka that they come with after their own version. So do libraries that
are built on a binding, such as Karafka (`v2.5.0-rdkafka-ruby-v0.19.5-librdkafka-v2.11.0`)."""


def defects_of(name: str | None, version: str | None) -> tuple[Defect, ...]:
    """What is known against this version; nothing if the client has not introduced itself."""
    if name is None or version is None:
        return ()
    bundled = _BUNDLED.search(version)
    match = bundled or _VERSION.match(version)
    if match is None:
        return ()
    library = "librdkafka" if bundled else name
    number = (int(match[1]), int(match[2]), int(match[3] or 0))
    return tuple(
        defect for defect in DEFECTS if library in defect.libraries and number < defect.good_since
    )
