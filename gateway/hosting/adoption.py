"""The adoption of one live group: it moves from the cluster's coordinator to this gateway, and its
members do not notice.

`gateway/docs/adoption.md` explains the steps and why they are safe. In short: no member may get the
members' partitions in the cluster while the members consume. So the leader's member stays in the
cluster's group until the anchor has come. As the leader it sees the other members, and assigns
nothing. Until it leaves, the adoption can be undone: it guards the group until every member has
given up what it held.
"""

from collections import deque
from collections.abc import Collection, Sequence
from typing import Any

from coordinator.interface.events import AdoptionEnded, AdoptionMoved, Request
from coordinator.interface.records import AdoptionState, ClassicGroupMember
from gateway.events import group_events
from gateway.hosting.adoptable import (
    HOSTED_ALREADY,
    describe_lack_of_room,
    is_promising,
    resumes_at,
    snapshot,
    why_not,
)
from gateway.hosting.adoptees import Adoptees, guards_session_ms, have_left
from gateway.hosting.effects import Ask, Describe, Hold, MoveStep, Requester
from gateway.hosting.group_parts import GroupParts
from gateway.hosting.holders import Holders
from gateway.hosting.identity import AnchorIds
from gateway.hosting.logged_engine import StepOfMove
from gateway.hosting.move_requests import AdoptionOutcome, AnyRequest
from gateway.hosting.moving import BACKOFF_MS, Moving
from gateway.hosting.pending_ids import REMEMBERED_MS, PendingIds
from gateway.hosting.recall import Recall
from gateway.hosting.routes import GroupSituation
from gateway.hosting.states import ADOPTION, AdoptionStage
from gateway.hosting.upstream_member import NOTHING, In, Joined, Meaning, Out, Refusal
from gateway.moves import check_move
from kafka_codecs.declaration import Struct
from kafka_codecs.describe_groups import DescribedGroup
from kafka_codecs.error_codes import ErrorCode, name_of
from kafka_codecs.heartbeat import HeartbeatResponse
from kafka_codecs.leave_group import LeaveGroupResponse

CONSIDER_EVERY_MS = 5_000
"""How often at most a forwarded group is considered for adoption."""
COMMITS_UNDER_WAY = "commits of the group are under way: try again"
REFUSED_FOR_MS = 10_000
"""How long a group is left alone after the cluster's description spoke against its adoption."""
UNDONE_FOR_MS, UNDONE_FOR_MS_MAX = 60_000, 900_000
"""How long a group is left alone after an adoption that was undone, which costs its members a
rebalance; doubles with each failure."""
AT_ONCE_MAX = 8
"""Groups that the gateway adopts by itself at a time. Each holds the calls of its clients."""
HOLD_MAX_MS = 2_000
"""How long calls are held before the adoption is undone. Shorter than the shortest session that
Kafka allows, so an outsider that begins to join cannot disappear again meanwhile."""
LOOK_AGAIN_MS = 10
"""The time between two heartbeats that wait for a JoinGroup to take effect."""
HEARTBEATS_AT_ONCE_MAX = 32
"""How many heartbeats of members may be on their way, so that the time for which calls are held
hardly depends on the number of members."""

Stage = AdoptionStage

_FORWARDED = (Stage.PROPOSED, Stage.CONFIRMING, Stage.ANNOUNCING, Stage.UNDONE)
_UNTOUCHED = (Stage.ANNOUNCING, Stage.IMPERSONATING)
"""The cluster's group is as it was."""
_BOUNDED = (Stage.IMPERSONATING, Stage.REJOINING, Stage.RELEASING, Stage.LOCKING, Stage.ANCHORING)
"""Undone if they take too long."""
_GUARDED = (*_BOUNDED[1:], Stage.HANDING_OVER)
_ENDING = (Stage.GIVING_BACK, Stage.FORGETTING, Stage.UNDONE, Stage.ADOPTED)
"""Answers of the coordinator do not advance the adoption any more."""


