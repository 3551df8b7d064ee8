"""A coordinator of one classic group of static members, as Kafka has it, in simulated time."""

from collections.abc import Callable
from dataclasses import dataclass, field

from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_codecs.join_group import (
    JoinGroupMember,
    JoinGroupRequest,
    JoinGroupResponse,
)
from kafka_codecs.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kafka_codecs.sync_group import SyncGroupRequest, SyncGroupResponse

Reply = Callable[[Struct], None]


@dataclass(slots=True)
class _Member:
    instance_id: str
    metadata: bytes
    session_ms: int
    seen_ms: int
    join: Reply | None = None
    sync: Reply | None = None
    assignment: bytes = b""


@dataclass(slots=True)
class ClassicCoordinator:
    """The group. A static member that is late in a round keeps its place, with what it said."""

    generation: int = 0
    state: str = "empty"
    members: dict[str, _Member] = field(default_factory=dict)
    leader: str = ""
    _ends_ms: int = 0
    _joins: int = 0

    def take(self, request: Struct, reply: Reply, now_ms: int) -> None:
        """Answer a request, now or later."""
        match request:
            case JoinGroupRequest():
                self._on_join(request, reply, now_ms)
            case SyncGroupRequest():
                self._on_sync(request, reply, now_ms)
            case HeartbeatRequest():
                reply(HeartbeatResponse(error_code=self._beat(request, now_ms)))
            case LeaveGroupRequest():
                for identity in request.members:
                    member = self.members.get(identity.member_id)
                    if member and member.instance_id == identity.group_instance_id:
                        self._remove(identity.member_id, now_ms)
                reply(LeaveGroupResponse())
            case _:
                raise TypeError(request)

    def pass_time(self, now_ms: int) -> None:
        """End sessions and rounds that are due."""
        for member_id, member in list(self.members.items()):
            if member.join is None and now_ms - member.seen_ms >= member.session_ms:
                self._remove(member_id, now_ms)
        if self.state == "joining" and now_ms >= self._ends_ms:
            self._end_round(now_ms)

    def has(self, instance_id: str) -> bool:
        """Whether a member with this instance id is in the group."""
        return any(member.instance_id == instance_id for member in self.members.values())

    def _find(self, member_id: str, instance_id: str | None) -> ErrorCode | _Member:
        if (member := self.members.get(member_id)) is not None:
            return member
        is_replaced = instance_id is not None and self.has(instance_id)
        return ErrorCode.FENCED_INSTANCE_ID if is_replaced else ErrorCode.UNKNOWN_MEMBER_ID

    def _on_join(self, request: JoinGroupRequest, reply: Reply, now_ms: int) -> None:
        metadata = request.protocols[0].metadata
        instance_id = request.group_instance_id or ""
        if not request.member_id:
            self._admit(request, instance_id, metadata, reply, now_ms)
            return
        member = self._find(request.member_id, instance_id)
        if isinstance(member, ErrorCode):
            reply(JoinGroupResponse(error_code=member))
            return
        member.seen_ms = now_ms
        is_same = member.metadata == metadata
        member.metadata = metadata
        leads = request.member_id == self.leader
        if is_same and (self.state == "syncing" or (self.state == "stable" and not leads)):
            reply(self._join_answer(request.member_id))
            return
        member.join = reply
        self._begin_round(now_ms)

    def _admit(
        self,
        request: JoinGroupRequest,
        instance_id: str,
        metadata: bytes,
        reply: Reply,
        now_ms: int,
    ) -> None:
        self._joins += 1
        member_id = f"{instance_id}-{self._joins}"
        old_id = next(
            (
                known_id
                for known_id, member in self.members.items()
                if member.instance_id == instance_id
            ),
            None,
        )
        member = _Member(instance_id, metadata, request.session_timeout_ms, now_ms)
        if old_id is not None:
            old = self.members.pop(old_id)
            member.assignment = old.assignment
            fenced = ErrorCode.FENCED_INSTANCE_ID
            if old.join is not None:
                old.join(JoinGroupResponse(error_code=fenced))
            if old.sync is not None:
                old.sync(SyncGroupResponse(error_code=fenced))
            was_leader, self.leader = self.leader, self.leader.replace(old_id, member_id)
            self.members[member_id] = member
            if self.state == "stable":
                answer = self._join_answer(member_id)
                leads = was_leader == old_id
                reply(_as_follower(answer, was_leader) if leads else answer)
                return
        self.members[member_id] = member
        member.join = reply
        self._begin_round(now_ms)

    def _begin_round(self, now_ms: int) -> None:
        if self.state != "joining":
            for member in self.members.values():
                if member.sync is not None:
                    member.sync(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
                    member.sync = None
            self.state = "joining"
            self._ends_ms = now_ms + max(member.session_ms for member in self.members.values())
        if all(member.join is not None for member in self.members.values()):
            self._end_round(now_ms)

    def _end_round(self, now_ms: int) -> None:
        joined = [
            member_id for member_id, member in self.members.items() if member.join is not None
        ]
        if not joined:
            self._ends_ms = now_ms + 1_000
            return
        self.generation += 1
        self.state = "syncing"
        if self.leader not in joined:
            self.leader = joined[0]
        for member_id in joined:
            member = self.members[member_id]
            reply, member.join, member.seen_ms = member.join, None, now_ms
            assert reply is not None
            reply(self._join_answer(member_id))

    def _join_answer(self, member_id: str) -> JoinGroupResponse:
        members = tuple(
            JoinGroupMember(
                member_id=known_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata,
            )
            for known_id, member in self.members.items()
        )
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type="groupferry",
            protocol_name="groupferry",
            leader=self.leader,
            member_id=member_id,
            members=members if member_id == self.leader else (),
        )

    def _on_sync(self, request: SyncGroupRequest, reply: Reply, now_ms: int) -> None:
        member = self._find(request.member_id, request.group_instance_id)
        if isinstance(member, ErrorCode):
            reply(SyncGroupResponse(error_code=member))
            return
        member.seen_ms = now_ms
        if request.generation_id != self.generation:
            reply(SyncGroupResponse(error_code=ErrorCode.ILLEGAL_GENERATION))
        elif self.state == "joining":
            reply(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        elif self.state == "stable":
            reply(SyncGroupResponse(assignment=member.assignment))
        else:
            member.sync = reply
            if request.member_id == self.leader:
                self._share_out(request)

    def _share_out(self, request: SyncGroupRequest) -> None:
        self.state = "stable"
        assigned = {item.member_id: item.assignment for item in request.assignments}
        for member_id, member in self.members.items():
            member.assignment = assigned.get(member_id, b"")
            if member.sync is not None:
                reply, member.sync = member.sync, None
                reply(SyncGroupResponse(assignment=member.assignment))

    def _beat(self, request: HeartbeatRequest, now_ms: int) -> ErrorCode:
        member = self._find(request.member_id, request.group_instance_id)
        if isinstance(member, ErrorCode):
            return member
        member.seen_ms = now_ms
        if request.generation_id != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        return ErrorCode.REBALANCE_IN_PROGRESS if self.state == "joining" else ErrorCode.NONE

    def _remove(self, member_id: str, now_ms: int) -> None:
        gone = self.members.pop(member_id)
        if gone.join is not None:
            gone.join(JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        if not self.members:
            self.state = "empty"
        else:
            self._begin_round(now_ms)


def _as_follower(answer: JoinGroupResponse, leader: str) -> JoinGroupResponse:
    """The answer of an old broker to a leader that takes its own place."""
    return JoinGroupResponse(
        generation_id=answer.generation_id,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name,
        leader=leader,
        member_id=answer.member_id,
        members=(),
    )
