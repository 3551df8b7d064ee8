"""The adoption of one live group: it moves from the cluster's coordinator to this gateway, and its
members do not notice.

`gateway/docs/adoption.md` explains the steps and why they are safe. In short: nobody may get the
members' partitions in the cluster while the members consume. So the leader's member stays in the
cluster's group until the anchor has come. As the leader it sees whoever else is there, and assigns
nothing. Until it leaves, the adoption can be undone: it guards the group until every member has
given up what it held.
"""

from collections import deque
from collections.abc import Container, Sequence

from coordinator.interface.config import GroupConfig
from coordinator.interface.records import Adoption, ClassicGroupMember
from gateway.hosting.adoptable import resumes_at, snapshot, why_not
from gateway.hosting.adoption_requests import BACKOFF_MS, GONE, Requests, have_left, is_alone
from gateway.hosting.adoption_steps import (
    Answered,
    Describe,
    Described,
    Drained,
    Effect,
    GaveUp,
    Heard,
    Hold,
    Input,
    Lane,
    Store,
    Stored,
    StoreFailed,
    TakeOver,
    TakeOverFailed,
    TimePassed,
    TookOver,
    Treatment,
    Unanswered,
)
from gateway.hosting.forwarded import WatchedGroup
from gateway.hosting.giving_back import HEARTBEAT_INTERVAL_MS, GivingBack
from gateway.hosting.grace import Grace
from gateway.hosting.holders import Holders
from gateway.hosting.identity import AnchorIds, Guise
from gateway.hosting.lanes import Lanes
from gateway.hosting.states import ADOPTION, AdoptionStage
from gateway.moves import moved
from kafka_codecs.declaration import Struct
from kafka_codecs.describe_groups import DescribedGroup
from kafka_codecs.error_codes import ErrorCode, name_of
from kafka_codecs.heartbeat import HeartbeatResponse
from kafka_codecs.join_group import JoinGroupRequest, JoinGroupResponse
from kafka_codecs.leave_group import LeaveGroupResponse
from kafka_codecs.sync_group import SyncGroupResponse

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
_ENDING = (Stage.FORGETTING, Stage.UNDONE, Stage.ADOPTED)
"""Answers of the coordinator change nothing any more."""
_PASSING_ERRORS = (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.REBALANCE_IN_PROGRESS)
"""Kafka 4 answers the anchor's JoinGroup with these after a native consumer has tried to join. A
later one may succeed."""


