"""Refuses the new protocol to client versions that are known to be defective with it.

A client that has become a native member here may always come back under its member id, such as
after its session has expired.
"""

from gateway.data_path.group_apis import GroupRequest
from gateway.defective_clients import Defect, defects_of
from gateway.groups.groups import Groups
from gateway.quotas.quota_cache import QuotaCache
from gateway.quotas.shares import ShareRule
from kafka_codecs.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import ErrorCode

JOIN_EPOCH = 0
MEMBERS_MAX = 20_000
"""Members remembered. Beyond that the oldest are forgotten."""


class DefectiveJoins:
    """Sees each native join."""

    def __init__(self, groups: Groups, *, refuses: bool, names: ShareRule) -> None:
        self._groups = groups
        self._refuses = refuses
        self._members: QuotaCache[int, None] = QuotaCache(MEMBERS_MAX, names)

    def is_concerned(self, message: Struct) -> bool:
        """Whether this may be a join to refuse."""
        return (
            self._refuses
            and isinstance(message, ConsumerGroupHeartbeatRequest)
            and message.member_epoch == JOIN_EPOCH
        )

    def why_refused(self, request: GroupRequest) -> str | None:
        """The reason to refuse a join, with the first good version; None if it may join."""
        message, software = request.message, request.upstream.introduction
        if software is None or not self.is_concerned(message):
            return None
        assert isinstance(message, ConsumerGroupHeartbeatRequest)
        known = defects_of(software.name, software.version)
        defects = tuple(defect for defect in known if defect.level == "defective")
        if not defects or self._is_member(message):
            return None
        return why_refused(software.name, software.version, defects)

    def record(self, request: GroupRequest, answer: Struct) -> None:
        """A join was answered: a member that is in stays in."""
        message = request.message
        if not self.is_concerned(message):
            return
        assert isinstance(message, ConsumerGroupHeartbeatRequest)
        assert isinstance(answer, ConsumerGroupHeartbeatResponse)
        if answer.error_code == ErrorCode.NONE:
            member_id = answer.member_id or message.member_id
            self._members.put(hash((message.group_id, member_id)), None, request.owner)

    def _is_member(self, message: ConsumerGroupHeartbeatRequest) -> bool:
        if hash((message.group_id, message.member_id)) in self._members:
            return True
        state = self._groups.views.snapshot(message.group_id).state
        return (
            state is not None
            and state.group is not None
            and message.member_id in state.group.members
        )


def why_refused(name: str, version: str, defects: tuple[Defect, ...]) -> str:
    """One line for the client, whose application logs it (DEV D72)."""
    latest = max(defects, key=lambda defect: defect.good_since)
    reasons = "; ".join(f"{defect.symptom} ({defect.reference})" for defect in defects)
    return (
        f"{name} {version} is defective with group.protocol=consumer: {reasons}. Use version"
        f" {latest.first_good_version} or later, or group.protocol=classic"
    )
