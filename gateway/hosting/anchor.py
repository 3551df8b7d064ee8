"""One anchor: joins its group in the cluster, keeps its place, rejoins when lost, and finally
leaves.

One request to the coordinator is outstanding at a time. The group says at any time that it needs
the anchor, doubts it, or wants it dropped; `advance` then decides what to send.
"""

from collections.abc import Iterable, Set
from dataclasses import dataclass

from coordinator.interface.volatile_records import Token
from gateway.events.event import Level
from gateway.events.group_events import GenerationWentBack, GroupTaken
from gateway.hosting.adoption_requests import codes_of
from gateway.hosting.effects import AskCoordinator, Effect, Log
from gateway.hosting.identity import AnchorIds, Gateway, Guise
from gateway.hosting.shown_partitions import Shown
from gateway.hosting.standing import Verdict
from gateway.hosting.states import ANCHOR, AnchorPhase, Mode
from gateway.moves import moved
from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import ErrorCode, name_of
from kafka_codecs.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_codecs.join_group import JoinGroupProtocol, JoinGroupRequest, JoinGroupResponse
from kafka_codecs.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kafka_codecs.sync_group import SyncGroupAssignment, SyncGroupRequest, SyncGroupResponse

SESSION_TIMEOUTS_MS = (60_000, 45_000, 30_000, 10_000)
"""Tried in this order until the cluster accepts one. Long, because the sessions of the group's real
members expire sooner."""
HEARTBEAT_INTERVAL_MS = 3_000
"""As in Kafka's clients. The gateway notices a removed anchor at the next heartbeat, commit or
grant of partitions."""
ANXIOUS_INTERVAL_MS = 2_000
"""The heartbeat interval while the coordinator does not answer."""
FIRST_BACKOFF_MS, LAST_BACKOFF_MS = 100, 2_000
_STABLE = AnchorPhase.STABLE  # every commit asks, and Python 3.11 takes long to find it
JOIN_REPEATS_MAX = 10
"""How often a JoinGroup that was answered with REBALANCE_IN_PROGRESS is repeated at once."""
NOT_JOINED = "the anchor has not joined yet"
RENEWAL_INTERVAL_MS = 10_000
"""The least time between two generations that only renew the anchor's assignment."""
GENERATIONS_OF_A_CONSUMER = 4
"""How many generations begin, at least, until the anchor is back after a consumer had its group."""
NO_MEMBER = ""
"""The member id of a commit to a group without members."""