class Adopting:
    """One adoption, from the proposal to its end. Times are milliseconds."""

    def __init__(
        self,
        group_id: str,
        guise: Guise,
        config: GroupConfig,
        *,
        grace: Grace,
        found: Adoption | None = None,
    ) -> None:
        """`guise`: what the anchor joins as. `found`: the log's record of an adoption that a killed
        process began. `grace`: what the members get if the adoption is undone."""
        self.stage = Stage.PROPOSED if found is None else Stage.RESUMING
        self.why = ""
        """Why the adoption was undone, for operators."""
        self.reasons: tuple[str, ...] = ()
        """Why the group could not be adopted at all, one by one."""
        self.held_ms = 0
        """For how long calls were held. Final once the adoption has ended."""
        self._group_id, self._guise, self._config = group_id, guise, config
        self._grace = grace
        self._announce(found)
        self._effects: list[Effect] = []
        self._lanes = Lanes()
        self._is_storing = self._is_erasing = False
        self._is_describing = self._is_drained = False
        self._held_from_ms: int | None = None
        self._first: DescribedGroup | None = None
        self._generation_at_first: int | None = None
        """The group and its generation at the first of two looks, which have to agree."""
        self._unheard: deque[ClassicGroupMember] = deque()
        """The members whose heartbeats are still to be sent."""
        self._has_witness = False
        """Whether a heartbeat has shown that the round which the JoinGroup began is under way."""
        self._have_others_left = False
        self._round: JoinGroupResponse | None = None
        """The round that the leader's member leads."""
        self._has_left = False
        """Whether the leader's member has left, as the last one."""
        self._anchor: AnchorIds | None = None
        self._is_anchor_stable = self._is_taking_over = False
        self._has_resumed = False
        """Whether an anchor was found after a restart, and may not have followed the lock."""
        self._is_hold_in_doubt = False
        """Whether the anchor may have lost the group, or never got it."""
        self._anchor_due_ms = 0
        self._has_synced = False
        """Whether the leader's member has completed that round."""
        self._giving_back: GivingBack | None = None
        """While the stage is GivingBack."""
        self._not_before_ms = 0

    # -- what the driver asks --------------------------------------------------------------------

    @property
    def treatment(self) -> Treatment:
        """What becomes of the requests of clients."""
        if self.stage in _FORWARDED:
            return Treatment.FORWARDED
        if self.stage is Stage.GIVING_BACK:
            return Treatment.RECALLED
        return Treatment.HOSTED if self.stage is Stage.ADOPTED else Treatment.HELD

    @property
    def vouches(self) -> bool:
        """Whether heartbeats of the group's generation succeed while calls are held: the cluster
        has just confirmed every member, and the leader's member or the anchor guards the group.
        Before that, the cluster might remove a member that believes it is still in the group."""
        is_certain = not (self._has_resumed or self._is_hold_in_doubt)
        return self.stage in _GUARDED and is_certain

    @property
    def is_over(self) -> bool:
        """Whether the adoption has ended, one way or the other."""
        return self.stage in (Stage.ADOPTED, Stage.UNDONE)

    @property
    def guard(self) -> AnchorIds | None:
        """The ids of the leader's member while it guards the group: members that are recalled can
        commit under them."""
        return None if self._giving_back is None else self._giving_back.guard

    @property
    def holders(self) -> Container[str]:
        """The members that may still hold partitions while the group is given back."""
        return () if self._giving_back is None else self._giving_back.holders

    @property
    def is_hold_bounded(self) -> bool:
        """Whether the adoption is undone if calls are held for too long."""
        return self.stage in _BOUNDED

    def next_ms(self) -> int | None:
        """When to handle `TimePassed` next; None while only an answer can change anything."""
        if self._giving_back is not None:
            return self._giving_back.next_ms()
        times = []
        if self.is_hold_bounded and self._held_from_ms is not None:
            times.append(self._held_from_ms + HOLD_MAX_MS)
        if self._keeps_anchor:
            times.append(self._anchor_due_ms)
        if self._waits_for_time:
            times.append(self._not_before_ms)
        return min(times, default=None)

    @property
    def _waits_for_time(self) -> bool:
        """Whether something is due that no outstanding answer brings about."""
        is_free = Lane.OTHERS not in self._lanes
        is_anchor_free = Lane.ANCHOR not in self._lanes
        match self.stage:
            case Stage.REJOINING:
                return is_free and bool(self._requests.others) and not self._has_witness
            case Stage.ANCHORING:
                return is_anchor_free or (is_free and not self._has_witness)
            case Stage.HANDING_OVER:
                is_anchor_done = self._is_anchor_stable and not self._has_left
                is_due = not (self._is_taking_over or is_anchor_done)
                return (is_anchor_free and is_due) or (is_free and not self._has_left)
            case Stage.RESUMING:
                return not self._is_describing
            case Stage.FORGETTING:
                return not self._is_storing
            case _:
                return False

    # -- what happens ----------------------------------------------------------------------------

    def start(self, now_ms: int) -> Sequence[Effect]:
        """Begin. Returns what the driver has to do."""
        return self.handle(TimePassed(), now_ms)

    def handle(self, event: Input, now_ms: int) -> Sequence[Effect]:
        """Take note of what has happened. Returns what the driver has to do."""
        match event:
            case Described(group, watched):
                self._is_describing = False
                self._described(group, watched, now_ms)
            case Stored():
                self._is_storing = False
                self._stored(now_ms)
            case StoreFailed(why):
                self._is_storing = False
                self._store_failed(why, now_ms)
            case Drained():
                self._is_drained = True
            case Answered(lane, answer):
                self._answered(lane, self._lanes.take(lane), answer, now_ms)
            case Unanswered(lane, why):
                self._lanes.take(lane)
                self._unanswered(lane, why, now_ms)
            case Heard(member_id) if self._giving_back is not None:
                self._giving_back.heard(member_id, now_ms)
            case GaveUp(member_id) if self._giving_back is not None:
                self._giving_back.gave_up(member_id, now_ms)
            case TookOver():
                self._move(Stage.ADOPTED, now_ms)
            case TakeOverFailed():
                self._is_taking_over = False
                self._not_before_ms = now_ms + BACKOFF_MS
            case _:
                pass
        self._lose_patience(now_ms)
        self._advance(now_ms)
        effects = tuple(self._effects)
        self._effects.clear()
        return effects

    def _lose_patience(self, now_ms: int) -> None:
        began_ms = self._held_from_ms
        if self.is_hold_bounded and began_ms is not None and now_ms >= began_ms + HOLD_MAX_MS:
            self._fail(f"calls were held for {HOLD_MAX_MS} ms", now_ms)

    def _advance(self, now_ms: int) -> None:
        """Do what is due."""
        if self._giving_back is not None:
            self._giving_back.advance(now_ms)
            return
        match self.stage:
            case Stage.PROPOSED | Stage.CONFIRMING:
                self._describe()
            case Stage.RESUMING if now_ms >= self._not_before_ms:
                self._describe()
            case Stage.IMPERSONATING if self._is_drained:
                self._impersonate(now_ms)
            case Stage.REJOINING if self._requests.others and not self._has_witness:
                self._watch_for_round(self._requests.others[0], self._generation, now_ms)
            case Stage.ANCHORING:
                if Lane.ANCHOR not in self._lanes and now_ms >= self._not_before_ms:
                    self._ask(Lane.ANCHOR, self._requests.join_anchor(""))
                self._watch_for_round(self._requests.leader, self._locked_generation, now_ms)
            case Stage.HANDING_OVER:
                self._hand_over(now_ms)
            case Stage.FORGETTING if now_ms >= self._not_before_ms:
                self._store(None)
            case _:
                pass

    # -- before anything is changed --------------------------------------------------------------

    def _described(
        self, group: DescribedGroup | None, watched: WatchedGroup | None, now_ms: int
    ) -> None:
        if self.stage is Stage.RESUMING:
            self._resumed(group, now_ms)
        elif self.stage is Stage.REJOINING:
            self._looked_before_release(group, now_ms)
        elif self.stage not in (Stage.PROPOSED, Stage.CONFIRMING):
            pass  # the description comes after the adoption was given up
        elif group is None or watched is None:
            self._refuse(("the cluster does not describe it",), now_ms)
        elif reasons := why_not(group, watched, self._config, now_ms):
            self._refuse(reasons, now_ms)
        elif self.stage is Stage.PROPOSED:
            self._first, self._generation_at_first = group, watched.generation
            self._move(Stage.CONFIRMING, now_ms)
        elif (group, watched.generation) != (self._first, self._generation_at_first):
            self._refuse(("it changed between two looks",), now_ms)
        else:
            self._announce(Adoption(group=snapshot(group, watched)))
            self._move(Stage.ANNOUNCING, now_ms)
            self._store(self._adoption)

    def _announce(self, adoption: Adoption | None) -> None:
        self._adoption = adoption
        if adoption is not None:
            self._requests = Requests(self._group_id, adoption.group, self._guise)

    def _refuse(self, reasons: tuple[str, ...], now_ms: int) -> None:
        self.reasons, self.why = reasons, "; ".join(reasons)
        self._move(Stage.UNDONE, now_ms)

    def _stored(self, now_ms: int) -> None:
        match self.stage:
            case Stage.ANNOUNCING:
                self._move(Stage.IMPERSONATING, now_ms)
                self._held_from_ms = now_ms
                self._unheard.extend(self._requests.group.members)
                self._effects.append(Hold())
            case Stage.LOCKING:
                self._move(Stage.ANCHORING, now_ms)
                self._has_witness = False
            case Stage.FORGETTING if self._is_erasing:
                self._move(Stage.UNDONE, now_ms)
            case _:
                pass  # the answer comes after the adoption was given up

    def _store_failed(self, why: str, now_ms: int) -> None:
        if self.stage is Stage.FORGETTING:
            self._not_before_ms = now_ms + BACKOFF_MS
        elif self.stage in (Stage.ANNOUNCING, Stage.LOCKING):
            self._fail(f"the log failed: {why}", now_ms)

    def _impersonate(self, now_ms: int) -> None:
        """A heartbeat of each member shows that the group is as it was described."""
        while self._unheard and self._lanes.count(Lane.OTHERS) < HEARTBEATS_AT_ONCE_MAX:
            member = self._unheard.popleft()
            self._ask(Lane.OTHERS, self._requests.beat(member, self._generation))
        if Lane.OTHERS in self._lanes:
            return
        self._move(Stage.REJOINING, now_ms)
        self._ask(Lane.LEADER, self._requests.rejoin(is_locked=False))
        if self._requests.others:
            self._watch_for_round(self._requests.others[0], self._generation, now_ms)

    # -- the lock --------------------------------------------------------------------------------

    def _watch_for_round(self, member: ClassicGroupMember, generation: int, now_ms: int) -> None:
        """A parked JoinGroup is not answered, but it begins a round, which heartbeats show."""
        if not (self._has_witness or Lane.OTHERS in self._lanes or now_ms < self._not_before_ms):
            self._ask(Lane.OTHERS, self._requests.beat(member, generation))

    def _looked_before_release(self, group: DescribedGroup | None, now_ms: int) -> None:
        """Nobody but the members is there, so it was the leader's JoinGroup that began the round.
        It has arrived, and no native consumer can convert the group any more."""
        there = set() if group is None else {each.member_id for each in group.members}
        if there != {member.member_id for member in self._requests.group.members}:
            self._fail("another member has come", now_ms)
            return
        self._move(Stage.RELEASING, now_ms)
        self._ask(Lane.OTHERS, self._requests.leave(self._requests.others))

    def _lock(self, now_ms: int) -> None:
        """The others have left, and the leader's member leads a round. Is it alone?"""
        assert self._round is not None
        if not is_alone(self._round):
            self._fail("another member has come", now_ms)
            return
        self._round = None
        self._move(Stage.LOCKING, now_ms)
        self._ask(Lane.LEADER, self._requests.rejoin(is_locked=True))

    def _locked(self, answer: JoinGroupResponse, now_ms: int) -> None:
        if not is_alone(answer) or answer.protocol_name != self._guise.protocol:
            self._fail("another member has come", now_ms)
            return
        self._ask(Lane.OTHERS, self._requests.sync(answer.generation_id, self._guise.protocol, ()))

    def _store_lock(self) -> None:
        assert self._round is not None
        assert self._adoption is not None
        self._has_synced = True
        self._adoption = Adoption(
            group=self._adoption.group, lock_generation=self._round.generation_id
        )
        self._store(self._adoption)

    # -- the anchor ------------------------------------------------------------------------------

    def _hand_over(self, now_ms: int) -> None:
        if self._keeps_anchor and now_ms >= self._anchor_due_ms:
            assert self._anchor is not None
            self._ask(Lane.ANCHOR, self._requests.beat_anchor(self._anchor))
        if now_ms < self._not_before_ms:
            return
        if not self._has_left:
            self._watch_for_round(self._requests.leader, self._locked_generation, now_ms)
            if self._has_witness and Lane.OTHERS not in self._lanes:
                self._ask(Lane.OTHERS, self._requests.leave([self._requests.leader]))
        if Lane.ANCHOR in self._lanes or self._is_taking_over:
            return
        if self._anchor is None:
            self._ask(Lane.ANCHOR, self._requests.join_anchor(""))
        elif not self._is_anchor_stable:
            ids = self._anchor
            self._ask(Lane.ANCHOR, self._requests.sync_anchor(ids.member_id, ids.generation))
        elif self._has_left:
            self._is_taking_over = True
            self._effects.append(TakeOver(self._anchor))

    @property
    def _keeps_anchor(self) -> bool:
        """Whether the anchor needs heartbeats: the log may be away for longer than its session."""
        is_stable = self.stage is Stage.HANDING_OVER and self._is_anchor_stable
        return is_stable and Lane.ANCHOR not in self._lanes

    def _anchor_joined(
        self, asked: JoinGroupRequest, answer: JoinGroupResponse, now_ms: int
    ) -> None:
        if answer.error_code in _PASSING_ERRORS:
            self._not_before_ms = now_ms + LOOK_AGAIN_MS
            return
        if answer.error_code:
            self._fail(f"the anchor's JoinGroup: {name_of(answer.error_code)}", now_ms)
            return
        leads = answer.leader == answer.member_id
        if self._has_resumed and not self._is_successor(answer, now_ms):
            return
        if not asked.member_id and (answer.skip_assignment or not leads):
            # It has taken the place of an anchor that was there. A round of its own follows.
            self._ask(Lane.ANCHOR, self._requests.join_anchor(answer.member_id))
        elif not is_alone(answer):
            self._fail("the anchor is not alone in the group", now_ms)
        else:
            self._anchor = AnchorIds(
                member_id=answer.member_id,
                generation=answer.generation_id,
                instance_id=self._guise.instance_id,
            )
            if self.stage is Stage.ANCHORING:  # the leader's member has gone by itself
                self._move(Stage.HANDING_OVER, now_ms)

    def _is_successor(self, answer: JoinGroupResponse, now_ms: int) -> bool:
        """Whether the anchor that was found there followed the locked round at once. Otherwise
        others may have had the group in between."""
        self._has_resumed = False
        if answer.generation_id == self._locked_generation + 1:
            return True
        self._fail("others may have had the group while the gateway was away", now_ms)
        return False

    # -- after a restart -------------------------------------------------------------------------

    def _resumed(self, group: DescribedGroup | None, now_ms: int) -> None:
        """Go on if the group was locked: only then is it certain that nobody else had it."""
        assert self._adoption is not None
        if group is None:
            self._not_before_ms = now_ms + BACKOFF_MS
            return
        self._held_from_ms = now_ms
        match resumes_at(self._adoption, group, self._guise):
            case Stage.GIVING_BACK:
                self._fail("the gateway was restarted", now_ms)
            case stage:
                self._has_resumed = self._has_left = stage is Stage.HANDING_OVER
                self._move(stage, now_ms)

    # -- undoing it ------------------------------------------------------------------------------

    def _fail(self, why: str, now_ms: int) -> None:
        """Undo the adoption."""
        self.why = why
        if self.stage in _UNTOUCHED:
            self._move(Stage.FORGETTING, now_ms)
            return
        self._move(Stage.GIVING_BACK, now_ms)
        self._not_before_ms = now_ms
        assert self._adoption is not None
        self._giving_back = GivingBack(
            self._requests,
            self._lanes,
            self._effects,
            led_round=self._round,
            has_synced=self._has_synced,
            is_locked=self._adoption.lock_generation is not None,
            holders=Holders(self._requests.group.members, now_ms, self._grace),
            now_ms=now_ms,
        )
        self._round, self._has_synced = None, False

    # -- answers of the coordinator --------------------------------------------------------------

    def _answered(self, lane: Lane, asked: Struct, answer: Struct, now_ms: int) -> None:
        if self._giving_back is not None:
            self._giving_back.answered(lane, asked, answer, now_ms)
            if self._giving_back.is_over:
                self._giving_back = None
                self._move(Stage.FORGETTING, now_ms)
        elif self.stage not in _ENDING:
            self._answered_going_on(lane, asked, answer, now_ms)

    def _answered_going_on(self, lane: Lane, asked: Struct, answer: Struct, now_ms: int) -> None:
        match asked, answer:
            case _, HeartbeatResponse() if lane is Lane.ANCHOR:
                self._is_hold_in_doubt = bool(answer.error_code)
                self._anchor_due_ms = now_ms + HEARTBEAT_INTERVAL_MS
            case _, HeartbeatResponse():
                self._heartbeat_answered(answer, now_ms)
            case _, LeaveGroupResponse():
                self._left(answer, now_ms)
            case _, SyncGroupResponse():
                self._synced(answer, now_ms)
            case JoinGroupRequest(group_instance_id=None), JoinGroupResponse():
                self._rejoined(answer, now_ms)
            case JoinGroupRequest(), JoinGroupResponse():
                self._anchor_joined(asked, answer, now_ms)
            case _:
                raise TypeError(f"{type(answer).__name__} answers no request of an adoption")

    def _heartbeat_answered(self, answer: HeartbeatResponse, now_ms: int) -> None:
        """The heartbeat was of a member, not of the anchor."""
        is_round = answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS
        match self.stage:
            case Stage.IMPERSONATING if not answer.error_code:
                pass
            case Stage.REJOINING if is_round:
                self._has_witness = True
                self._describe()
            case Stage.ANCHORING if is_round:
                self._has_witness = True
                self._move(Stage.HANDING_OVER, now_ms)
            case Stage.IMPERSONATING if answer.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
                self._fail("the gateway's user may not read the group: grant it READ", now_ms)
            case Stage.HANDING_OVER if is_round:
                self._has_witness = True
            case Stage.HANDING_OVER if answer.error_code:
                self._has_left = answer.error_code in GONE
                self._has_witness = not self._has_left
            case Stage.REJOINING | Stage.ANCHORING | Stage.HANDING_OVER if not answer.error_code:
                self._not_before_ms = now_ms + LOOK_AGAIN_MS
            case _:
                self._fail(f"a member's heartbeat: {name_of(answer.error_code)}", now_ms)

    def _rejoined(self, answer: JoinGroupResponse, now_ms: int) -> None:
        """The JoinGroup of the leader's member."""
        if answer.error_code:
            why = f"the leader's JoinGroup: {name_of(answer.error_code)}"
            if self.stage is Stage.REJOINING and answer.error_code not in _PASSING_ERRORS:
                self.why = why  # refused at once, so nothing has changed
                self._move(Stage.FORGETTING, now_ms)
            else:
                self._fail(why, now_ms)
            return
        self._round = answer
        if self.stage is Stage.LOCKING:
            self._locked(answer, now_ms)
        elif self.stage is Stage.REJOINING and self._requests.others:
            self._fail("members have left meanwhile", now_ms)
        elif self._have_others_left or not self._requests.others:
            self._lock(now_ms)

    def _synced(self, answer: SyncGroupResponse, now_ms: int) -> None:
        if self.stage is Stage.LOCKING:
            if answer.error_code:
                self._fail(f"the leader's SyncGroup: {name_of(answer.error_code)}", now_ms)
            else:
                self._store_lock()
        elif answer.error_code:
            self._anchor = None  # join again
            self._not_before_ms = now_ms + LOOK_AGAIN_MS
        else:
            self._is_anchor_stable, self._is_hold_in_doubt = True, False
            self._anchor_due_ms = now_ms + HEARTBEAT_INTERVAL_MS

    def _left(self, answer: LeaveGroupResponse, now_ms: int) -> None:
        if self.stage is Stage.HANDING_OVER:
            self._has_left = have_left(answer)
            if not self._has_left:
                self._not_before_ms = now_ms + BACKOFF_MS
        elif not have_left(answer):
            self._fail("not all members could leave", now_ms)
        else:
            self._have_others_left = True
            if self._round is not None:
                self._lock(now_ms)

    def _unanswered(self, lane: Lane, why: str, now_ms: int) -> None:
        """The request may have been carried out, or be carried out later."""
        if self._giving_back is not None:
            self._giving_back.unanswered(lane, now_ms)
        elif self.stage is Stage.HANDING_OVER:
            # Another coordinator may have loaded the locked group: the leader's member is in it
            # alone, and must not leave before the anchor waits there, too.
            self._has_left = self._has_witness = False
            self._is_hold_in_doubt, self._anchor_due_ms = True, now_ms
            if lane is Lane.ANCHOR:
                self._anchor, self._is_anchor_stable = None, False
            self._not_before_ms = now_ms + BACKOFF_MS
        elif self.stage not in _ENDING:
            self._fail(f"the coordinator did not answer: {why}", now_ms)

    # -- small things ----------------------------------------------------------------------------

    @property
    def _generation(self) -> int:
        return self._requests.group.generation

    @property
    def _locked_generation(self) -> int:
        locked = self._adoption.lock_generation if self._adoption else None
        assert locked is not None
        return locked

    def _describe(self) -> None:
        if not self._is_describing:
            self._is_describing = True
            self._effects.append(Describe())

    def _store(self, adoption: Adoption | None) -> None:
        if not self._is_storing:
            self._is_storing, self._is_erasing = True, adoption is None
            self._effects.append(Store(adoption))

    def _ask(self, lane: Lane, message: Struct) -> None:
        self._effects.append(self._lanes.ask(lane, message))

    def _move(self, stage: Stage, now_ms: int) -> None:
        self.stage = moved(ADOPTION, self.stage, stage)
        if self._held_from_ms is not None:
            self.held_ms = now_ms - self._held_from_ms
