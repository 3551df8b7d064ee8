"""Where the gateway answers otherwise than Kafka on purpose, and which scripts show it.

The reasons are in `gateway/docs/rules.md`, under the same names. A difference that a script does
not announce with one of these is a bug.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Deviation(StrEnum):
    """Named as in the table of deviations."""

    TARGET_BY_ITSELF = "11.2 row 6"
    EMPTY_REGEX = "regex without matches"
    MALFORMED_BYTES = "malformed bytes"
    """Kafka's parser fails in more than one way, and 4.3.1 knows some of them only: a collection
    longer than the bytes is UNKNOWN_SERVER_ERROR."""


SHOWN_BY: Mapping[Deviation, frozenset[str]] = {
    Deviation.TARGET_BY_ITSELF: frozenset({"policies_and_groups_with_members-upgrade"}),
    Deviation.EMPTY_REGEX: frozenset({"a_regex_without_matches_leaves_partitions"}),
    Deviation.MALFORMED_BYTES: frozenset({"malformed_assignment_refuses_the_upgrade"}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Unlike:
    """What each side answers to one request, as far as it matters."""

    deviation: Deviation
    kafka: Mapping[str, Any]
    gateway: Mapping[str, Any]

    @classmethod
    def error(cls, deviation: Deviation, *, kafka: int, gateway: int) -> "Unlike":
        """Two error codes."""
        return cls(
            deviation=deviation, kafka={"error_code": kafka}, gateway={"error_code": gateway}
        )
