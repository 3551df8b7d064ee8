"""The release of one group: it goes back from this gateway to the cluster's coordinator, in one
rebalance.

`gateway/docs/release.md` explains the steps and why they are safe. In short: the members are told
to rejoin, and the anchor keeps the group until all of them have given up what they held. Then it
opens the group, waits until their joins have arrived there, and leaves. The group is never Empty,
so its first round has all of them. With native members it only leaves: a coordinator of the new
protocol needs no round. The first one there has to be native.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from coordinator.group.state import GroupState
from coordinator.handlers.release import may_begin, members_not_taken
from coordinator.interface.events import STATIC_LEAVE_EPOCH, ReleaseBegan, ReleaseMoved
from coordinator.interface.records import (
    ClassicGroupMember,
    ClassicGroupValue,
    Member,
    ReleaseState,
)
from gateway.events import group_events
from gateway.hosting.anchor import SESSION_TIMEOUTS_MS
from gateway.hosting.effects import Describe, MoveStep, Requester
from gateway.hosting.forwarded import STABLE
from gateway.hosting.group_parts import GroupParts
from gateway.hosting.group_routing import RELEASED
from gateway.hosting.holders import Grace, Holders
from gateway.hosting.identity import AnchorIds
from gateway.hosting.logged_engine import StepOfMove
from gateway.hosting.move_requests import AnyRequest, NewProtocol, ReleaseOutcome, ReleaseRequest
from gateway.hosting.moving import BACKOFF_MS, Moving
from gateway.hosting.pending_ids import REMEMBERED_MS, PendingIds
from gateway.hosting.recall import Recall
from gateway.hosting.routes import GroupSituation
from gateway.hosting.states import RELEASE, AnchorPhase, Mode, ReleaseStage
from gateway.hosting.upstream_member import NOTHING, In, Joined, Out, UpstreamMember
from gateway.moves import check_move
from kafka_codecs.describe_groups import DescribedGroup

SETTLE_MAX_MS = 30_000
"""How long a release waits for the end of a rebalance before it begins."""
GATHER_MAX_MS = 3_000
"""How long the anchor waits for joins of members that were here a moment ago. It is the counterpart
of Kafka's `group.initial.rebalance.delay.ms`, which gathers the members of an Empty group."""
GATHER_MARGIN_MS = 5_000
"""How much shorter than the anchor's session it waits for members that still own partitions: it
sends no heartbeats."""
LOOK_AGAIN_MS = 25
"""The time between the first two lookups of who has come. It doubles with each lookup."""
NATIVE_FIRST_MAX_MS = 15_000
"""How long classic members wait in the end for a native one to be the first in the cluster: the 10
s for which clients back off from a gateway that was killed, and a heartbeat interval."""

REASON = "groupferry releases this group"

NO_MEMBERS = ClassicGroupValue(protocol_type=None, generation=-1, protocol=None, leader=None)

Stage = ReleaseStage


def why_not_released(state: GroupState, cluster: NewProtocol) -> tuple[str, ...]:
    """Why the group cannot be released as it is, one for each member that speaks against it."""
    if cluster.why_no_natives:
        what = "uses the new protocol"
        reason, remedy = cluster.why_no_natives, "roll it back to the classic one first"
    else:
        what = "uses the classic protocol next to native members"
        reason, remedy = cluster.why_not_mixed, "roll it to the new one first"
    members = sorted(
        members_not_taken(
            state, takes_natives=cluster.takes_natives, takes_mixed=cluster.takes_mixed
        ),
        key=lambda member: (member.client_id, member.member_id),
    )
    return tuple(f"{_describe_member(member)} {what}, and {reason}: {remedy}" for member in members)


def _present(group: ClassicGroupValue) -> Sequence[ClassicGroupMember]:
    """The members that may hold something: not the static ones that left with -2. All others would
    wait without partitions until the sessions of those are over."""
    epochs = group.older_epochs
    return [
        member for member in group.members if epochs.get(member.member_id) != STATIC_LEAVE_EPOCH
    ]


