"""Plays an adoption against answers of a coordinator that does what the test says."""

from dataclasses import replace
from typing import Any

from coordinator.interface.events import AdoptionMoved
from coordinator.interface.records import AdoptionRecord, AdoptionState
from gateway.hosting.adoptable import snapshot
from gateway.hosting.adoption import Adopting
from gateway.hosting.effects import Ask, Describe, Hold, MoveStep, Requester
from gateway.hosting.forwarded import WatchedGroup
from gateway.hosting.logged_engine import StepOfMove
from gateway.hosting.recall import Recall
from gateway.hosting.routes import GroupSituation
from gateway.hosting.states import AdoptionStage as Stage
from kafka_codecs.describe_groups import DescribedGroup
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_codecs.join_group import JoinGroupMember, JoinGroupResponse
from kafka_codecs.leave_group import LeaveGroupResponse, MemberResponse
from kafka_codecs.sync_group import SyncGroupResponse
from tests.gateway.hosting.move_parts import move_parts
from tests.support.adoption import (
    GATEWAY,
    GROUP,
    JOIN_METADATA,
    NOW_MS,
    A,
    B,
    cluster_description,
    watched_group,
)

ANCHOR = f"{JOIN_METADATA.instance_id}-1"
ANNOUNCED = AdoptionState(group=snapshot(cluster_description(), watched_group()))
OK = HeartbeatResponse()
ROUND = HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)


def join_response(
    generation: int,
    *there: str,
    member_id: str = A,
    leader: str | None = None,
    protocol: str = JOIN_METADATA.protocol,
    **changes: Any,
) -> JoinGroupResponse:
    return JoinGroupResponse(
        generation_id=generation,
        protocol_type="consumer",
        protocol_name=protocol,
        leader=member_id if leader is None else leader,
        member_id=member_id,
        members=tuple(
            JoinGroupMember(member_id=there_id, metadata=b"") for there_id in there or (member_id,)
        ),
        **changes,
    )


def join_refusal(code: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code)


def leave_response(*codes: int) -> LeaveGroupResponse:
    members = tuple(
        MemberResponse(member_id="m", group_instance_id=None, error_code=code)
        for code in codes or (0,)
    )
    return LeaveGroupResponse(members=members)


class Script:
    """An adoption and its clock. `asked` has the newest outstanding request of each requester, and
    `beats` the members whose heartbeats are on their way."""

    def __init__(self, stored: AdoptionState | None = None) -> None:
        """`stored`: what the log has of an adoption."""
        records = [] if stored is None else [AdoptionRecord(value=stored)]
        self.parts = move_parts(GROUP, GATEWAY, *records)
        self.adopting = Adopting(self.parts)
        self.now_ms = NOW_MS
        self.effects: list[Any] = []
        self.asked: dict[Requester, Any] = {}
        self.beats: list[str] = []
        self._watched: WatchedGroup | None = None
        self._latest: StepOfMove | None = None
        self.parts.rules.watched.group = self._watched_group  # type: ignore[method-assign]

    def _watched_group(self, group_id: str) -> WatchedGroup | None:
        assert group_id == GROUP
        return self._watched

    def start(self) -> None:
        assert self.adopting.begin((), self.now_ms) is None
        self.advance()

    def advance(self) -> None:
        self.adopting.advance(self.now_ms)
        self._record()

    def describe(self, group: DescribedGroup | None, watched: WatchedGroup | None = None) -> None:
        """The cluster describes the group; `watched` is known from relayed requests."""
        self._watched = watched
        self.adopting.on_done(self._end_step(Describe), group, self.now_ms)
        self.advance()

    def drain(self) -> None:
        self.adopting.on_done(self._end_step(Hold), None, self.now_ms)
        self.advance()

    def store(self, *, is_durable: bool = True) -> None:
        """The log has the latest record, or not."""
        assert self._latest is not None
        self.adopting.on_stored(self._latest, is_durable=is_durable, now_ms=self.now_ms)
        self.advance()

    @property
    def recall(self) -> Recall:
        assert self.adopting.recall is not None
        return self.adopting.recall

    def see(self, member_id: str) -> None:
        self.recall.holders.mark_seen(member_id, self.now_ms)
        self.advance()

    def give_up(self, member_id: str) -> None:
        self.recall.let_go(member_id)
        self.advance()

    def answer(self, requester: Requester, answer: Any) -> None:
        self.adopting.on_done(self._end_request(requester), answer, self.now_ms)
        self.advance()

    def beat(self, answer: Any = OK) -> None:
        """Answer the oldest heartbeat of a member."""
        del self.beats[0]
        step = self._end_step(Ask, Requester.OTHERS)
        self.adopting.on_done(step, answer, self.now_ms)
        self.advance()

    def fail(self, requester: Requester) -> None:
        self.adopting.on_failed(self._end_request(requester), "it is gone", self.now_ms)
        self.advance()

    def _end_request(self, requester: Requester) -> MoveStep:
        del self.asked[requester]
        return self._end_step(Ask, requester)

    def _end_step(self, kind: type[MoveStep], requester: Requester | None = None) -> MoveStep:
        """Take the oldest such step out, as the move does when the result is here."""
        step = next(
            step
            for step in self.adopting.steps
            if isinstance(step, kind) and getattr(step, "requester", None) is requester
        )
        self.adopting.steps.remove(step)
        return step

    def wait(self, length_ms: int) -> None:
        """Let time pass, as far as the machine wants to be told."""
        end_ms = self.now_ms + length_ms
        for _ in range(100):
            at_ms = self.adopting.next_ms()
            if at_ms is None or at_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, at_ms)
            self.advance()
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

    def _record(self) -> None:
        for effect in self.parts.take():
            if isinstance(effect, StepOfMove):
                self._latest = effect
            if (
                isinstance(effect, Ask)
                and isinstance(effect.message, HeartbeatRequest)
                and (self.is_at(Stage.IMPERSONATING))
            ):
                self.beats.append(effect.message.member_id)
            elif isinstance(effect, Ask):
                assert effect.requester not in self.asked, "two requests on one connection"
                self.asked[effect.requester] = effect.message
            else:
                self.effects.append(effect)

    # -- ways to a stage -------------------------------------------------------------------------

    def to_impersonating(self) -> None:
        self.start()
        for _ in range(2):
            self.took(Describe)
            self.describe(cluster_description(), watched_group())
        assert self.took(AdoptionMoved).adoption == ANNOUNCED
        self.store()
        self.took(Hold)
        self.drain()

    def to_rejoining(self) -> None:
        self.to_impersonating()
        assert self.beats == [A, B]
        self.beat()
        self.beat()

    def to_releasing(self) -> None:
        self.to_rejoining()
        self.answer(Requester.OTHERS, ROUND)
        self.took(Describe)
        self.describe(cluster_description(group_state="PreparingRebalance"))

    def to_locking(self) -> None:
        self.to_releasing()
        self.answer(Requester.OTHERS, leave_response())
        self.answer(Requester.LEADER, join_response(8))

    def to_anchoring(self) -> None:
        self.to_locking()
        self.answer(Requester.LEADER, join_response(9))
        self.answer(Requester.LEADER, SyncGroupResponse())
        assert self.took(AdoptionMoved).adoption == replace(ANNOUNCED, lock_generation=9)
        self.store()

    def to_handing_over(self) -> None:
        self.to_anchoring()
        self.answer(Requester.LEADER, ROUND)

    def gave_up_all(self) -> None:
        for member_id in (A, B):
            self.give_up(member_id)
