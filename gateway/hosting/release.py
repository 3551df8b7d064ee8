"""The release of one group: it goes back from this gateway to the cluster's coordinator, in one
rebalance.

`gateway/docs/release.md` explains the steps and why they are safe. In short: the members are told
to rejoin, and the anchor keeps the group until all of them have given up what they held. Then it
opens the group, waits until their joins have arrived there, and leaves. The group is never Empty,
so its first round has all of them. With native members it only leaves: a coordinator of the new
protocol needs no round. The first one there has to be native.
"""

from collections import Counter
from collections.abc import Sequence

from coordinator.interface.events import ReleaseMoved
from coordinator.interface.records import ReleaseState
from gateway.hosting.adoption_requests import ANCHOR_SESSION_MS, BACKOFF_MS
from gateway.hosting.adoption_steps import (
    Answered,
    Ask,
    GaveUp,
    Heard,
    Lane,
    MoveTimerFired,
    Stored,
    StoreFailed,
    Unanswered,
)
from gateway.hosting.grace import Grace
from gateway.hosting.holders import Holders
from gateway.hosting.identity import AnchorIds, Guise
from gateway.hosting.release_steps import Effect, HandedOver, Input, NativeJoined
from gateway.hosting.routes import GroupSituation
from gateway.hosting.states import RELEASE, ReleaseStage
from gateway.hosting.upstream_member import NOTHING, Joined, Out, UpstreamMember
from gateway.moves import moved
from kafka_codecs.declaration import Struct
from kafka_codecs.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

GATHER_MAX_MS = 3_000
"""How long the anchor waits for joins of members that were here a moment ago. As Kafka's
`group.initial.rebalance.delay.ms`, which gathers the members of an Empty group."""
GATHER_OWNERS_MAX_MS = ANCHOR_SESSION_MS - 5_000
"""How long it waits at most for members that still own partitions: it sends no heartbeats."""
LOOK_AGAIN_MS = 25
"""The time between the first two looks at who has come. It doubles from look to look."""
NATIVE_FIRST_MAX_MS = 15_000
"""How long classic members wait in the end for a native one to be the first in the cluster: the 10
s for which clients back off from a gateway that was killed, and a heartbeat interval."""

REASON = "groupferry releases this group"

Stage = ReleaseStage


