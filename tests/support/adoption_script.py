"""Plays an adoption against answers of a coordinator that does what the test says."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from coordinator.interface.events import AdoptionMoved
from coordinator.interface.records import AdoptionState
from gateway.hosting.adoptable import snapshot
from gateway.hosting.adoption import Adopting
from gateway.hosting.adoption_steps import (
    Answered,
    Ask,
    Describe,
    Described,
    Drained,
    Effect,
    GaveUp,
    Hold,
    Input,
    Lane,
    MoveTimerFired,
    Stored,
    Unanswered,
)
from gateway.hosting.routes import GroupSituation
from gateway.hosting.states import AdoptionStage as Stage
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_codecs.join_group import JoinGroupMember, JoinGroupResponse
from kafka_codecs.leave_group import LeaveGroupResponse, MemberResponse
from kafka_codecs.sync_group import SyncGroupResponse
from tests.support.adoption import GUISE, NOW_MS, A, B, described, watched

ANCHOR = f"{GUISE.instance_id}-1"
ANNOUNCED = AdoptionState(group=snapshot(described(), watched()))
OK = HeartbeatResponse()
ROUND = HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)


def joined(
    generation: int,
    *there: str,
    member_id: str = A,
    leader: str | None = None,
    protocol: str = GUISE.protocol,
    **changes: Any,
) -> JoinGroupResponse:
    return JoinGroupResponse(
        generation_id=generation,
        protocol_type="consumer",
        protocol_name=protocol,
        leader=member_id if leader is None else leader,
        member_id=member_id,
        members=tuple(
            JoinGroupMember(member_id=each, metadata=b"") for each in there or (member_id,)
        ),
        **changes,
    )


def refused(code: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code)


def left(*codes: int) -> LeaveGroupResponse:
    members = tuple(
        MemberResponse(member_id="m", group_instance_id=None, error_code=code)
        for code in codes or (0,)
    )
    return LeaveGroupResponse(members=members)


@dataclass
class Script:
    """An adoption and its clock. `asked` has the newest outstanding request of each lane, and
    `beats` the members whose heartbeats are on their way."""

    adopting: Adopting
    now_ms: int = NOW_MS
    effects: list[Effect] = field(default_factory=list)
    asked: dict[Lane, Any] = field(default_factory=dict)
    beats: list[str] = field(default_factory=list)

    def start(self) -> None:
        self._note(self.adopting.start(self.now_ms))

    def feed(self, event: Input) -> None:
        self._note(self.adopting.handle(event, self.now_ms))

    def answer(self, lane: Lane, answer: Any) -> None:
        del self.asked[lane]
        self.feed(Answered(lane, answer))

    def beat(self, answer: Any = OK) -> None:
        """Answer the oldest heartbeat of a member."""
        del self.beats[0]
        self.feed(Answered(Lane.OTHERS, answer))

    def fail(self, lane: Lane) -> None:
        del self.asked[lane]
        self.feed(Unanswered(lane, "it is gone"))

    def wait(self, length_ms: int) -> None:
        """Let time pass, as far as the machine wants to be told."""
        end_ms = self.now_ms + length_ms
        for _ in range(100):
            at_ms = self.adopting.next_ms()
            if at_ms is None or at_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, at_ms)
            self.feed(MoveTimerFired())
        else:
            raise AssertionError("the machine asks for time again and again")
        self.now_ms = end_ms

    def is_at(self, stage: Stage) -> bool:
        return self.adopting.stage is stage

    def makes(self, situation: GroupSituation | None) -> bool:
        return self.adopting.situation is situation

    def took(self, kind: type[Any]) -> Any:
        """The newest effect, which has to be of this kind."""
        effect = self.effects.pop()
        assert isinstance(effect, kind), effect
        return effect

    def _note(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Ask) and self.is_at(Stage.IMPERSONATING):
                assert isinstance(effect.message, HeartbeatRequest)
                self.beats.append(effect.message.member_id)
            elif isinstance(effect, Ask):
                assert effect.lane not in self.asked, "two requests on one connection"
                self.asked[effect.lane] = effect.message
            else:
                self.effects.append(effect)

    # -- ways to a stage -------------------------------------------------------------------------

    def to_impersonating(self) -> None:
        self.start()
        for _ in range(2):
            self.took(Describe)
            self.feed(Described(described(), watched()))
        assert self.took(AdoptionMoved).adoption == ANNOUNCED
        self.feed(Stored())
        self.took(Hold)
        self.feed(Drained())

    def to_rejoining(self) -> None:
        self.to_impersonating()
        assert self.beats == [A, B]
        self.beat()
        self.beat()

    def to_releasing(self) -> None:
        self.to_rejoining()
        self.answer(Lane.OTHERS, ROUND)
        self.took(Describe)
        self.feed(Described(described(group_state="PreparingRebalance")))

    def to_locking(self) -> None:
        self.to_releasing()
        self.answer(Lane.OTHERS, left())
        self.answer(Lane.LEADER, joined(8))

    def to_anchoring(self) -> None:
        self.to_locking()
        self.answer(Lane.LEADER, joined(9))
        self.answer(Lane.LEADER, SyncGroupResponse())
        assert self.took(AdoptionMoved).adoption == replace(ANNOUNCED, lock_generation=9)
        self.feed(Stored())

    def to_handing_over(self) -> None:
        self.to_anchoring()
        self.answer(Lane.LEADER, ROUND)

    def gave_up_all(self) -> None:
        for member_id in (A, B):
            self.feed(GaveUp(member_id))
