"""The anchor of one group: it joins its group in the cluster, keeps its place, rejoins when lost,
and finally leaves.

The group says at any time that it needs the anchor, doubts it, or wants it dropped; `advance` then
decides what its `UpstreamMember` sends, one request at a time.
"""

from collections.abc import Callable, Iterable
from types import MappingProxyType

from coordinator.interface.volatile_records import Token
from gateway.events.event import Level
from gateway.events.group_events import GenerationWentBack, GroupTaken
from gateway.hosting.calls import Commit
from gateway.hosting.effects import AskCoordinator, Effect, Log
from gateway.hosting.group_routing import RoutingDecision
from gateway.hosting.identity import AnchorIds, Gateway
from gateway.hosting.states import ANCHOR, AnchorPhase, Mode
from gateway.hosting.upstream_member import (
    HEARTBEAT_INTERVAL_MS,
    JOIN_REPEATS_MAX,
    NO_MEMBER,
    OF_MEMBERS,
    In,
    Joined,
    Joining,
    Leaving,
    Meaning,
    Out,
    Refusal,
    Syncing,
    UpstreamMember,
    UpstreamStage,
    refusal_of,
)
from gateway.moves import check_move
from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import ErrorCode

SESSION_TIMEOUTS_MS = (60_000, 45_000, 30_000, 10_000)
"""Tried in this order until the cluster accepts one. Long, because the sessions of the group's real
members expire sooner."""
NOT_JOINED = "the anchor has not joined yet"
RENEWAL_INTERVAL_MS = 10_000
"""The least time between two generations that only renew the anchor's assignment."""
GENERATIONS_OF_A_CONSUMER = 4
"""How many generations begin, at least, until the anchor is back after a consumer had its group."""
ABOUT_THE_ANCHOR = frozenset(ErrorCode(code) for code in OF_MEMBERS)
"""Codes which say that the anchor is no longer in the group, or no longer its only member."""

Loss = GroupTaken | GenerationWentBack
"""What shows that another member has had the group since the anchor held it, or may have."""

_PHASES = MappingProxyType(
    {
        Joined: AnchorPhase.SYNCING,
        Syncing: AnchorPhase.SYNCING,
        In: AnchorPhase.STABLE,
        Leaving: AnchorPhase.LEAVING,
    }
)


