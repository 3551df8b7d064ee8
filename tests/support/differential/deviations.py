"""Deliberate deviations from Kafka, and the scripts that show them.

`gateway/docs/protocol/deviations.md` has the reasons. A difference that a script does not announce
with one of these is a bug.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.metadata import AUTHORIZED_OPERATIONS_OMITTED
from tests.support.releases import release_number


class Deviation(StrEnum):
    """Each cites its row there."""

    LAGGARD = "deviation D8"
    NOT_QUIET = "deviations D9, D10"
    UNKNOWN_OWNER = "deviation D16"
    LATE_SYNC = "deviation D27"
    LATE_JOIN = "deviation D25"
    INTERRUPTED = "deviation D22"
    FULL = "deviation D29"
    """Kafka 4.3.1 refuses it, 4.3.2 does not (KAFKA-20601)."""
    ANY_LEADER = "rule 2.5: who leads after the leader left is up to the coordinator"

    TARGET_BY_ITSELF = "deviation D6"
    NO_TOPICS = "deviation D39"
    EMPTY_REGEX = "deviation D18"
    INTERNAL_ERROR = "deviation D38"
    OVERWRITTEN = "deviation D33"
    CHANGED_INSTANCE = "deviation D40"
    OUTLIVED = "deviation D49"
    REJOINED_INSTANCE = "deviation D91"
    REPEATED = "deviation D53"
    UNHEARD = "deviation D54"
    NOTHING_CREATED = "deviation D55"
    RESUBSCRIBED = "deviation D59"
    ANOTHER_ASSIGNOR = "deviation D66: another assignor"
    ANOTHER_RACK = "deviation D66: another rack"
    EPOCHS_GO_ON = "deviation D88"
    OLD_FETCH = "deviation D80"
    HELD = "deviation D37"
    SHORT_SUBSCRIPTION = "deviation D24"
    MALFORMED_BYTES = "deviation D38: malformed bytes"
    """Kafka's parser fails in several ways, and 4.3.1 handles only some: a collection longer than
    the bytes causes UNKNOWN_SERVER_ERROR."""
    EMPTIED = "deviation D92"


UNTIL: Mapping[Deviation, str] = {
    Deviation.ANOTHER_ASSIGNOR: "4.3",
    Deviation.MALFORMED_BYTES: "4.3",
}
"""The last release with a deviation that newer ones do not show."""
SINCE: Mapping[Deviation, str] = {Deviation.EMPTIED: "4.4"}
"""The first release with a deviation that older ones do not show."""


def is_shown_on(release: str, deviation: Deviation) -> bool:
    """Whether a broker of this release differs from the gateway."""
    first, last = SINCE.get(deviation, release), UNTIL.get(deviation, release)
    return release_number(first) <= release_number(release) <= release_number(last)


REPEATING = frozenset(
    {
        "a_member_owns_partitions_without_a_grant",
        "a_member_that_must_revoke_leaves_temporarily",
        "a_new_target_while_revoking",
        "a_slow_revocation",
        "an_eager_member_joins_and_rejoins",
        "an_instance_comes_and_goes",
        "epochs_that_are_wrong",
        "all_members_change_the_subscription_at_once",
        "silent_native_members_expire",
        "targets_are_computed_once_per_interval",
        "the_previous_epoch_again",
        "two_members_share",
    }
)
"""The scripts in which the gateway repeats an assignment. They announce all other deviations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unlike:
    """The relevant part of each side's answer to one request."""

    deviation: Deviation
    kafka: Mapping[str, Any]
    gateway: Mapping[str, Any]

    @property
    def sides(self) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Kafka's answer and the gateway's."""
        return (self.kafka, self.gateway)

    @classmethod
    def error(cls, deviation: Deviation, *, kafka: int, gateway: int) -> "Unlike":
        """Two error codes."""
        return cls(
            deviation=deviation, kafka={"error_code": kafka}, gateway={"error_code": gateway}
        )

    @classmethod
    def epoch(cls, field: str, *, kafka: int, gateway: int) -> "Unlike":
        """The epoch of a group that replaces an empty one of the other kind."""
        return cls(deviation=Deviation.EPOCHS_GO_ON, kafka={field: kafka}, gateway={field: gateway})

    @classmethod
    def empty_group(cls, *, group_epoch: int, assignment_epoch: int) -> "Unlike":
        """The description of a consumer group whose members have left. Kafka's assignment epoch
        follows the group epoch."""

        def description_with(epoch: int) -> Mapping[str, Any]:
            epochs = {"group_epoch": group_epoch, "assignment_epoch": epoch}
            return {"groups": ({**_EMPTY_GROUP, **epochs},)}

        return cls(
            deviation=Deviation.EMPTIED,
            kafka=description_with(group_epoch),
            gateway=description_with(assignment_epoch),
        )

    @classmethod
    def deletions(cls, codes: Mapping[str, Mapping[int, int]]) -> "Unlike":
        """An OffsetDelete that Kafka answers with these codes. The gateway keeps the offsets."""
        return cls(
            deviation=Deviation.HELD,
            kafka=_deletions(codes),
            gateway=_deletions(
                {
                    name: {
                        index: code or ErrorCode.NON_EMPTY_GROUP
                        for index, code in partitions.items()
                    }
                    for name, partitions in codes.items()
                }
            ),
        )


_EMPTY_GROUP = {
    "error_code": 0,
    "group_id": "<group>",
    "group_state": "Empty",
    "assignor_name": "range",
    "members": (),
    "authorized_operations": AUTHORIZED_OPERATIONS_OMITTED,
}
UNKNOWN_NATIVE = Unlike.error(Deviation.OUTLIVED, kafka=69, gateway=25)
"""A heartbeat of a native member without a consumer group."""


def _deletions(codes: Mapping[str, Mapping[int, int]]) -> Mapping[str, Any]:
    return {
        "topics": tuple(
            {
                "name": name,
                "partitions": tuple(
                    {"partition_index": index, "error_code": code}
                    for index, code in codes[name].items()
                ),
            }
            for name in sorted(codes)
        )
    }


def find_deviation(what: str, api: str, kafka: Any, gateway: Any) -> Deviation | None:
    """The deviation that explains a difference in a random script, or None. The script ends there,
    because the two groups differ from then on."""
    match api, (first_error(kafka), first_error(gateway)):
        case (("Heartbeat" | "SyncGroup"), (22, 27)):
            return Deviation.LAGGARD
        case "OffsetCommit", (22, 0):
            return Deviation.LAGGARD
        case "SyncGroup", (23, 27):
            return Deviation.LATE_SYNC
        case (("Heartbeat" | "SyncGroup"), (0, 27)):
            return Deviation.TARGET_BY_ITSELF
        case (("ConsumerGroupDescribe" | "ListGroups"), (0, 0)) if "'Assigning'" in str(kafka):
            return Deviation.TARGET_BY_ITSELF
        case "ConsumerGroupDescribe", (0, 0) if "'Empty'" in str(kafka):
            return Deviation.EMPTIED
        case "JoinGroup", (0, 0 | "waits") if kafka["leader"] == "":
            return Deviation.NOT_QUIET
        case "JoinGroup", (0, 25):
            return Deviation.UNKNOWN_OWNER
        case (("JoinGroup" | "ConsumerGroupHeartbeat"), (81, 0 | 111)):
            return Deviation.FULL
        case "JoinGroup", (0, 0) if kafka["leader"] != gateway["leader"]:
            return Deviation.ANY_LEADER
        case (("JoinGroup" | "SyncGroup"), ("waits", 27)):
            return Deviation.OVERWRITTEN
        case "ConsumerGroupHeartbeat", (69, 25 | 82):
            return Deviation.OUTLIVED
        case "OffsetDelete", _ if f"'error_code': {ErrorCode.NON_EMPTY_GROUP}" in str(gateway):
            return Deviation.HELD
        case "ConsumerGroupHeartbeat", (110, 0):
            return Deviation.UNHEARD
        case "ConsumerGroupHeartbeat", (0, 0) if gateway["member_epoch"] < kafka["member_epoch"]:
            return Deviation.LATE_JOIN if "epoch=0" in what else Deviation.UNHEARD
        case (("JoinGroup" | "ConsumerGroupHeartbeat"), (0, 0)) if _epoch(gateway) > _epoch(kafka):
            return Deviation.EPOCHS_GO_ON
    return None


def _epoch(plain: Any) -> int:
    """The epoch or generation in an answer to a join or a native heartbeat."""
    return int(plain["member_epoch"] if "member_epoch" in plain else plain["generation_id"])


def first_error(plain: Any) -> Any:
    """The first error code in an answer, or 0."""
    match plain:
        case {"error_code": code} if code:
            return code
        case dict():
            codes = [first_error(value) for value in plain.values()]
        case tuple():
            codes = [first_error(value) for value in plain]
        case _:
            codes = []
    return next((code for code in codes if code), 0)
