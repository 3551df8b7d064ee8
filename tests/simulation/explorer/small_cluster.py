"""The cluster of a small world: the group that an anchor joins, its offsets, and stray commits."""

from dataclasses import dataclass, field

from gateway.hosting.identity import AnchorIds
from kafka_codecs.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from kafka_codecs.declaration import Struct
from kafka_codecs.heartbeat import HeartbeatResponse
from kafka_codecs.join_group import JoinGroupRequest, JoinGroupResponse
from kafka_codecs.leave_group import LeaveGroupResponse
from kafka_codecs.sync_group import SyncGroupResponse
from tests.simulation.coordinator import FakeCoordinator, FakeGroup

Answer = JoinGroupResponse | SyncGroupResponse | HeartbeatResponse | LeaveGroupResponse

GROUP = "orders-readers"
FIRST_GENERATION = 10_000_000
"""Far from the engine's generations, so that the canonical form can tell them apart."""
STRANGER = "stranger"
"""The member id of a consumer that joins the group in the cluster itself."""


@dataclass(slots=True, eq=False)
class Cluster:
    """A coordinator with one group, which has at most one member."""

    offsets: list[int]
    """The committed offset of each partition."""
    coordinator: FakeCoordinator = field(
        default_factory=lambda: FakeCoordinator(
            groups={GROUP: FakeGroup(generation=FIRST_GENERATION)}
        )
    )
    expires_ms: int | None = None
    """When the anchor's session ends."""
    session_timeout_ms: int = 0
    strays: list[tuple[AnchorIds | None, dict[int, int]]] = field(default_factory=list)
    """Commits on their way whose answers are no longer awaited."""

    @property
    def group(self) -> FakeGroup:
        """The group."""
        return self.coordinator.groups[GROUP]

    @property
    def has_stranger(self) -> bool:
        """Whether a consumer is in the group itself."""
        return self.group.member_id == STRANGER

    def answer(self, message: Struct, now_ms: int) -> Answer:
        """Answer a request of the anchor."""
        answer: Answer = self.coordinator.answer(message)
        if isinstance(message, JoinGroupRequest):
            self.session_timeout_ms = message.session_timeout_ms
        if isinstance(answer, LeaveGroupResponse):
            self.expires_ms = None
        elif not answer.error_code:
            self.expires_ms = now_ms + self.session_timeout_ms
        self._drop_strays()
        return answer

    def commit(self, ids: AnchorIds | None, offsets: dict[int, int]) -> int:
        """Store the offsets if the group accepts these ids; the error code."""
        code = self.coordinator.code_of_commit(GROUP, ids)
        if not code:
            for number, offset in offsets.items():
                self.offsets[number] = offset
        return code

    def remove_member(self) -> None:
        """Remove the member, as an admin does, or the end of its session."""
        self.group.remove_member()
        self.expires_ms = None
        self._drop_strays()

    def admit_stranger(self) -> None:
        """A consumer joins the empty group."""
        group = self.group
        group.member_id, group.instance_id = STRANGER, None
        group.protocol_type, group.protocol = CONSUMER_PROTOCOL_TYPE, "range"
        group.metadata, group.is_synced = b"", True
        group.generation += 1

    def _drop_strays(self) -> None:
        """Forget commits under ids that never return."""
        present = AnchorIds(member_id=self.group.member_id, generation=self.group.generation)
        self.strays = [stray for stray in self.strays if stray[0] in (None, present)]