class Anchor:
    """The anchor of one group. Times are milliseconds."""

    def __init__(
        self,
        group_id: str,
        gateway: Gateway,
        *,
        assignment: Callable[[], bytes],
        linger_ms: int,
        spread: float,
        effects: list[Effect],
        end_commit: Callable[[Commit], None],
    ) -> None:
        """`assignment`: that of its SyncGroup, which the cluster shows. `spread`: this anchor's
        factor on the heartbeat interval, so that the heartbeats of many anchors drift apart.
        `effects` takes what the driver has to do, `end_commit` each stray commit that the cluster
        refuses now."""
        self.phase = AnchorPhase.ABSENT
        """Follows from the stage of its member."""
        self.is_here = False
        """Whether this gateway wants the anchor, or must still see it leave."""
        self.reason = NOT_JOINED
        """The reason why the group is not held, if it is not. Clients see it, too."""
        self.has_given_way = False
        """Whether the anchor ended because another member holds the group."""
        self.is_known_absent = False
        """Whether the cluster has said that no anchor of this state log is in the group, and no
        request was sent since then that may put one there."""
        self.wants_look = False
        """Whether it waits for a lookup in the cluster."""
        self.sent = 0
        """Counts the requests that confirm the anchor when they are answered."""
        self.confirmed = 0
        """The number of the latest such request that was answered."""
        self._assignment = assignment
        self._linger_ms = linger_ms
        self._effects = effects
        self._end_commit = end_commit
        self._member = UpstreamMember(
            group_id,
            gateway.join_metadata,
            reason="groupferry hosts this group",
            session_timeouts_ms=SESSION_TIMEOUTS_MS,
            repeats_max=JOIN_REPEATS_MAX,
            spread=spread,
        )
        self._assigned = b""
        """The latest assignment of the anchor."""
        self._renew_at_ms = 0
        """The time from which on it may be changed."""
        self._held: AnchorIds | None = None
        """The latest ids under which it held the group."""
        self._confirm_after = -1
        self._looks_up = True
        self._lost_ms = self._needed_until_ms = 0
        self._is_dropped = self._must_look = self._only_replaces = False
        self._reported: str | None = None
        self._strays: dict[Token, Commit] = {}
        """The commits that the cluster may still store: their answers were lost."""

    # -- what the group asks ---------------------------------------------------------------------

    def ids(self, now_ms: int, *, since: int = -1) -> AnchorIds | None:
        """The ids, if the cluster has confirmed them with a request later than number `since`."""
        place = self._member.stage
        if type(place) is In and now_ms < place.until_ms and self.confirmed > since:
            return place.ids
        return None

    def lost_for_ms(self, now_ms: int) -> int:
        """How long the anchor has not held the group; 0 while it holds it."""
        place = self._member.stage
        return max(0, now_ms - (place.until_ms if isinstance(place, In) else self._lost_ms))

    def need(self, now_ms: int, *, is_live: bool = False) -> None:
        """Keep the anchor for at least the linger time from now on; begin to join if there is none.
        `is_live`: whether the group has members already, so that the cluster may just have admitted
        another client."""
        self._only_replaces = False
        if not self.is_here:
            self.is_here = True
            self.has_given_way = False
            self.reason = NOT_JOINED
            self._must_look = is_live
            self._lost_ms = now_ms
            self._member.begin()
        self._needed_until_ms = now_ms + self._linger_ms

    def search(self, now_ms: int) -> None:
        """Take the place of an anchor of this state log that an earlier process has left in the
        group, or that has failed to leave. If there is none, `is_known_absent` says so."""
        if not self.is_here:
            self.need(now_ms, is_live=True)
            self._only_replaces = True

    @property
    def held_generation(self) -> int | None:
        """The latest generation in which the anchor held the group, if it has held it."""
        return None if self._held is None else self._held.generation

    def confirm(self) -> int:
        """Have the cluster confirm now that the anchor holds the group. Returns the number of the
        latest request that does not count."""
        self._confirm_after = self.sent
        return self.sent

    def drop(self) -> None:
        """Leave as soon as possible."""
        self._is_dropped = self.is_here

    def doubt(self, ids: AnchorIds, api: str, code: ErrorCode, now_ms: int) -> None:
        """The cluster refused these ids."""
        place = self._member.stage
        if isinstance(place, In) and place.ids == ids:
            self._lose(refusal_of(api, code), now_ms)

    def renew(self, commit: Commit, now_ms: int) -> None:
        """The answer to a commit was lost.

        The cluster may still store the commit until the anchor has a new member id, or has joined
        if the commit named no member. Only then has the commit ended.
        """
        self._strays[commit.token] = commit
        if isinstance(self._member.stage, In):
            self._end_strays(now_ms)
            # What waits behind this commit has waited since then.
            self._lost_ms = min(self._lost_ms, commit.sent_ms)

    def coordinator_moved(self, now_ms: int) -> None:
        """Look the coordinator up before the next request, and send one soon."""
        self._looks_up = True
        self._member.hurry(now_ms)

    # -- what happens to it ----------------------------------------------------------------------

    def on_answer(self, answer: Struct, now_ms: int) -> Loss | None:
        """The coordinator answered the outstanding request. Returns whether the group was lost."""
        before = self._member.stage
        request = self._member.on_answer(answer, now_ms)
        if request is None:
            return self._conclude(before, now_ms)
        self._ask(request, now_ms)
        return None

    def on_failure(self, reason: str, now_ms: int) -> None:
        """The coordinator did not answer the outstanding request, or is unknown."""
        self._looks_up = True
        before = self._member.stage
        self._member.on_no_answer(reason, now_ms)
        self._conclude(before, now_ms)

    def on_look(self, decision: RoutingDecision, now_ms: int) -> None:
        """The lookup that the anchor asked for has found who answers for the group."""
        if not self.wants_look:
            return
        self.wants_look = False
        self.is_known_absent = decision.mode is not Mode.UNKNOWN and not decision.has_anchor
        match decision.mode:
            case Mode.HOSTED if self._only_replaces and not decision.has_anchor:
                self._cease()
            case Mode.HOSTED:
                self._must_look = False
            case Mode.UNKNOWN:
                self._member.pause(now_ms)
            case _:
                self.has_given_way = True
                self._end([*self._strays.values()])
                self._cease()

    def start_again(self, now_ms: int) -> None:
        """Join again after a bug. No answer to an earlier request follows."""
        self.wants_look, self._looks_up = False, True
        if self.is_here:
            self._lost_ms = now_ms
            self._member.stage = Out(Refusal(Meaning.UNUSABLE, "a bug"))
            self.phase = AnchorPhase.LOST

    def take_over(self, ids: AnchorIds, now_ms: int) -> None:
        """Continue with the place that an adoption has taken in the group."""
        self.need(now_ms, is_live=True)
        self._must_look = False
        self.is_known_absent = False
        self._member.take_place(ids, now_ms)
        self._on_taken(ids, now_ms)

    def hand_over(self) -> AnchorIds | None:
        """Give its place in the group to a release, and end. None while it does not certainly hold
        the group, or waits for an answer."""
        place = self._member.stage
        if not isinstance(place, In) or place.asked_ms is not None or self._strays:
            return None
        self._cease()
        return place.ids

    # -- what it does next -----------------------------------------------------------------------

    def advance(self, now_ms: int, *, is_live: bool) -> None:
        """Send what is due. `is_live`: whether the group has members here."""
        if not self.is_here or self.wants_look or self._member.awaits_answer:
            return
        if is_live:
            self._needed_until_ms = now_ms + self._linger_ms
        is_needed = now_ms < self._needed_until_ms
        match self._member.stage:
            case In(ids=ids) as place:
                if self._is_dropped or not is_needed:
                    self.reason = NOT_JOINED  # should it join once more
                    self._ask(self._member.leave(ids), now_ms)
                elif now_ms >= place.beat_at_ms or self._must_confirm(place):
                    self._beat(place, now_ms, is_live=is_live)
            case Out() if not (self._is_dropped or is_needed or self._strays):
                self._cease()
            case Out(retry_at_ms=at_ms) if now_ms >= at_ms:
                if self._must_look:
                    self.wants_look = True
                else:
                    self._join(NO_MEMBER, now_ms)

    def next_ms(self, *, is_live: bool) -> int | None:
        """When `advance` has something to do; None while it waits for an answer."""
        if not self.is_here or self.wants_look:
            return None
        next_ms, place = self._member.next_ms(), self._member.stage
        if next_ms is None or not isinstance(place, In):
            return next_ms
        if self._is_dropped or self._must_confirm(place):
            return 0
        return next_ms if is_live else min(next_ms, self._needed_until_ms)

    def _must_confirm(self, place: In) -> bool:
        return self.confirmed <= self._confirm_after and place.refusal is None

    def _ask(self, message: Struct, now_ms: int) -> None:
        self.sent += 1
        self._effects.append(AskCoordinator(message, self._looks_up))
        self._looks_up = False
        self._follow(now_ms)

    def _join(self, member_id: str, now_ms: int) -> None:
        self.is_known_absent = False
        self._ask(self._member.join(now_ms, member_id=member_id), now_ms)

    def _beat(self, place: In, now_ms: int, *, is_live: bool) -> None:
        """Send a heartbeat. If the group's topics have changed, begin a generation with another
        assignment in place of it: the anchor keeps its member id and is alone in the group, so the
        coordinator answers immediately; commits wait meanwhile. If the coordinator does not begin
        the generation, the anchor remains in the present one; if its answer is lost, the next
        heartbeat tells."""
        is_due = is_live and now_ms >= self._renew_at_ms and place.refusal is None
        if is_due and self._assignment() != self._assigned:
            self._renew_at_ms = now_ms + RENEWAL_INTERVAL_MS
            self.reason = "the anchor renews its assignment"
            self._join(place.ids.member_id, now_ms)
        else:
            self._ask(self._member.beat(now_ms), now_ms)

    # -- what has become of it -------------------------------------------------------------------

    def _conclude(self, before: UpstreamStage, now_ms: int) -> Loss | None:
        """Draw the conclusions from an answer, or from its absence."""
        loss = None
        match before, self._member.stage:
            case Out(), _:
                pass  # a commit has reported the loss already
            case Leaving(), Out(refusal) if refusal is None or refusal.is_replaced:
                self._on_left(refusal)
            case Leaving(), Out(refusal=Refusal() as refusal):
                self._leave_failed(refusal, now_ms)
            case _, Joined() as joined:
                loss = self._on_joined(joined, now_ms)
            case Syncing(), In(ids=ids):
                self._on_taken(ids, now_ms)
            case _, In(refusal=None):
                self.confirmed = self.sent
            case _, In():
                self._looks_up = True
            case _, Out(refusal=Refusal() as refusal):
                self._lose(refusal, now_ms)
            case _:
                raise AssertionError(f"{before} is not followed by {self._member.stage}")
        self._follow(now_ms)
        return loss

    def _on_joined(self, joined: Joined, now_ms: int) -> Loss | None:
        if not joined.leads:
            reason = f"{joined.round.leader} leads the group"
            self._lose(Refusal(Meaning.OTHERS, reason), now_ms)
            return None
        self._assigned = self._assignment()
        self._ask(self._member.sync({joined.round.member_id: self._assigned}, now_ms), now_ms)
        return self._loss_in(joined.round.generation_id)

    def _loss_in(self, present: int) -> Loss | None:
        """Find out whether another member had the group meanwhile, or may have had it.

        If a consumer had it, at least four generations have begun: with the removal of the anchor,
        with the consumer's joining and leaving, and with the anchor's return. Fewer may come from a
        late JoinGroup of this anchor, or of another gateway with the same state log. More may come
        from joins that got no answer. A group that was converted or deleted, or whose coordinator
        has lost its records, begins at generation 1.
        """
        if self._held is None:
            return None
        held = self._held.generation
        if present <= held:
            return GenerationWentBack(generation_before=held, generation=present)
        if present > held + max(GENERATIONS_OF_A_CONSUMER - 1, 1 + self._member.joins):
            reason = "another member was in the group in the cluster, and has left"
            return GroupTaken(reason=reason)
        return None

    def _on_taken(self, ids: AnchorIds, now_ms: int) -> None:
        self._held, self.confirmed = ids, self.sent
        self.need(now_ms)
        self._renew_at_ms = max(self._renew_at_ms, now_ms + HEARTBEAT_INTERVAL_MS)
        self._reported = None
        self._log("anchor_taken", member_id=ids.member_id, generation=ids.generation)
        self._follow(now_ms)
        self._end_strays(now_ms)

    def _end_strays(self, now_ms: int) -> None:
        """End commits under earlier member ids, which the cluster refuses now."""
        assert self._held is not None
        present = self._held.member_id
        strays = self._strays.values()
        self._end([one for one in strays if one.ids is None or one.ids.member_id != present])
        if self._strays:
            self._lose(Refusal(Meaning.GONE, "the answer to a commit was lost"), now_ms)

    def _end(self, commits: Iterable[Commit]) -> None:
        for commit in commits:
            del self._strays[commit.token]
            self._end_commit(commit)

    def _on_left(self, refusal: Refusal | None) -> None:
        """Note that the anchor is not in the group. If its instance was taken, a late JoinGroup has
        put another one in its place."""
        self.is_known_absent = refusal is None
        self._end([*self._strays.values()])
        self._log("anchor_left")
        self._cease()

    def _leave_failed(self, refusal: Refusal, now_ms: int) -> None:
        self._log("anchor_left_behind", level="warning", reason=refusal.reason)
        if self._strays:
            self._lose(refusal, now_ms)
        else:
            self._cease()

    def _cease(self) -> None:
        """The anchor is not in the group, or its absence does not need to be certain."""
        self._member.begin()
        self.is_here = self._is_dropped = self._must_look = self._only_replaces = False
        self._held = self._reported = None
        if self.phase is not AnchorPhase.ABSENT:
            self.phase = check_move(ANCHOR, self.phase, AnchorPhase.ABSENT)

    def _lose(self, refusal: Refusal, now_ms: int) -> None:
        """Note that the anchor does not certainly hold the group any more."""
        if isinstance(self._member.stage, In | Joined):
            self._member.give_up(refusal, now_ms)
        if refusal.meaning is Meaning.UNUSABLE:
            self.reason = "the anchor rejoins: its coordinator gave no usable answer"
            self._looks_up = True
        else:
            self.reason = f"the anchor rejoins: {refusal.reason}"
        is_taken = refusal.meaning in (Meaning.OTHERS, Meaning.HINDERED)
        self._must_look |= is_taken or refusal.is_replaced
        if self._reported != refusal.reason:
            self._log("anchor_lost", level="warning", reason=refusal.reason)
        self._reported = refusal.reason
        self._follow(now_ms)

    def _follow(self, now_ms: int) -> None:
        """Have the phase follow from the stage."""
        match self._member.stage:
            case Joining(place=place):
                phase = AnchorPhase.JOINING if place is None else AnchorPhase.RENEWING
            case Out(refusal=refusal):
                phase = AnchorPhase.ABSENT if refusal is None else AnchorPhase.LOST
            case stage:
                phase = _PHASES[type(stage)]
        if phase is self.phase:
            return
        if self.phase is AnchorPhase.STABLE:
            self._lost_ms = now_ms
        self.phase = check_move(ANCHOR, self.phase, phase)

    def _log(self, event: str, *, level: Level = "info", **fields: object) -> None:
        self._effects.append(Log(level, event, fields))