ABOUT_THE_ANCHOR = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.STALE_MEMBER_EPOCH,
    }
)
"""The anchor is no longer in the group, or no longer its only member. The last three: the cluster
has no such group any more, or one of the new protocol."""
SOMEBODY_ELSE = frozenset(
    {
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)
"""Answers to a JoinGroup: the group has consumers, is of another kind, or is full. The last two:
Kafka 4 refuses a waiting join as often as a native consumer tries to join as well, and cannot read
the anchor's subscription where native consumers are in the group."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Why the anchor may no longer hold its group."""

    why: str
    by_somebody_else: bool = False
    """Another member is in the group, and has no protocol in common with the anchor."""
    is_replaced: bool = False
    """Replaced by another process with the same state log, or by a late request of our own."""
    is_unanswered: bool = False
    """The coordinator gave no usable answer, or has moved."""


class Anchor:
    """The anchor of one group. Times are milliseconds."""

    def __init__(
        self,
        group_id: str,
        gateway: Gateway,
        *,
        shown: Shown,
        linger_ms: int,
        spread: float,
        effects: list[Effect],
    ) -> None:
        """`shown` are the partitions that the cluster shows as the anchor's. `spread`: this
        anchor's factor on the heartbeat interval, so that the heartbeats of many anchors drift
        apart. `effects` takes what the driver has to do."""
        self.phase = AnchorPhase.ABSENT
        self.is_here = False
        """Whether this gateway wants the anchor, or must still see it leave."""
        self.why = NOT_JOINED
        """While the group is not held, the reason. Clients see it too."""
        self.has_given_way = False
        """Whether the anchor ended because another member holds the group."""
        self.is_known_absent = False
        """Whether the cluster has said that no anchor of this state log is in the group, and no
        request was sent since then that may put one there."""
        self.loss: GroupTaken | GenerationWentBack | None = None
        """What shows that another member has been in the group since the anchor held it, or may
        have been. The group resets it."""
        self.wants_look = False
        """Whether it waits for a look at the cluster."""
        self.sent = 0
        """Counts the requests that confirm the anchor when they are answered."""
        self.confirmed = 0
        """The number of the latest such request that was answered."""
        self.ended: list[Token] = []
        """Stray commits that the cluster refuses by now. The group takes them out."""
        self._group_id = group_id
        self._shown = shown
        self._linger_ms = linger_ms
        self._spread = spread
        self._effects = effects
        self._guise = gateway.guise
        self._ids: AnchorIds | None = None
        self._assigned = b""
        """Its latest assignment."""
        self._renew_at_ms = 0
        """From when on it may be changed."""
        self._held_generation: int | None = None
        """The latest generation in which it held the group."""
        self._joins = 0
        """How many times it has tried to join since."""
        self._repeats = 0
        """How many times the present JoinGroup was repeated."""
        self._confirm_after = -1
        self._asked: Struct | None = None
        self._looks_up = True
        self._asked_ms = self._held_until_ms = self._lost_ms = self._needed_until_ms = 0
        self._backoff_ms = self._retry_at_ms = self._beat_at_ms = 0
        self._is_anxious = self._is_dropped = self._must_look = self._only_replaces = False
        self._reported: str | None = None
        self._strays: dict[Token, str] = {}
        self._session_timeouts_ms = list(SESSION_TIMEOUTS_MS)

    # -- what the group asks ---------------------------------------------------------------------

    def ids(self, now_ms: int, *, since: int = -1) -> AnchorIds | None:
        """The ids, if the cluster has confirmed them with a request later than number `since`."""
        is_held = self.phase is _STABLE and now_ms < self._held_until_ms
        return self._ids if is_held and self.confirmed > since else None

    def lost_for_ms(self, now_ms: int) -> int:
        """How long the anchor has not held the group; 0 while it holds it."""
        is_stable = self.phase is AnchorPhase.STABLE
        return max(0, now_ms - (self._held_until_ms if is_stable else self._lost_ms))

    def need(self, now_ms: int, *, is_live: bool = False) -> None:
        """Keep the anchor for at least the linger time from now on; begin to join if there is none.
        `is_live`: whether the group has members already, so that the cluster may just have admitted
        another client."""
        self._only_replaces = False
        if not self.is_here:
            self.is_here = True
            self.has_given_way = False
            self.why = NOT_JOINED
            self._must_look = is_live
            self._lost_ms = self._retry_at_ms = now_ms
            self._backoff_ms = 0
        self._needed_until_ms = now_ms + self._linger_ms

    def search(self, now_ms: int) -> None:
        """Take the place of an anchor of this state log that an earlier process has left in the
        group, or that has failed to leave. If there is none, `is_known_absent` says so."""
        if not self.is_here:
            self.need(now_ms, is_live=True)
            self._only_replaces = True

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
        if self.phase is AnchorPhase.STABLE and ids == self._ids:
            self._lose(_displaced(api, code), now_ms)

    def renew(self, ids: AnchorIds | None, commit: Token, sent_ms: int, now_ms: int) -> None:
        """The answer to a commit under these ids, sent at `sent_ms`, was lost.

        The cluster may still store the commit until the anchor has a new member id, or has joined
        if the commit named no member. Only then has the commit ended.
        """
        self._strays[commit] = ids.member_id if ids is not None else NO_MEMBER
        if self.phase is AnchorPhase.STABLE:
            self._end_strays(now_ms)
            # What waits behind this commit has waited since then.
            self._lost_ms = min(self._lost_ms, sent_ms)

    def coordinator_moved(self, now_ms: int) -> None:
        """Look the coordinator up before the next request, and send one soon."""
        self._looks_up = True
        self._beat_at_ms = now_ms

    # -- what happens to it ----------------------------------------------------------------------

    def answered(self, answer: Struct, now_ms: int) -> None:
        """The coordinator answered the outstanding request."""
        asked, self._asked = self._asked, None
        match asked, answer:
            case JoinGroupRequest(), JoinGroupResponse():
                self._joined(asked, answer, now_ms)
            case SyncGroupRequest(), SyncGroupResponse():
                if not self._lost_over("SyncGroup", answer.error_code, now_ms):
                    self._taken(now_ms)
            case HeartbeatRequest(), HeartbeatResponse():
                self._heartbeat_answered(answer, now_ms)
            case LeaveGroupRequest(), LeaveGroupResponse():
                self._left(answer, now_ms)
            case _:
                raise TypeError(f"{type(answer).__name__} answers no outstanding request")

    def failed(self, why: str, now_ms: int) -> None:
        """The coordinator did not answer the outstanding request, or is unknown."""
        asked, self._asked = self._asked, None
        self._looks_up = True
        if self.phase is AnchorPhase.LEAVING:
            self._leave_failed(why, now_ms)
        elif self.phase is AnchorPhase.RENEWING:
            self._move(AnchorPhase.STABLE, now_ms)
            self._beat_failed(why, now_ms)
        elif isinstance(asked, HeartbeatRequest):
            self._beat_failed(why, now_ms)
        else:
            self._lose(Lost(why, is_unanswered=True), now_ms)

    def looked(self, verdict: Verdict, now_ms: int) -> None:
        """The look that the anchor asked for has found who answers for the group."""
        if not self.wants_look:
            return
        self.wants_look = False
        self.is_known_absent = verdict.mode is not Mode.UNKNOWN and not verdict.has_anchor
        match verdict.mode:
            case Mode.HOSTED if self._only_replaces and not verdict.has_anchor:
                self._cease()
            case Mode.HOSTED:
                self._must_look = False
            case Mode.UNKNOWN:
                self._back_off(now_ms)
            case _:
                self.has_given_way = True
                self._end(list(self._strays))
                self._cease()

    def start_again(self, now_ms: int) -> None:
        """Join again after a bug."""
        self._asked, self.wants_look, self._looks_up = None, False, True
        if self.is_here:
            self.phase = AnchorPhase.LOST
            self._lost_ms = self._retry_at_ms = now_ms

    def take_over(self, ids: AnchorIds, now_ms: int) -> None:
        """Go on with the place that an adoption has taken in the group."""
        self.need(now_ms, is_live=True)
        self._must_look = False
        self.is_known_absent = False
        self._ids, self._asked_ms = ids, now_ms
        self._taken(now_ms)
        self._beat_at_ms = now_ms

    def hand_over(self) -> AnchorIds | None:
        """Give its place in the group to a release, and end. None while it does not certainly hold
        the group, or waits for an answer."""
        if self.phase is not AnchorPhase.STABLE or self._asked is not None or self._strays:
            return None
        ids = self._ids
        self._cease()
        return ids

    # -- what it does next -----------------------------------------------------------------------

    def advance(self, now_ms: int, *, is_live: bool) -> None:
        """Send what is due. `is_live`: whether the group has members here."""
        if not self.is_here or self._asked is not None or self.wants_look:
            return
        if is_live:
            self._needed_until_ms = now_ms + self._linger_ms
        is_needed = now_ms < self._needed_until_ms
        if self.phase is AnchorPhase.STABLE:
            if self._is_dropped or not is_needed:
                self._leave(now_ms)
            elif now_ms >= self._beat_at_ms or self._must_confirm:
                if is_live and self._may_renew(now_ms):
                    self._renew(now_ms)
                else:
                    self._beat(now_ms)
        elif not (self._is_dropped or is_needed or self._strays):
            self._cease()
        elif now_ms >= self._retry_at_ms:
            if self._must_look:
                self.wants_look = True
            else:
                self._move(AnchorPhase.JOINING, now_ms)
                self._repeats = 0
                self._join(NO_MEMBER, now_ms)

    def next_ms(self, *, is_live: bool) -> int | None:
        """When `advance` has something to do; None while it waits for an answer."""
        if not self.is_here or self._asked is not None or self.wants_look:
            return None
        if self.phase is AnchorPhase.STABLE:
            if self._is_dropped or self._must_confirm:
                return 0
            return self._beat_at_ms if is_live else min(self._beat_at_ms, self._needed_until_ms)
        return self._retry_at_ms

    @property
    def _must_confirm(self) -> bool:
        return self.confirmed <= self._confirm_after and not self._is_anxious

    def _ask(self, message: Struct, now_ms: int) -> None:
        self._asked, self._asked_ms = message, now_ms
        self.sent += 1
        self._effects.append(AskCoordinator(message, self._looks_up))
        self._looks_up = False

    # -- taking it -------------------------------------------------------------------------------

    def _join(self, member_id: str, now_ms: int) -> None:
        """Join under a new member id, as leader of a new generation.

        If there was a predecessor, the first JoinGroup only takes its place in its generation,
        which an old broker does not persist. The second one, under the new id, starts a generation
        that the coordinator persists.
        """
        self._joins += 1
        self.is_known_absent = False
        guise = self._guise
        message = JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=self._session_timeouts_ms[0],
            rebalance_timeout_ms=self._session_timeouts_ms[0],
            member_id=member_id,
            group_instance_id=guise.instance_id,
            protocol_type=guise.protocol_type,
            protocols=(JoinGroupProtocol(name=guise.protocol, metadata=guise.metadata),),
            reason="groupferry hosts this group",
        )
        self._ask(message, now_ms)

    def _joined(self, asked: JoinGroupRequest, answer: JoinGroupResponse, now_ms: int) -> None:
        timeouts_ms = self._session_timeouts_ms
        if answer.error_code == ErrorCode.INVALID_SESSION_TIMEOUT and len(timeouts_ms) > 1:
            del timeouts_ms[0]
            self._join(asked.member_id, now_ms)
            return
        if answer.error_code and self.phase is AnchorPhase.RENEWING:
            self._move(AnchorPhase.STABLE, now_ms)
            self._refused_as_member("JoinGroup", answer.error_code, now_ms)
            return
        is_hindered = answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS
        if is_hindered and self._repeats < JOIN_REPEATS_MAX:
            self._repeats += 1
            self._joins -= 1  # it began no generation
            self._join(asked.member_id, now_ms)
            return
        if answer.error_code in SOMEBODY_ELSE:
            self._lose(Lost("another member is in the group", by_somebody_else=True), now_ms)
            return
        if self._lost_over("JoinGroup", answer.error_code, now_ms):
            return
        leads = answer.leader == answer.member_id
        if asked.member_id == NO_MEMBER and (answer.skip_assignment or not leads):
            self._join(answer.member_id, now_ms)
            return
        if not leads:
            self._lose(Lost(f"{answer.leader} leads the group", by_somebody_else=True), now_ms)
            return
        self._compare_generations(answer.generation_id)
        self._ids = AnchorIds(
            member_id=answer.member_id,
            generation=answer.generation_id,
            instance_id=self._guise.instance_id,
        )
        self._move(AnchorPhase.SYNCING, now_ms)
        self._assigned = self._shown.assignment()
        self._ask(
            SyncGroupRequest(
                group_id=self._group_id,
                generation_id=answer.generation_id,
                member_id=answer.member_id,
                group_instance_id=self._guise.instance_id,
                protocol_type=self._guise.protocol_type,
                protocol_name=self._guise.protocol,
                assignments=(
                    SyncGroupAssignment(member_id=answer.member_id, assignment=self._assigned),
                ),
            ),
            now_ms,
        )

    def _compare_generations(self, present: int) -> None:
        """Find out whether another member had the group meanwhile, or may have had it.

        If a consumer had it, at least four generations have begun: with the removal of the anchor,
        with the consumer's joining and leaving, and with the anchor's return. Fewer may come from a
        late JoinGroup of this anchor, or of another gateway with the same state log. More may come
        from joins that got no answer. A group that was converted or deleted, or of which its
        coordinator has lost the records, begins at generation 1.
        """
        held = self._held_generation
        if held is None:
            return
        if present <= held:
            self.loss = GenerationWentBack(generation_before=held, generation=present)
        elif present > held + max(GENERATIONS_OF_A_CONSUMER - 1, 1 + self._joins):
            why = "another member was in the group in the cluster, and has left"
            self.loss = GroupTaken(reason=why)

    def _taken(self, now_ms: int) -> None:
        assert self._ids is not None
        self._held_generation, self._joins = self._ids.generation, 0
        self._confirm(HEARTBEAT_INTERVAL_MS, now_ms)
        self.need(now_ms)
        self._renew_at_ms = max(self._renew_at_ms, now_ms + HEARTBEAT_INTERVAL_MS)
        self._reported = None
        self._backoff_ms = 0
        self._move(AnchorPhase.STABLE, now_ms)
        ids = self._ids
        self._log("anchor_taken", member_id=ids.member_id, generation=ids.generation)
        self._end_strays(now_ms)

    def _end_strays(self, now_ms: int) -> None:
        """End commits under earlier member ids, which the cluster refuses by now."""
        assert self._ids is not None
        present = self._ids.member_id
        self._end([commit for commit, under in self._strays.items() if under != present])
        if self._strays:
            self._lose(Lost("the answer to a commit was lost"), now_ms)

    def _end(self, commits: Iterable[Token]) -> None:
        for commit in commits:
            del self._strays[commit]
            self.ended.append(commit)

    # -- keeping it ------------------------------------------------------------------------------

    def _may_renew(self, now_ms: int) -> bool:
        """Whether to change the assignment now, because the group's topics have changed."""
        return (
            now_ms >= self._renew_at_ms
            and not self._is_anxious
            and self._shown.assignment() != self._assigned
        )

    def _renew(self, now_ms: int) -> None:
        """Begin a generation with another assignment, in place of a heartbeat. It keeps its member
        id and is alone in the group, so the coordinator answers at once; commits wait meanwhile. If
        the coordinator does not begin the generation, the anchor remains in the present one; if its
        answer is lost, the next heartbeat tells."""
        assert self._ids is not None
        self._renew_at_ms = now_ms + RENEWAL_INTERVAL_MS
        self.why = "the anchor renews its assignment"
        self._move(AnchorPhase.RENEWING, now_ms)
        self._join(self._ids.member_id, now_ms)

    def _beat(self, now_ms: int) -> None:
        assert self._ids is not None
        self._ask(
            HeartbeatRequest(
                group_id=self._group_id,
                generation_id=self._ids.generation,
                member_id=self._ids.member_id,
                group_instance_id=self._guise.instance_id,
            ),
            now_ms,
        )

    def _heartbeat_answered(self, answer: HeartbeatResponse, now_ms: int) -> None:
        if self.phase is not AnchorPhase.STABLE:  # a commit has reported the loss already
            return
        if answer.error_code:
            self._refused_as_member("Heartbeat", answer.error_code, now_ms)
        else:
            self._confirm(HEARTBEAT_INTERVAL_MS, now_ms)

    def _refused_as_member(self, api: str, error_code: int, now_ms: int) -> None:
        if error_code in ABOUT_THE_ANCHOR:
            self._lost_over(api, error_code, now_ms)
        else:
            self._beat_failed(_refused(api, error_code), now_ms)

    def _beat_failed(self, why: str, now_ms: int) -> None:
        self._looks_up = self._is_anxious = True
        if self.phase is not AnchorPhase.STABLE:
            return
        self._beat_at_ms = now_ms + round(ANXIOUS_INTERVAL_MS * self._spread)
        if now_ms >= self._held_until_ms:
            self._lose(Lost(why, is_unanswered=True), now_ms)

    def _confirm(self, interval_ms: int, now_ms: int) -> None:
        """The coordinator answered the latest request: the session lasts from its sending on."""
        self._held_until_ms = self._asked_ms + self._session_timeouts_ms[0]
        self.confirmed = self.sent
        self._is_anxious = False
        self._beat_at_ms = now_ms + round(interval_ms * self._spread)

    # -- losing and leaving ----------------------------------------------------------------------

    def _leave(self, now_ms: int) -> None:
        assert self._ids is not None
        self.why = NOT_JOINED  # should it join once more
        self._move(AnchorPhase.LEAVING, now_ms)
        self._ask_to_leave(self._ids.member_id, self._guise, now_ms)

    def _ask_to_leave(self, member_id: str, guise: Guise, now_ms: int) -> None:
        member = MemberIdentity(member_id=member_id, group_instance_id=guise.instance_id)
        self._ask(LeaveGroupRequest(group_id=self._group_id, members=(member,)), now_ms)

    def _left(self, answer: LeaveGroupResponse, now_ms: int) -> None:
        if failures := _failures(answer):
            self._leave_failed(_refused("LeaveGroup", min(failures)), now_ms)
            return
        # Otherwise a late JoinGroup has put another one in its place.
        self.is_known_absent = ErrorCode.FENCED_INSTANCE_ID not in codes_of(answer)
        self._end(list(self._strays))
        self._log("anchor_left")
        self._cease()

    def _leave_failed(self, why: str, now_ms: int) -> None:
        self._log("anchor_left_behind", level="warning", reason=why)
        if self._strays:
            self._lose(Lost(why, is_unanswered=True), now_ms)
        else:
            self._cease()

    def _cease(self) -> None:
        """The anchor is not in the group, or its absence does not need to be certain."""
        if self.phase is not AnchorPhase.ABSENT:
            self.phase = moved(ANCHOR, self.phase, AnchorPhase.ABSENT)
        self.is_here = self._is_dropped = self._must_look = self._only_replaces = False
        self._held_generation, self._joins = None, 0
        self._reported = None

    def _lost_over(self, api: str, error_code: int, now_ms: int) -> bool:
        """Whether this answer shows that the anchor does not hold the group."""
        if error_code in ABOUT_THE_ANCHOR:
            self._lose(_displaced(api, ErrorCode(error_code)), now_ms)
        elif error_code:
            self._looks_up = True
            self._lose(Lost(_refused(api, error_code), is_unanswered=True), now_ms)
        return bool(error_code)

    def _lose(self, lost: Lost, now_ms: int) -> None:
        if lost.is_unanswered:
            self.why = "the anchor rejoins: its coordinator gave no usable answer"
            self._looks_up = True
        else:
            self.why = f"the anchor rejoins: {lost.why}"
        self._must_look |= lost.by_somebody_else or lost.is_replaced
        if self._reported != lost.why:
            self._log("anchor_lost", level="warning", reason=lost.why)
        self._reported = lost.why
        if self.phase is AnchorPhase.STABLE:
            self._retry_at_ms = now_ms
        else:
            self._back_off(now_ms)
        self._move(AnchorPhase.LOST, now_ms)

    def _back_off(self, now_ms: int) -> None:
        self._backoff_ms = min(max(2 * self._backoff_ms, FIRST_BACKOFF_MS), LAST_BACKOFF_MS)
        self._retry_at_ms = now_ms + self._backoff_ms

    def _move(self, phase: AnchorPhase, now_ms: int) -> None:
        if self.phase is AnchorPhase.STABLE:
            self._lost_ms = now_ms
        self.phase = moved(ANCHOR, self.phase, phase)

    def _log(self, event: str, *, level: Level = "info", **fields: object) -> None:
        self._effects.append(Log(level, event, {"group_id": self._group_id, **fields}))


def _failures(answer: LeaveGroupResponse) -> Set[int]:
    """Why the member may still be in the group."""
    # The latter say that the cluster had removed it already.
    return codes_of(answer) - {ErrorCode.NONE} - ABOUT_THE_ANCHOR


def _displaced(api: str, code: ErrorCode) -> Lost:
    return Lost(
        f"the cluster answered {api} with {code.name}",
        is_replaced=code is ErrorCode.FENCED_INSTANCE_ID,
    )


def _refused(api: str, error_code: int) -> str:
    return f"{api} of the anchor was answered with {name_of(error_code)}"