def _describe_member(member: Member) -> str:
    return f"{member.client_id} at {member.client_host.removeprefix('/')} ({member.member_id})"


class Releasing(Moving):
    """One release, from the request to its end. Times are milliseconds."""

    why_busy = "it is being released: try again"
    why_ending = "the gateway is shutting down; a release that has begun continues with the next"
    why_forwarded = RELEASED
    outcome_type = ReleaseOutcome
    vouches = False
    guard: AnchorIds | None = None

    def __init__(self, parts: GroupParts) -> None:
        super().__init__(parts)
        self.stage = Stage.RECALLING
        self.recall = self._recall(NO_MEMBERS, 0, Grace())
        """The members, once they are told to rejoin; none if all had given up before this
        process."""
        self.is_native_due = False
        """Whether a native member comes back that is not in the cluster yet."""
        self.is_displaced = False
        """Whether another anchor may be in the group, in the place of the one that was to leave."""
        self._has_begun_here = False
        """Whether this process has decided to release the group, and not an earlier one."""
        self._started_ms = 0
        self._unowned_until_ms: int | None = None
        self._ids = AnchorIds(member_id="", generation=-1)
        self._opener = UpstreamMember(
            parts.group_id,
            parts.rules.gateway.join_metadata,
            reason=REASON,
            session_timeouts_ms=SESSION_TIMEOUTS_MS,
        )
        """The anchor, whose place the release has."""
        self._is_open = False
        self._pause_ms = LOOK_AGAIN_MS
        self._wait_until_ms = 0
        """When the stage no longer waits for members."""
        self._not_before_ms = 0

    # -- beginning and ending --------------------------------------------------------------------

    def prepare(self, request: ReleaseRequest, now_ms: int) -> None:
        """Wait from now on for what has to come first."""
        longest_ms = self._parts.rules.longest_session_ms
        self.begin_by_ms = now_ms + (longest_ms if request.is_unattended else SETTLE_MAX_MS)
        self._parts.anchor.is_known_absent = False  # since the last lookup one may have come late

    def begin(self, requests: Sequence[AnyRequest], now_ms: int) -> ReleaseOutcome | None:
        """Begin once the group is at rest, or continue from what the log has. Returns the outcome
        if that is impossible, or no longer necessary."""
        parts, state = self._parts, self._parts.engine.core.state
        if state.is_leaving:
            assert state.release is not None
            self._continue(state.release, requests, now_ms)
            return None
        request = requests[-1]
        assert isinstance(request, ReleaseRequest)
        is_released = state.release is not None
        if is_released:
            parts.anchor.drop()  # one that is still there, or there again after a failover
        elif reasons := why_not_released(state, request.new_protocol):
            return ReleaseOutcome.refuse(parts.group_id, *reasons)
        why_late = self._why_place_unknown(now_ms)
        if why_late is None and is_released:
            if not parts.anchor.is_here:
                return ReleaseOutcome(group_id=parts.group_id, is_released=True)
            why_late = "its anchor has not left yet"
        elif why_late is None:
            if parts.routing.decision.mode is Mode.ELSEWHERE and not parts.anchor.is_here:
                return ReleaseOutcome.refuse(parts.group_id, parts.routing.decision.reason)
            if may_begin(state):
                cluster = request.new_protocol
                self.is_beginning = True
                parts.engine.observe(
                    ReleaseBegan(
                        takes_natives=cluster.takes_natives, takes_mixed=cluster.takes_mixed
                    )
                )
                return None
            why_late = f"its rebalance is not over after {SETTLE_MAX_MS // 1000} s"
        assert self.begin_by_ms is not None
        if now_ms < self.begin_by_ms:
            return None
        return ReleaseOutcome.refuse(parts.group_id, f"{why_late}: try again")

    def _why_place_unknown(self, now_ms: int) -> str | None:
        """Why it is unknown whether the anchor holds the group; None once it does, or is certainly
        not in it. Otherwise look for one that an earlier process has left there: it would keep the
        consumers out of a released group. A group with members needs one in any case."""
        parts, anchor = self._parts, self._parts.anchor
        if anchor.is_here:
            if anchor.phase in (AnchorPhase.STABLE, AnchorPhase.RENEWING):
                return None
        elif anchor.is_known_absent:
            return None
        elif parts.engine.is_live:
            anchor.need(now_ms, is_live=True)
        else:
            anchor.search(now_ms)
        decision = parts.routing.decision
        return decision.reason if decision.mode is Mode.UNKNOWN else anchor.reason

    def _continue(self, release: ReleaseState, requests: Sequence[AnyRequest], now_ms: int) -> None:
        """Continue with what the log has."""
        parts = self._parts
        self.has_begun = True
        if release.group is None:
            self.stage = Stage.LEAVING
        group = release.group or NO_MEMBERS
        if not self._has_begun_here:
            parts.log("warning", "release_resumed", members=len(group.members))
        # No client can reach an unattended process, so that a pause keeps none away.
        is_unattended = any(
            isinstance(request, ReleaseRequest) and request.is_unattended for request in requests
        )
        grace = Grace() if is_unattended else parts.engine.grace
        commits, self.recall = self.recall.commits, self._recall(group, now_ms, grace)
        self.recall.commits = commits
        self.is_native_due = release.is_native_due
        self._ids = AnchorIds(member_id=release.guard_id or "", generation=-1)
        self._started_ms = self._not_before_ms = now_ms
        parts.routing.pending_ids = PendingIds()
        parts.emit(group_events.ReleaseStarted(members=len(group.members)))
        if group.members:
            parts.anchor.need(now_ms, is_live=True)

    def _recall(self, group: ClassicGroupValue, now_ms: int, grace: Grace) -> Recall:
        parts = self._parts
        return Recall(
            parts.group_id,
            group,
            parts.config,
            Holders(_present(group), now_ms, grace),
            # The coordinator of native members does not ask what a member owns.
            leads_rounds=any(member.is_native for member in group.members),
            has_all_members=True,
        )

    def end(self, now_ms: int) -> ReleaseOutcome:
        """Leave the group to the cluster."""
        parts, routing = self._parts, self._parts.routing
        if routing.pending_ids is not None:
            routing.pending_ids.end_at(now_ms + REMEMBERED_MS)
        parts.emit(group_events.GroupReleased(unowned_ms=self.unowned_ms))
        routing.end_hosting("released")
        routing.forward(RELEASED, now_ms)
        return ReleaseOutcome(
            group_id=parts.group_id,
            is_released=True,
            unowned_ms=self.unowned_ms if self.recall.members else None,
        )

    # -- what the move asks ----------------------------------------------------------------------

    @property
    def situation(self) -> GroupSituation:
        """What it makes of the group."""
        if not self._is_open:
            return GroupSituation.RECALLED
        match self.stage:
            case Stage.AWAITING_NATIVE:
                return GroupSituation.NATIVE_FIRST
            case Stage.CONCLUDING | Stage.RELEASED:
                return GroupSituation.LET_GO
            case _:
                return GroupSituation.OPENED

    @property
    def unowned_ms(self) -> int:
        """The time from the recall until the cluster could give out the partitions, once it is.
        Without members there are none."""
        until_ms = self._unowned_until_ms
        return 0 if until_ms is None or not self.recall.members else until_ms - self._started_ms

    @property
    def member_ids(self) -> Collection[str]:
        """The ids of the members that are told to rejoin."""
        return self.recall.members

    def is_ready(self, commits: int) -> bool:
        """Whether the anchor's place is wanted. `commits` travel under its ids, and have no answer
        yet."""
        if self.stage is Stage.LEAVING:
            return self.is_displaced
        return self.stage is Stage.RECALLING and not self.recall.holders and not commits

    @property
    def is_over(self) -> bool:
        """Whether the cluster has the group, and the log knows."""
        return self.stage is Stage.RELEASED

    def next_ms(self) -> int | None:
        """When `advance` is due; None while only an answer can change anything."""
        match self.stage:
            case Stage.RECALLING:
                return self.recall.holders.next_ms()
            case Stage.RELEASED:
                return None
            case _:
                return None if self._is_waiting else self._not_before_ms

    @property
    def _is_waiting(self) -> bool:
        """Whether an answer, the log or the anchor has to come first."""
        return bool(self.steps) or self._is_storing or self.is_displaced

    # -- what happens ----------------------------------------------------------------------------

    def on_done(self, step: MoveStep, answer: Any, now_ms: int) -> None:
        """The coordinator has answered."""
        match step:
            case Describe():
                if answer is not None and self._is_awaited_there(answer):
                    self._wait_until_ms = now_ms
                else:
                    self._not_before_ms = min(now_ms + self._pause_ms, self._wait_until_ms)
                    self._pause_ms *= 2
            case _:
                request = self._opener.on_answer(answer, now_ms)
                if request is not None:
                    self._ask(Requester.RELEASE, request)
                else:
                    self._on_opener(now_ms)

    def on_failed(self, _step: MoveStep, reason: str, now_ms: int) -> None:
        """The coordinator has not answered. It may still carry out the request."""
        if self._opener.awaits_answer:
            self._opener.on_no_answer(reason, now_ms)
            self._on_opener(now_ms)
        self._not_before_ms = now_ms + BACKOFF_MS

    def on_stored(self, event: StepOfMove, *, is_durable: bool, now_ms: int) -> None:
        """The engine has decided on a record, and the log has it, or may not have it."""
        self._is_storing = False
        if isinstance(event, ReleaseBegan):
            self.is_beginning = False
            self._has_begun_here = is_durable and self._parts.engine.core.state.is_leaving
        elif not is_durable:
            self._not_before_ms = now_ms + BACKOFF_MS
        elif self.stage is Stage.CONCLUDING:
            self._mark_open(now_ms)
            self._move(Stage.RELEASED)
        else:
            self._move(Stage.OPENING if self._can_open else Stage.LEAVING)

    def on_native_joined(self, now_ms: int) -> None:
        """The cluster has a native member."""
        if self._is_open:
            self.is_native_due = False
        if self.stage is Stage.AWAITING_NATIVE:
            self._not_before_ms = now_ms

    def advance(self, now_ms: int) -> None:
        """Do what is due."""
        self.recall.give_up_overdue(now_ms)
        commits = self._parts.engine.core.state.commits
        if self.is_ready(len(commits) + self.recall.commits.in_flight):
            self._take_anchors_place(now_ms)
        if now_ms >= self._not_before_ms and not self._is_waiting:
            self._advance(now_ms)

    def _take_anchors_place(self, now_ms: int) -> None:
        """Take the anchor's place once it is known."""
        anchor = self._parts.anchor
        if anchor.is_here:
            ids = anchor.hand_over()
            if ids is not None:
                self.on_handed_over(ids, now_ms)
        elif anchor.is_known_absent:
            self.on_handed_over(None, now_ms)
        else:
            anchor.search(now_ms)

    def _advance(self, now_ms: int) -> None:
        """Do what is due."""
        member_id = self._ids.member_id
        is_waiting = now_ms < self._wait_until_ms
        match self.stage:
            case Stage.ANNOUNCING:
                release = ReleaseState(guard_id=member_id, is_native_due=self.is_native_due)
                self._store(ReleaseMoved(release=release))
            case Stage.OPENING:
                members = self.recall.members.values()
                names = [name for member in members for name, _data in member.protocols]
                self._ask(
                    Requester.RELEASE, self._opener.join(now_ms, member_id=member_id, names=names)
                )
            case Stage.GATHERING | Stage.AWAITING_ROUND if is_waiting:
                self._begin_step(Describe())
            case Stage.GATHERING:
                self._move(Stage.LEAVING)
                self._advance(now_ms)
            case Stage.LEAVING:
                self._ask(Requester.RELEASE, self._opener.leave(self._ids))
            case Stage.AWAITING_ROUND if self.is_native_due:
                self._wait(Stage.AWAITING_NATIVE, NATIVE_FIRST_MAX_MS, now_ms)
                self._not_before_ms = self._wait_until_ms
            case Stage.AWAITING_ROUND | Stage.AWAITING_NATIVE:
                self._move(Stage.CONCLUDING)
                self._advance(now_ms)
            case Stage.CONCLUDING:
                self._store(ReleaseMoved(release=ReleaseState()))
            case _:
                pass

    def on_handed_over(self, ids: AnchorIds | None, now_ms: int) -> None:
        """No member holds anything, every commit has ended, and the anchor's place is the
        release's. None: there is no anchor any more."""
        is_again, self.is_displaced = self.is_displaced, False
        if ids is None and is_again:
            self._await_round(now_ms)
        elif ids is None:
            # Another member is in the group, which needs no native one to be the first.
            self._move(Stage.CONCLUDING)
        else:
            self._ids = ids
            self._opener.take_place(ids, now_ms)
            if not is_again:
                self.is_native_due |= self.recall.is_native_due
                self._move(Stage.ANNOUNCING)

    @property
    def _can_open(self) -> bool:
        """Whether the anchor can be in one group with the members. Native ones are refused as long
        as it is there, with an error that is fatal to some clients."""
        return bool(self.recall.members) and not self.recall.leads_rounds

    # -- answers of the coordinator --------------------------------------------------------------

    def _on_opener(self, now_ms: int) -> None:
        """The coordinator has answered the anchor, or has not. A request of it without an answer
        may still be carried out; after the anchor has left, it is void."""
        match self.stage, self._opener.stage:
            case Stage.OPENING, Joined():  # alone
                self._ask(
                    Requester.RELEASE, self._opener.sync({self._ids.member_id: NOTHING}, now_ms)
                )
            case Stage.OPENING, In(session_ms=session_ms, refusal=None):
                self._is_open = True
                wait_ms = self._gather_max_ms(session_ms) if self.recall.returning else 0
                self._wait(Stage.GATHERING, wait_ms, now_ms)
            case Stage.OPENING, _:
                self._move(Stage.LEAVING)
            case _, Out(refusal=refusal) if refusal is not None and refusal.is_replaced:
                self.is_displaced = True  # a late JoinGroup has put another anchor in its place
            case _, Out(is_certain=True):
                self._await_round(now_ms)
            case _:
                self._not_before_ms = now_ms + BACKOFF_MS

    def _is_awaited_there(self, group: DescribedGroup) -> bool:
        """Whether the first round in the cluster is over, or before that, whether as many have
        joined as are due, among them the clients of members that still own partitions: only the
        leader of their round knows what they claim."""
        if self.stage is Stage.AWAITING_ROUND:
            return group.group_state == STABLE
        clients = Counter(
            member.client_id for member in group.members if member.member_id != self._ids.member_id
        )
        owners = Counter(member.client_id for member in self.recall.owners)
        return clients.total() >= self.recall.returning and owners <= clients

    def _gather_max_ms(self, anchors_session_ms: int) -> int:
        """How long to wait for members. One that still owns partitions must be in the first round,
        or its session must be over."""
        sessions_ms = (member.session_timeout_ms for member in self.recall.owners)
        limit_ms = anchors_session_ms - GATHER_MARGIN_MS
        return max(GATHER_MAX_MS, min(max(sessions_ms, default=0), limit_ms))

    # -- small things ----------------------------------------------------------------------------

    def _await_round(self, now_ms: int) -> None:
        """The anchor has left. A native member that joins before the end of a round gets the
        partitions that its members still own."""
        self._mark_open(now_ms)
        self._wait(Stage.AWAITING_ROUND, GATHER_MAX_MS if self.recall.owners else 0, now_ms)

    def _wait(self, stage: Stage, length_ms: int, now_ms: int) -> None:
        """Enter a stage that waits for members, at most for this time."""
        self._move(stage)
        self._not_before_ms, self._wait_until_ms = now_ms, now_ms + length_ms
        self._pause_ms = LOOK_AGAIN_MS

    def _mark_open(self, now_ms: int) -> None:
        """The cluster can give out the partitions."""
        if self._unowned_until_ms is None:
            self._unowned_until_ms = now_ms
        self._is_open = True

    def _move(self, stage: Stage) -> None:
        self.stage = check_move(RELEASE, self.stage, stage)
