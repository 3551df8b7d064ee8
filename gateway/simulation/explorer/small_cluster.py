"""The cluster of a small world: the classic group that an anchor joins, and its offsets.

It treats static members as brokers 3.9 and 4.3 do. `tests/support/fake_coordinator.py` is the same
for tests of the hosting machine; those with a real broker are the authority for both.
"""

from dataclasses import dataclass, field

from gateway.hosting.identity import PROTOCOL_TYPE, AnchorIds
from gateway.hosting.standing import Found, Nobody, Occupants
from kafka_codecs.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from kafka_codecs.declaration import Struct
from kafka_codecs.describe_groups import DescribedGroup, DescribedGroupMember
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_codecs.join_group import JoinGroupMember, JoinGroupRequest, JoinGroupResponse
from kafka_codecs.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from kafka_codecs.sync_group import SyncGroupRequest, SyncGroupResponse

FIRST_GENERATION = 10_000_000
"""Far from the engine's generations, so that the canonical form can tell them apart."""
Answer = JoinGroupResponse | SyncGroupResponse | HeartbeatResponse | LeaveGroupResponse

STRANGER = "stranger"
"""A consumer that joins the group in the cluster itself."""


@dataclass(slots=True, eq=False)
class Cluster:
    """One group with at most one member."""

    group_id: str
    offsets: list[int]
    """The committed offset of each partition."""
    member_id: str = ""
    protocol_type: str = ""
    protocol: str = ""
    metadata: bytes = b""
    generation: int = FIRST_GENERATION
    is_synced: bool = False
    expires_ms: int | None = None
    """When the anchor's session ends."""
    session_timeout_ms: int = 0
    joins: int = 0
    strays: list[tuple[AnchorIds | None, dict[int, int]]] = field(default_factory=list)
    """Commits on their way, for whose answer nobody waits any more."""

    # -- the anchor's requests -------------------------------------------------------------------

    def answer(self, message: Struct, now_ms: int) -> Answer:
        """Answer a request of the anchor."""
        answer: Answer
        match message:
            case JoinGroupRequest():
                answer = self._join(message)
            case SyncGroupRequest():
                code = self._checked(message.member_id, message.generation_id)
                self.is_synced |= not code
                answer = SyncGroupResponse(error_code=code)
            case HeartbeatRequest():
                code = self._checked(message.member_id, message.generation_id)
                answer = HeartbeatResponse(error_code=code)
            case LeaveGroupRequest():
                return self._leave(message)
            case _:
                raise TypeError(f"{message} is not a request of an anchor")
        if not answer.error_code:
            self.expires_ms = now_ms + self.session_timeout_ms
        return answer

    def _join(self, request: JoinGroupRequest) -> JoinGroupResponse:
        (protocol,) = request.protocols
        offered = (request.protocol_type, protocol.name)
        if self.member_id and (self.protocol_type, self.protocol) != offered:
            return JoinGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if request.member_id and request.member_id != self.member_id:
            is_fenced = bool(self.member_id)
            code = ErrorCode.FENCED_INSTANCE_ID if is_fenced else ErrorCode.UNKNOWN_MEMBER_ID
            return JoinGroupResponse(error_code=code)
        is_replacement = bool(self.member_id) and not request.member_id and self.is_synced
        self.protocol_type, self.protocol = offered
        self.metadata, self.session_timeout_ms = protocol.metadata, request.session_timeout_ms
        if not request.member_id:
            self.joins += 1
            self.member_id = f"{request.group_instance_id}-{self.joins}"
            self._drop_strays()
        if not is_replacement:
            self.generation += 1
            self.is_synced = False
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol,
            leader=self.member_id,
            skip_assignment=is_replacement,
            member_id=self.member_id,
            members=(JoinGroupMember(member_id=self.member_id, metadata=self.metadata),),
        )

    def _leave(self, request: LeaveGroupRequest) -> LeaveGroupResponse:
        (leaver,) = request.members
        code = self._checked(leaver.member_id, self.generation)
        if not code:
            self.remove_member()
        member = MemberResponse(
            member_id=leaver.member_id,
            group_instance_id=leaver.group_instance_id,
            error_code=code,
        )
        return LeaveGroupResponse(members=(member,))

    def _checked(self, member_id: str, generation: int) -> int:
        if not self.member_id or self.protocol_type != PROTOCOL_TYPE:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if member_id != self.member_id:
            return ErrorCode.FENCED_INSTANCE_ID
        return 0 if generation == self.generation else ErrorCode.ILLEGAL_GENERATION

    # -- looks and commits -----------------------------------------------------------------------

    def look(self) -> Found:
        """Who is in the group."""
        if not self.member_id:
            return Nobody()
        if self.protocol_type != PROTOCOL_TYPE:
            return Occupants(self.protocol_type, (self.member_id,), self.protocol)
        member = DescribedGroupMember(
            member_id=self.member_id,
            group_instance_id="groupferry",
            client_id="groupferry",
            client_host="/10.0.0.7",
            member_metadata=self.metadata if self.is_synced else b"",
            member_assignment=b"",
        )
        described = DescribedGroup(
            group_id=self.group_id,
            group_state="Stable" if self.is_synced else "PreparingRebalance",
            protocol_type=PROTOCOL_TYPE,
            protocol_data=self.protocol if self.is_synced else "",
            members=(member,),
        )
        return Occupants(PROTOCOL_TYPE, ("groupferry",), described.protocol_data, described)

    def commit(self, ids: AnchorIds | None, offsets: dict[int, int]) -> int:
        """Store the offsets if the group accepts these ids; the error code."""
        code = self.code_of_commit(ids)
        if not code:
            for number, offset in offsets.items():
                self.offsets[number] = offset
        return code

    def code_of_commit(self, ids: AnchorIds | None) -> int:
        """The error code of a commit under these ids."""
        if ids is None:
            return ErrorCode.UNKNOWN_MEMBER_ID if self.member_id else 0
        if code := self._checked(ids.member_id, ids.generation):
            return code
        return 0 if self.is_synced else ErrorCode.REBALANCE_IN_PROGRESS

    def _drop_strays(self) -> None:
        """Forget commits of member ids that never return."""
        self.strays = [
            stray for stray in self.strays if stray[0] is None or self._is_present(stray[0])
        ]

    def _is_present(self, ids: AnchorIds) -> bool:
        return ids.member_id == self.member_id and ids.generation == self.generation

    # -- what happens ----------------------------------------------------------------------------

    @property
    def has_stranger(self) -> bool:
        """Whether a consumer is in the group itself."""
        return self.member_id == STRANGER

    def remove_member(self) -> None:
        """Remove the member, as an admin does, or the end of its session."""
        self.member_id, self.expires_ms, self.is_synced = "", None, False
        self.generation += 1
        self._drop_strays()

    def admit_stranger(self) -> None:
        """A consumer joins the empty group."""
        self.member_id, self.protocol_type, self.protocol = (
            STRANGER,
            CONSUMER_PROTOCOL_TYPE,
            "range",
        )
        self.metadata, self.is_synced = b"", True
        self.generation += 1