class Releasing:
    """One release, from the moment when the log has the members to its end. Times are
    milliseconds."""

    def __init__(
        self,
        group_id: str,
        guise: Guise,
        release: ReleaseState,
        now_ms: int,
        grace: Grace,
    ) -> None:
        """`guise`: what the anchor has joined as. `release`: what the log has. `grace`: what the
        members get."""
        self.stage = Stage.LEAVING if release.group is None else Stage.RECALLING
        self._group_id = group_id
        self._members = () if release.group is None else release.group.members
        self._by_id = {member.member_id: member for member in self._members}
        self.holders = Holders(self._members, now_ms, grace)
        """The members that may still hold something."""
        self._natives = frozenset(each.member_id for each in self._members if each.is_native)
        self.is_native_due = release.is_native_due
        """Whether a native member comes back that is not in the cluster yet."""
        self._native_until_ms: int | None = None
        self._began_ms = now_ms
        self._unowned_until_ms: int | None = None
        self._ids = AnchorIds(member_id=release.guard_id or "", generation=-1)
        self._opener = UpstreamMember(
            group_id, guise, reason=REASON, session_timeouts_ms=(ANCHOR_SESSION_MS,)
        )
        """The anchor, whose place the release has."""
        self._effects: list[Effect] = []
        self._is_describing = self._is_storing = self._is_open = False
        self.is_displaced = False
        """Whether another anchor may be in the group, in the place of the one that was to leave."""
        self._returning = 0
        """How many members have given up by rejoining: their next joins are due at any moment."""
        self._owners: Counter[str] = Counter()
        """Those of them that still own partitions, by client id."""
        self._gather_max_ms = GATHER_MAX_MS
        self._pause_ms = LOOK_AGAIN_MS
        self._gather_until_ms = self._not_before_ms = now_ms

    # -- what the group asks ---------------------------------------------------------------------

    @property
    def situation(self) -> GroupSituation:
        """What it makes of the group."""
        if not self._is_open:
            return GroupSituation.RECALLED
        if self.stage is not Stage.CONCLUDING:
            return GroupSituation.OPENED
        return GroupSituation.NATIVE_FIRST if self.is_native_due else GroupSituation.LET_GO

    @property
    def unowned_ms(self) -> int:
        """The time from the recall until the cluster could give out the partitions, once it is."""
        until_ms = self._unowned_until_ms
        return 0 if until_ms is None else until_ms - self._began_ms

    @property
    def has_natives(self) -> bool:
        """Whether a member uses the new protocol."""
        return bool(self._natives)

    def is_ready(self, commits: int) -> bool:
        """Whether the anchor's place is wanted. `commits` travel under its ids, and have no answer
        yet."""
        if self.stage is Stage.LEAVING:
            return self.is_displaced
        return self.stage is Stage.RECALLING and not self.holders and not commits

    @property
    def is_over(self) -> bool:
        """Whether the cluster has the group, and the log knows."""
        return self.stage is Stage.RELEASED

    def next_ms(self) -> int | None:
        """When to handle `MoveTimerFired` next; None while only an answer can change anything."""
        match self.stage:
            case Stage.RECALLING:
                return self.holders.next_ms()
            case Stage.RELEASED:
                return None
            case _:
                return None if self._is_waiting else self._not_before_ms

    @property
    def _is_waiting(self) -> bool:
        """Whether an answer, the log or the anchor has to come first."""
        is_asking = self._opener.awaits_answer or self._is_describing
        return is_asking or self._is_storing or self.is_displaced

    # -- what happens ----------------------------------------------------------------------------

    def handle(self, event: Input, now_ms: int) -> Sequence[Effect]:
        """Take note of what has happened. Returns what the driver has to do."""
        match event:
            case Heard(member_id):
                self.holders.heard(member_id, now_ms)
            case GaveUp(member_id, comes_back, still_owns) if member_id in self.holders:
                self._returning += comes_back
                self.is_native_due |= comes_back and member_id in self._natives
                self._note_owner(member_id, still_owns=still_owns)
                self.holders.let_go(member_id)
            case HandedOver(ids):
                self._on_handed_over(ids, now_ms)
            case NativeJoined() if self._is_open:
                self.is_native_due = False
                self._not_before_ms = now_ms
            case Stored():
                self._is_storing = False
                self._stored(now_ms)
            case StoreFailed():
                self._is_storing = False
                self._not_before_ms = now_ms + BACKOFF_MS
            case Answered(_, answer):
                self._on_answer(answer, now_ms)
            case Unanswered(_, why):
                self._unanswered(why, now_ms)
            case MoveTimerFired() | GaveUp() | NativeJoined():
                pass
        for member_id, is_alive in self.holders.give_up(now_ms):
            self.is_native_due |= is_alive and member_id in self._natives
        if now_ms >= self._not_before_ms and not self._is_waiting:
            self._advance(now_ms)
        effects, self._effects = self._effects, []
        return effects

    def _advance(self, now_ms: int) -> None:
        """Do what is due."""
        member_id = self._ids.member_id
        match self.stage:
            case Stage.ANNOUNCING:
                self._store(ReleaseState(guard_id=member_id, is_native_due=self.is_native_due))
            case Stage.OPENING:
                names = [name for member in self._members for name, _data in member.protocols]
                self._ask(self._opener.join(now_ms, member_id=member_id, names=names))
            case Stage.GATHERING if self._returning and now_ms < self._gather_until_ms:
                self._is_describing = True
                self._ask(DescribeGroupsRequest(groups=(self._group_id,)))
            case Stage.GATHERING:
                self._move(Stage.LEAVING)
                self._ask(self._opener.leave(self._ids))
            case Stage.LEAVING:
                self._ask(self._opener.leave(self._ids))
            case Stage.CONCLUDING if self.is_native_due and now_ms < self._native_until(now_ms):
                self._not_before_ms = self._native_until(now_ms)
            case Stage.CONCLUDING:
                self.is_native_due = False
                self._store(ReleaseState())
            case _:
                pass

    def _on_handed_over(self, ids: AnchorIds | None, now_ms: int) -> None:
        is_again, self.is_displaced = self.is_displaced, False
        if ids is None:
            # Another member is in the group, which needs no native one to be the first.
            self.is_native_due &= is_again
            if is_again:
                self._opened(now_ms)
            self._move(Stage.CONCLUDING)
        else:
            self._ids = ids
            self._opener.take_place(ids, now_ms)
            if not is_again:
                self._move(Stage.ANNOUNCING)

    def _stored(self, now_ms: int) -> None:
        if self.stage is Stage.CONCLUDING:
            self._opened(now_ms)
            self._move(Stage.RELEASED)
        elif self._can_open:
            self._move(Stage.OPENING)
        else:
            self._move(Stage.LEAVING)

    @property
    def _can_open(self) -> bool:
        """Whether the anchor can be in one group with the members. Native ones are refused as long
        as it is there, with an error that is fatal to some clients."""
        return bool(self._members) and not self.has_natives

    # -- answers of the coordinator --------------------------------------------------------------

    def _on_answer(self, answer: Struct, now_ms: int) -> None:
        match answer:
            case DescribeGroupsResponse(groups=groups):
                self._is_describing = False
                if self._are_all_back(groups):
                    self._gather_until_ms = now_ms
                else:
                    self._not_before_ms = min(now_ms + self._pause_ms, self._gather_until_ms)
                    self._pause_ms *= 2
            case _:
                request = self._opener.answered(answer, now_ms)
                if request is not None:
                    self._ask(request)
                else:
                    self._on_opener(now_ms)

    def _unanswered(self, why: str, now_ms: int) -> None:
        self._is_describing = False
        if self._opener.awaits_answer:
            self._opener.unanswered(why, now_ms)
            self._on_opener(now_ms)
        self._not_before_ms = now_ms + BACKOFF_MS

    def _on_opener(self, now_ms: int) -> None:
        """The coordinator has answered the anchor, or has not. A request of it without an answer
        may still be carried out; after the anchor has left, it is void."""
        match self.stage, self._opener.stage:
            case Stage.OPENING, Joined():  # alone
                self._ask(self._opener.sync({self._ids.member_id: NOTHING}, now_ms))
            case Stage.OPENING, _ if self._opener.ids is not None:
                self._is_open = True
                self._gather_until_ms = now_ms + self._gather_max_ms
                self._move(Stage.GATHERING)
            case Stage.OPENING, _:
                self._move(Stage.LEAVING)
            case _, Out(refusal=refusal) if refusal is not None and refusal.is_replaced:
                self.is_displaced = True  # a late JoinGroup has put another anchor in its place
            case _, Out(is_certain=True):
                self._opened(now_ms)
                self._move(Stage.CONCLUDING)
            case _:
                self._not_before_ms = now_ms + BACKOFF_MS

    def _are_all_back(self, groups: Sequence[DescribedGroup]) -> bool:
        """Whether as many have joined as are due, among them the clients of members that still own
        partitions: only the leader of their round knows what they claim."""
        clients = Counter(
            each.client_id
            for group in groups
            for each in group.members
            if each.member_id != self._ids.member_id
        )
        return clients.total() >= self._returning and self._owners <= clients

    def _note_owner(self, member_id: str, *, still_owns: bool) -> None:
        """A member that still owns partitions must be in the first round, or its session must be
        over."""
        if still_owns:
            member = self._by_id[member_id]
            self._owners[member.client_id] += 1
            session_ms = min(member.session_timeout_ms, GATHER_OWNERS_MAX_MS)
            self._gather_max_ms = max(self._gather_max_ms, session_ms)

    def _native_until(self, now_ms: int) -> int:
        if self._native_until_ms is None:
            self._native_until_ms = now_ms + NATIVE_FIRST_MAX_MS
        return self._native_until_ms

    # -- small things ----------------------------------------------------------------------------

    def _opened(self, now_ms: int) -> None:
        """The cluster can give out the partitions."""
        if self._unowned_until_ms is None:
            self._unowned_until_ms = now_ms
        self._is_open = True

    def _ask(self, message: Struct) -> None:
        self._effects.append(Ask(Lane.RELEASE, message))

    def _store(self, release: ReleaseState) -> None:
        self._is_storing = True
        self._effects.append(ReleaseMoved(release=release))

    def _move(self, stage: Stage) -> None:
        self.stage = moved(RELEASE, self.stage, stage)