def may_consider(parts: GroupParts, now_ms: int) -> bool:
    """Whether the gateway may adopt the group by itself now, as far as the relayed requests tell.
    If so, it is not considered again for a while."""
    routing, rules = parts.routing, parts.rules
    if rules.is_removing or not routing.may_be_adopted(now_ms):
        return False
    routing.adopt_from_ms = now_ms + CONSIDER_EVERY_MS
    watched = rules.watched.group(parts.group_id)
    has_turn = len(rules.adopting) < AT_ONCE_MAX
    return has_turn and watched is not None and is_promising(watched, now_ms)


class Adopting(Moving):
    """One adoption, from the request to its end. Times are milliseconds."""

    why_busy = "it is being adopted: try again"
    why_ending = "the gateway is shutting down"
    why_forwarded = "it is about to be adopted"
    outcome_type = AdoptionOutcome

    def __init__(self, parts: GroupParts) -> None:
        super().__init__(parts)
        self.stage = Stage.PROPOSED
        self.reason = ""
        """Why the adoption was undone, for operators."""
        self.reasons: tuple[str, ...] = ()
        """Why the group could not be adopted at all, one by one."""
        self.held_ms = 0
        """How long calls were held. Final once the adoption has ended."""
        self._join_metadata = parts.rules.gateway.join_metadata
        self._adoption: AdoptionState | None = None
        self._is_resumed = False
        """Whether an earlier process began it, or this one before a bug."""
        self._held_from_ms: int | None = None
        self._first: tuple[DescribedGroup, int | None] | None = None
        """The group and its generation at the first of two looks, which have to agree."""
        self._unheard: deque[ClassicGroupMember] = deque()
        """The members whose heartbeats are still to be sent."""
        self._have_others_left = False
        self.anchor_ids: AnchorIds | None = None
        """What the engine takes over, once the anchor has completed its generation."""
        self._has_earlier_anchor = False
        """Whether an anchor was found after a restart, and may not have followed the lock."""
        self._needs_anchor = False
        """Whether only an anchor that the cluster has confirmed shows that the group is held."""
        self.recall: Recall | None = None
        """The members, while the group is given back."""
        self._are_all_leaving = False
        """Whether the LeaveGroup of all members is on its way."""
        self._paused_until_ms: int | None = None
        """When the next attempt is due, if the latest one was in vain."""

    # -- what the move asks ----------------------------------------------------------------------

    @property
    def situation(self) -> GroupSituation | None:
        """What it makes of the group; None once the group is hosted."""
        if self.stage in _FORWARDED:
            return GroupSituation.PROPOSED
        if self.stage is Stage.GIVING_BACK:
            return GroupSituation.RECALLED
        return None if self.stage is Stage.ADOPTED else GroupSituation.HELD

    @property
    def vouches(self) -> bool:
        """Whether heartbeats of the group's generation succeed while calls are held: the cluster
        has just confirmed every member, and the leader's member or the anchor guards the group.
        Before that, the cluster might remove a member that believes it is still in the group."""
        is_certain = not self._needs_anchor or self._anchor.ids is not None
        return self.stage in _GUARDED and is_certain

    def vouches_for(self, event: Request | None) -> bool:
        """Whether it is a heartbeat that succeeds while calls are held."""
        return self.vouches and self._adoptees.is_current(event)

    @property
    def is_over(self) -> bool:
        """Whether the adoption has ended, one way or the other."""
        return self.stage in (Stage.ADOPTED, Stage.UNDONE)

    @property
    def guard(self) -> AnchorIds | None:
        """The ids of the leader's member while it guards the group: members that are recalled can
        commit under them."""
        return None if self.recall is None else self._leader.ids

    @property
    def member_ids(self) -> Collection[str]:
        """The ids of the members that are adopted, once they are known."""
        return () if self._adoption is None else self._adoptees.by_id.keys()

    @property
    def _has_held(self) -> bool:
        """Whether calls were held, in this process or in an earlier one."""
        return self._is_resumed or self._held_from_ms is not None

    @property
    def is_hold_bounded(self) -> bool:
        """Whether the adoption is undone if calls are held for too long."""
        return self.stage in _BOUNDED

    def next_ms(self) -> int | None:
        """When `advance` is due; None while only an answer can change anything."""
        times_ms = [self._paused_until_ms]
        if self.recall is not None:
            times_ms = [self.recall.holders.next_ms(), self._guard_ms]
            if self._may_release_all and not self._asked_others:
                times_ms.append(self._paused_until_ms or 0)
        if self.is_hold_bounded and self._held_from_ms is not None:
            times_ms.append(self._held_from_ms + HOLD_MAX_MS)
        if self.stage is Stage.HANDING_OVER and isinstance(self._anchor.stage, In):
            times_ms.append(self._anchor.next_ms())
        return min((at_ms for at_ms in times_ms if at_ms is not None), default=None)

    # -- beginning and ending --------------------------------------------------------------------

    def begin(self, _requests: Sequence[AnyRequest], _now_ms: int) -> AdoptionOutcome | None:
        """Begin, or continue from what the log has. Returns the outcome if that is impossible."""
        parts, stored = self._parts, self._parts.engine.core.state.adoption
        if parts.engine.is_live or parts.anchor.is_here:
            return AdoptionOutcome.refuse(parts.group_id, HOSTED_ALREADY)
        if stored is None and parts.engine.core.state.commits:
            # If the answer to one is lost, the anchor has to join, and the adoption has its own.
            return AdoptionOutcome.refuse(parts.group_id, COMMITS_UNDER_WAY)
        if stored is not None:
            parts.log("warning", "adoption_resumed", is_locked=stored.lock_generation is not None)
            self.stage, self._is_resumed = Stage.RESUMING, True
            self._announce(stored)
        self.has_begun = True
        parts.rules.adopting.add(parts.group_id)
        return None

    def end(self, now_ms: int) -> AdoptionOutcome:
        """Have the engine serve the group, or leave it to the cluster again."""
        parts, routing = self._parts, self._parts.routing
        is_adopted = self.stage is Stage.ADOPTED
        self.abort()
        if is_adopted:
            assert self.anchor_ids is not None
            parts.anchor.take_over(self.anchor_ids, now_ms)
            routing.adopt(now_ms, self.anchor_ids.generation)
            parts.engine.report_snapshot(are_topics_known=False)
            parts.emit(group_events.GroupAdopted(held_ms=self.held_ms))
            if (watched := parts.rules.watched.group(parts.group_id)) is not None:
                parts.committed_on.take_over(watched.committed_on)
            parts.rules.watched.forget(parts.group_id)
        elif self._has_held:
            # A late request of the anchor may still have taken the group.
            routing.forget("its adoption was undone")
            routing.pending_ids = PendingIds()
            routing.pending_ids.end_at(now_ms + REMEMBERED_MS)
            parts.emit(group_events.AdoptionUndone(reason=self.reason, held_ms=self.held_ms))
            pause_ms = min(UNDONE_FOR_MS << routing.adoptions_undone, UNDONE_FOR_MS_MAX)
            routing.adopt_from_ms = now_ms + pause_ms
            routing.adoptions_undone += 1
        else:
            routing.adopt_from_ms = now_ms + REFUSED_FOR_MS
        return AdoptionOutcome(
            group_id=parts.group_id,
            is_adopted=is_adopted,
            reasons=() if is_adopted else self.reasons or (f"undone: {self.reason}",),
            held_ms=self.held_ms if self._has_held else None,
        )

    def abort(self) -> None:
        """Count no longer as under way."""
        self._parts.rules.adopting.discard(self._parts.group_id)

    # -- what happens ----------------------------------------------------------------------------

    def on_done(self, step: MoveStep, result: Any, now_ms: int) -> None:
        """Take the result of a step."""
        match step:
            case Describe():
                self._on_description(result, now_ms)
            case Hold():
                pass  # nothing that was relayed is under way any more
            case Ask(requester):
                self._on_answer(requester, result, now_ms)

    def on_stored(self, event: StepOfMove, *, is_durable: bool, now_ms: int) -> None:
        """The engine has decided on a record, and the log has it, or may not have it."""
        self._is_storing = False
        match event:
            case AdoptionEnded() if is_durable:
                self._move(Stage.ADOPTED, now_ms)
            case AdoptionMoved(adoption=None) if is_durable:
                self._move(Stage.UNDONE, now_ms)
            case AdoptionMoved() if is_durable:
                self._on_record(now_ms)
            case AdoptionMoved() if self.stage in (Stage.ANNOUNCING, Stage.LOCKING):
                self._fail("the state log failed", now_ms)
            case _:
                self._pause(BACKOFF_MS, now_ms)

    def advance(self, now_ms: int) -> None:
        """Do what is due."""
        began_ms = self._held_from_ms
        if self.is_hold_bounded and began_ms is not None and now_ms >= began_ms + HOLD_MAX_MS:
            self._fail(f"calls were held for {HOLD_MAX_MS} ms", now_ms)
        if self.recall is not None:
            self._keep_guard(self.recall, now_ms)
        if self.stage is Stage.HANDING_OVER:
            self._keep_anchor(now_ms)
        if self._paused_until_ms is not None and now_ms < self._paused_until_ms:
            return
        self._paused_until_ms = None
        match self.stage:
            case Stage.PROPOSED | Stage.CONFIRMING | Stage.RESUMING:
                self._describe()
            case Stage.IMPERSONATING if not self._count_awaited(Hold):
                self._impersonate(now_ms)
            case Stage.REJOINING:
                self._watch_others()
            case Stage.ANCHORING | Stage.HANDING_OVER:
                self._lead_anchor_in(now_ms)
                self._lead_leader_out(now_ms)
            case Stage.GIVING_BACK if self._may_release_all and not self._asked_others:
                members, locked = self._adoptees.group.members, self._is_locked
                self._are_all_leaving = True
                self._ask(Requester.OTHERS, self._adoptees.leave(members, with_anchor=locked))
            case Stage.FORGETTING:
                self._store_adoption(None)
            case _:
                pass

    # -- before anything is changed --------------------------------------------------------------

    def _on_description(self, group: DescribedGroup | None, now_ms: int) -> None:
        parts = self._parts
        if group is not None and self.stage is Stage.PROPOSED:
            parts.rules.watched.record_described(group)
        watched = parts.rules.watched.group(parts.group_id)
        if self.stage is Stage.RESUMING:
            self._resume(group, now_ms)
        elif self.stage is Stage.REJOINING:
            self._looked_before_release(group, now_ms)
        elif self.stage not in (Stage.PROPOSED, Stage.CONFIRMING):
            pass  # the description comes after the adoption was given up
        elif group is None or watched is None:
            self._refuse(("the cluster does not describe it",), now_ms)
        elif reasons := why_not(group, watched, parts.rules.config, now_ms):
            self._refuse(reasons, now_ms)
        elif self.stage is Stage.PROPOSED:
            self._first = group, watched.generation
            self._move(Stage.CONFIRMING, now_ms)
        elif self._first != (group, watched.generation):
            self._refuse(("it changed between two looks",), now_ms)
        else:
            self._announce(AdoptionState(group=snapshot(group, watched)))
            for member in watched.members.values():
                if member.joined_on is not None:
                    parts.joined_on.record((member.member_id,), member.joined_on)
            self._move(Stage.ANNOUNCING, now_ms)
            self._store_adoption(self._adoption)

    def _announce(self, adoption: AdoptionState) -> None:
        self._adoption = adoption
        self._adoptees = Adoptees(self._parts.group_id, adoption.group, self._join_metadata)
        self._leader, self._anchor = self._adoptees.leaders_member(), self._adoptees.anchor()

    def _refuse(self, reasons: tuple[str, ...], now_ms: int) -> None:
        self.reasons, self.reason = reasons, "; ".join(reasons)
        self._move(Stage.UNDONE, now_ms)

    def _on_record(self, now_ms: int) -> None:
        match self.stage:
            case Stage.ANNOUNCING:
                self._move(Stage.IMPERSONATING, now_ms)
                self._held_from_ms = now_ms
                members = self._adoptees.group.members
                self._unheard.extend(members)
                self._parts.emit(group_events.AdoptionStarted(members=len(members)))
                self._begin_step(Hold())
            case Stage.LOCKING:
                self._move(Stage.ANCHORING, now_ms)
            case _:
                pass  # the answer comes after the adoption was given up

    def _impersonate(self, now_ms: int) -> None:
        """A heartbeat of each member shows that the group is as it was described."""
        while self._unheard and self._asked_others < HEARTBEATS_AT_ONCE_MAX:
            self._ask(Requester.OTHERS, self._adoptees.beat(self._unheard.popleft()))
        if self._asked_others:
            return
        self._move(Stage.REJOINING, now_ms)
        self._rejoin(now_ms, names=self._adoptees.names)
        self._watch_others()

    def _rejoin(self, now_ms: int, *, names: Sequence[str]) -> None:
        member_id = self._adoptees.leader.member_id
        self._ask(Requester.LEADER, self._leader.join(now_ms, member_id=member_id, names=names))

    # -- the lock --------------------------------------------------------------------------------

    def _watch_others(self) -> None:
        """Find out whether the leader's member has begun a round: its JoinGroup is not answered,
        but heartbeats of another member show it."""
        if self._adoptees.others and not (self._count_awaited(Describe) or self._asked_others):
            self._ask(Requester.OTHERS, self._adoptees.beat(self._adoptees.others[0]))

    def _looked_before_release(self, group: DescribedGroup | None, now_ms: int) -> None:
        """Only the members are there, so it was the leader's JoinGroup that began the round. It has
        arrived, and no native consumer can convert the group any more."""
        there = set() if group is None else {member.member_id for member in group.members}
        if there != self._adoptees.by_id.keys():
            self._fail("another member has come", now_ms)
            return
        self._move(Stage.RELEASING, now_ms)
        self._ask(Requester.OTHERS, self._adoptees.leave(self._adoptees.others))

    def _on_leader(self, now_ms: int) -> None:
        """The coordinator has answered the leader's member, which joins to lock the group."""
        match self._leader.stage:
            case Joined() as joined if self.stage is Stage.LOCKING:
                if joined.is_alone and joined.round.protocol_name == self._join_metadata.protocol:
                    self._ask(Requester.LEADER, self._leader.sync({}, now_ms))
                else:
                    self._fail("another member has come", now_ms)
            case Joined() if self.stage is Stage.REJOINING and self._adoptees.others:
                self._fail("members have left meanwhile", now_ms)
            case Joined():
                if self._have_others_left or not self._adoptees.others:
                    self._lock(now_ms)
            case In(ids=ids):
                self._store_lock(ids.generation)
            case Out(refusal=Refusal() as refusal):
                reason = f"the leader's {refusal.api}: {name_of(refusal.code)}"
                if refusal.code == ErrorCode.INVALID_SESSION_TIMEOUT:
                    needed_ms = guards_session_ms(self._adoptees.group)
                    reason = f"{reason}: {describe_lack_of_room(needed_ms)}"
                if self.stage is Stage.REJOINING and refusal.meaning is not Meaning.HINDERED:
                    self.reason = reason  # refused right away, so nothing has changed
                    self._move(Stage.FORGETTING, now_ms)
                else:
                    self._fail(reason, now_ms)
            case stage:
                raise AssertionError(f"{stage} is no answer")

    def _lock(self, now_ms: int) -> None:
        """The others have left, and the leader's member leads a round. Is it alone?"""
        joined = self._leader.stage
        if isinstance(joined, Joined) and joined.is_alone:
            self._move(Stage.LOCKING, now_ms)
            self._rejoin(now_ms, names=())
        else:
            self._fail("another member has come", now_ms)

    def _store_lock(self, generation: int) -> None:
        assert self._adoption is not None
        self._adoption = AdoptionState(group=self._adoption.group, lock_generation=generation)
        self._store_adoption(self._adoption)

    # -- the anchor ------------------------------------------------------------------------------

    def _lead_leader_out(self, now_ms: int) -> None:
        """Have the leader's member leave once a round has begun without it: then the anchor waits
        in the group."""
        match self._leader.stage:
            case In(asked_ms=None):
                self._ask(Requester.LEADER, self._leader.beat(now_ms))
            case Out(is_certain=False, awaits_answer=False):
                self._ask(Requester.LEADER, self._leader.leave(self._locked_ids))
            case _:
                pass

    def _on_locked_leader(self, now_ms: int) -> None:
        """The coordinator has answered the leader's member, which waits for the anchor."""
        match self.stage, self._leader.stage:
            case Stage.ANCHORING, Out(refusal=Refusal(code=ErrorCode.REBALANCE_IN_PROGRESS)):
                self._move(Stage.HANDING_OVER, now_ms)
            case Stage.HANDING_OVER, Out(refusal=Refusal(meaning=Meaning.UNUSABLE)):
                self._pause(BACKOFF_MS, now_ms)  # it could not leave
            case Stage.HANDING_OVER, Out():
                pass
            case stage, In(refusal=refusal) if refusal is None or stage is Stage.HANDING_OVER:
                self._pause(LOOK_AGAIN_MS, now_ms)
            case _, In(refusal=Refusal(code=code)) | Out(refusal=Refusal(code=code)):
                self._fail(f"the leader's Heartbeat: {name_of(code)}", now_ms)
            case _, stage:
                raise AssertionError(f"{stage} is no answer")

    def _keep_anchor(self, now_ms: int) -> None:
        match self._anchor.stage:
            case In(asked_ms=None, beat_at_ms=at_ms) if now_ms >= at_ms:
                self._ask(Requester.ANCHOR, self._anchor.beat(now_ms))
            case _:
                pass

    def _lead_anchor_in(self, now_ms: int) -> None:
        """Have the anchor join. Once it is alone in the group, the engine takes over."""
        match self._anchor.stage:
            case Out() if self.anchor_ids is None:
                self._ask(Requester.ANCHOR, self._anchor.join(now_ms))
            case _ if self.anchor_ids is not None and not self._is_storing:
                if isinstance(self._leader.stage, Out) and self._leader.stage.is_certain:
                    self._store(AdoptionEnded())
            case _:
                pass

    def _on_anchor(self, now_ms: int) -> None:
        """The coordinator has answered the anchor."""
        match self._anchor.stage:
            case Joined() as joined if not self._is_successor(joined):
                self._fail("others may have had the group while the gateway was away", now_ms)
            case Joined() as joined if joined.is_alone:
                if self.stage is Stage.ANCHORING:  # the leader's member has gone by itself
                    self._move(Stage.HANDING_OVER, now_ms)
                self._ask(
                    Requester.ANCHOR, self._anchor.sync({joined.round.member_id: NOTHING}, now_ms)
                )
            case Joined():
                self._fail("the anchor is not alone in the group", now_ms)
            case In(ids=ids):
                self.anchor_ids, self._needs_anchor = ids, True
            case Out() if self.anchor_ids is not None:
                pass  # the engine takes over, and its anchor finds out who has the group
            case Out(refusal=Refusal(api="JoinGroup", code=code) as refusal) if (
                refusal.meaning is not Meaning.HINDERED
            ):
                self._fail(f"the anchor's JoinGroup: {name_of(code)}", now_ms)
            case _:
                self._pause(LOOK_AGAIN_MS, now_ms)

    def _is_successor(self, joined: Joined) -> bool:
        """Whether an anchor that was found there after a restart followed the locked round
        immediately. Otherwise others may have had the group in between."""
        has_earlier_anchor, self._has_earlier_anchor = self._has_earlier_anchor, False
        return not has_earlier_anchor or joined.since == self._locked_ids.generation + 1

    # -- after a restart -------------------------------------------------------------------------

    def _resume(self, group: DescribedGroup | None, now_ms: int) -> None:
        """Continue if the group was locked: only then is it certain that no other gateway had
        it."""
        assert self._adoption is not None
        if group is None:
            self._pause(BACKOFF_MS, now_ms)
            return
        self._held_from_ms = now_ms
        match resumes_at(self._adoption, group, self._join_metadata):
            case Stage.GIVING_BACK:
                self._fail("the gateway was restarted", now_ms)
            case stage:
                self._has_earlier_anchor = self._needs_anchor = stage is Stage.HANDING_OVER
                if stage is Stage.ANCHORING:
                    self._leader.take_place(self._locked_ids, now_ms)
                self._move(stage, now_ms)

    # -- undoing it ------------------------------------------------------------------------------

    def _fail(self, reason: str, now_ms: int) -> None:
        """Undo the adoption."""
        self.reason = reason
        if self.stage in _UNTOUCHED:
            self._move(Stage.FORGETTING, now_ms)
            return
        self._move(Stage.GIVING_BACK, now_ms)
        assert self._adoption is not None
        if self._is_resumed and isinstance(self._leader.stage, In):
            # Commits in this generation may still be on their way. They are void in the next one.
            self._leader.give_up(Refusal(Meaning.UNUSABLE, reason), now_ms)
        group = self._adoption.group
        self.recall = Recall(
            self._parts.group_id,
            group,
            self._parts.config,
            Holders(group.members, now_ms, self._parts.engine.grace),
            leads_rounds=True,
            has_all_members=False,
        )

    @property
    def _is_locked(self) -> bool:
        """Whether an anchor in the group is ours. It joins only a locked group; before, it may be
        another gateway's."""
        return self._adoption is not None and self._adoption.lock_generation is not None

    @property
    def _has_to_guard(self) -> bool:
        """Whether a member may hold something, or the anchor may still join."""
        return bool(self.recall and self.recall.holders) or self._anchor.awaits_answer

    @property
    def _may_release_all(self) -> bool:
        return not (self._has_to_guard or self._are_all_leaving)

    @property
    def _guard_ms(self) -> int | None:
        """When the guard has something to do. Once it was removed, it is not missed: its client has
        come back under another id, or its session is over."""
        match self._leader.stage:
            case Out(refusal=Refusal(meaning=Meaning.GONE)):
                return None
            case _:
                return self._leader.next_ms() if self._has_to_guard else None

    def _keep_guard(self, recall: Recall, now_ms: int) -> None:
        """Have the leader's member, the guard, lead every round and assign nothing to outsiders,
        until no member can hold a partition any more. Then all former members leave, so that
        requests that are still on their way are void."""
        recall.give_up_overdue(now_ms)
        if (guard_ms := self._guard_ms) is None or now_ms < guard_ms:
            return
        match self._leader.stage:
            case Joined() as joined:
                nothing = dict.fromkeys(joined.others, NOTHING)
                self._ask(Requester.LEADER, self._leader.sync(nothing, now_ms))
            case In():
                self._ask(Requester.LEADER, self._leader.beat(now_ms))
            case _:
                self._rejoin(now_ms, names=self._adoptees.names)

    def _on_all_left(self, answer: Struct | None, now_ms: int) -> None:
        """The LeaveGroup of all members was answered, or was not."""
        self._are_all_leaving = False
        if isinstance(answer, LeaveGroupResponse) and have_left(answer):
            self.recall = None
            self._move(Stage.FORGETTING, now_ms)
        else:
            self._pause(BACKOFF_MS, now_ms)

    # -- answers of the coordinator --------------------------------------------------------------

    def _on_answer(self, requester: Requester, answer: Struct, now_ms: int) -> None:
        is_going_on = self.stage not in _ENDING
        if requester is Requester.OTHERS:
            if self._are_all_leaving:
                self._on_all_left(answer, now_ms)
            elif is_going_on:
                self._on_others(answer, now_ms)
            return
        member = self._leader if requester is Requester.LEADER else self._anchor
        request = member.on_answer(answer, now_ms)
        if request is not None and is_going_on:
            self._ask(requester, request)
        elif request is not None:
            member.on_no_answer("the adoption was given up", now_ms)
        elif is_going_on and requester is Requester.ANCHOR:
            self._on_anchor(now_ms)
        elif is_going_on and self.stage in (Stage.ANCHORING, Stage.HANDING_OVER):
            self._on_locked_leader(now_ms)
        elif is_going_on:
            self._on_leader(now_ms)

    def _on_others(self, answer: Struct, now_ms: int) -> None:
        """The coordinator has answered a heartbeat of a member, or the leave of all but one."""
        match answer:
            case LeaveGroupResponse():
                self._have_others_left = have_left(answer)
                if not self._have_others_left:
                    self._fail("not all members could leave", now_ms)
                elif isinstance(self._leader.stage, Joined):
                    self._lock(now_ms)
            case HeartbeatResponse(error_code=ErrorCode.NONE):
                if self.stage is Stage.REJOINING:
                    self._pause(LOOK_AGAIN_MS, now_ms)
            case HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS) if (
                self.stage is Stage.REJOINING
            ):
                self._describe()
            case HeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED):
                self._fail("the gateway's user may not read the group: grant it READ", now_ms)
            case HeartbeatResponse(error_code=code):
                self._fail(f"a member's heartbeat: {name_of(code)}", now_ms)
            case _:
                raise TypeError(f"{type(answer).__name__} is no such answer")

    def on_failed(self, step: MoveStep, reason: str, now_ms: int) -> None:
        """The cluster has not described the group, or has not answered a request, which may have
        been carried out, or be carried out later."""
        if not isinstance(step, Ask):
            self.on_done(step, None, now_ms)
            return
        requester = step.requester
        if requester is not Requester.OTHERS:
            member = self._leader if requester is Requester.LEADER else self._anchor
            member.on_no_answer(reason, now_ms)
        if requester is Requester.OTHERS and self._are_all_leaving:
            self._on_all_left(None, now_ms)
        elif self.stage is Stage.HANDING_OVER:
            # Another coordinator may have loaded the locked group: the leader's member is in it
            # alone, and must not leave before the anchor waits there, too.
            self._needs_anchor = True
            if self.anchor_ids is None and not self._leader.awaits_answer:
                self._leader.take_place(self._locked_ids, now_ms)
            self._pause(BACKOFF_MS, now_ms)
        elif self.stage not in _ENDING:
            self._fail(f"the coordinator did not answer: {reason}", now_ms)

    # -- small things ----------------------------------------------------------------------------

    @property
    def _locked_ids(self) -> AnchorIds:
        """The ids of the leader's member since the lock."""
        locked = self._adoption.lock_generation if self._adoption else None
        assert locked is not None
        return self._adoptees.leaders_ids(locked)

    @property
    def _asked_others(self) -> int:
        """How many requests about other members than the leader's and the anchor are under way."""
        return self._count_awaited(Ask, Requester.OTHERS)

    def _describe(self) -> None:
        if not self._count_awaited(Describe):
            self._begin_step(Describe())

    def _store_adoption(self, adoption: AdoptionState | None) -> None:
        if not self._is_storing:
            self._store(AdoptionMoved(adoption=adoption))

    def _pause(self, length_ms: int, now_ms: int) -> None:
        self._paused_until_ms = now_ms + length_ms

    def _move(self, stage: Stage, now_ms: int) -> None:
        self.stage = check_move(ADOPTION, self.stage, stage)
        self._paused_until_ms = None
        if self._held_from_ms is not None:
            self.held_ms = now_ms - self._held_from_ms
