"""Who answers for one group, as far as the cluster says.

A group with live members in the cluster is forwarded: hosted, its partitions would have two owners.
While the cluster does not say who is in a group, clients are told to retry. This lookup only avoids
hopeless attempts; the anchor's own join decides in the end. A group that is live here is looked up
only after its anchor was refused or replaced.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from coordinator.interface.events import JoinGroupReceived
from coordinator.interface.records import ReleaseState
from coordinator.interface.replies import JoinGroupReply
from gateway.events.event import Level
from gateway.events.group_events import (
    AnchorJoined,
    GroupForwarded,
    HostingEndCause,
    HostingEnded,
    HostingStarted,
)
from gateway.hosting.answers import JOINS, RefusalReason
from gateway.hosting.calls import Call
from gateway.hosting.effects import Effect, EmitNow, Log
from gateway.hosting.identity import OLDER_PROTOCOL_TYPE, log_of, run_of
from gateway.hosting.lookup_outcome import (
    BrokerTooOld,
    LiveMembers,
    LookupFailed,
    LookupOutcome,
    NoMembers,
    OtherGroupType,
    foreign_kind,
)
from gateway.hosting.pending_ids import PendingIds
from gateway.hosting.rules import HostingRules, matches
from gateway.hosting.states import Mode, Stage
from kafka_codecs.declaration import Struct
from kafka_codecs.describe_groups import DescribedGroup
from kafka_codecs.heartbeat import HeartbeatResponse

FOUND_FREE_FOR_MS = 5_000
"""How long a group counts as free after a lookup, for requests that cannot add a member."""
FORWARDED_FOR_MS = 60_000
"""How long a group counts as the cluster's after a lookup, for the same requests."""

_REFUSAL_REASONS = {
    Mode.ELSEWHERE: RefusalReason.ELSEWHERE,
    Mode.UNKNOWN: RefusalReason.HOLDER_UNKNOWN,
}


@dataclass(frozen=True, slots=True)
class RoutingDecision:
    """The mode and the reason for it, which clients may see."""

    mode: Mode
    reason: str = ""
    has_anchor: bool = False
    """Whether an anchor with our state log holds the group: of this process or of an earlier
    one."""

    @property
    def cause(self) -> RefusalReason | None:
        """Why the gateway does not answer for the group; None if it does, or if the group is
        forwarded."""
        return _REFUSAL_REASONS.get(self.mode)


RELEASED = "released"
"""Why a group is forwarded that the operator has given back."""

NOT_ADOPTED = "it is empty, and neither adopted nor hosted by a setting (groups_host)"
"""Why a group without members is forwarded."""

EMPTY = "it has no members in the cluster"
NATIVE_FIRST = "its first member uses the new protocol, which the cluster does not have"
"""Why a group without members in the cluster is hosted."""

OLDER = (
    "an anchor of groupferry 0.2 holds it, which this version does not replace: have 0.2 release"
    " the group, or wait until the anchor's session is over, 60 s after 0.2 was stopped"
)
"""Why a group waits whose anchor has a protocol type of its own."""

HERE = RoutingDecision(Mode.HOSTED, "it has members here")
"""The decision on a group with members here."""


MOVING = RoutingDecision(Mode.FORWARDED, "it changes its coordinator")
"""The decision on a group while its adoption or release is under way, for requests that the cluster
answers in either mode."""


@dataclass(slots=True)
class GroupRouting:
    """The latest decision on a group, and what it rests on. `outbox` takes lines and events for
    operators; a hosted group has its other effects there as well, so that their order is kept."""

    group_id: str
    rules: HostingRules
    decision: RoutingDecision = RoutingDecision(
        Mode.UNKNOWN, "the gateway has not asked the cluster yet"
    )
    seen_ms: int | None = None
    """When the cluster last said who is in the group."""
    outbox: list[Effect] = field(default_factory=list)
    adopt_from_ms: int = 0
    """When the group may be considered for adoption again."""
    adoptions_undone: int = 0
    """How often its adoption was undone since the gateway has started."""
    is_configured: bool = field(init=False)
    """Whether a setting leaves the group to the cluster."""
    is_hosted_by_setting: bool = field(init=False)
    """Whether a setting has the group hosted from its first join on."""
    is_hosting: bool = False
    """Whether operators have learned that the gateway hosts the group."""
    pending_ids: PendingIds | None = None
    """Ids that the cluster has handed out since the group has moved there."""
    _others_gone_ms: int = 0
    _reported: str = ""
    _lacks_generation: bool = False
    """Whether no event has the anchor's generation of this hosting."""
    _told: Mode | None = None
    """The mode that operators have learned last."""

    def __post_init__(self) -> None:
        """The patterns cannot change while the gateway runs."""
        self.is_configured = matches(self.group_id, self.rules.forward_patterns)
        self.is_hosted_by_setting = matches(self.group_id, self.rules.host_patterns)

    @property
    def is_released(self) -> bool:
        """Whether the operator has given the group back to the cluster."""
        return self.group_id in self.rules.released

    @property
    def is_adopted(self) -> bool:
        """Whether the group is hosted also while it is empty, until an operator releases it."""
        return self.group_id in self.rules.adopted

    def record_log(self, *, is_adopted: bool, release: ReleaseState | None) -> None:
        """Note what the log has of the group now. One that is being released is not yet."""
        rules = self.rules
        (rules.adopted.add if is_adopted else rules.adopted.discard)(self.group_id)
        if release is None:
            rules.released.discard(self.group_id)
        elif not release.is_under_way:
            rules.released.add(self.group_id)

    @property
    def is_left(self) -> bool:
        """Whether the operator leaves the group to the cluster, no matter who is in it. A setting
        does so only after the release of a group that was adopted before."""
        return self.is_released or (self.is_configured and not self.is_adopted)

    def may_be_adopted(self, now_ms: int) -> bool:
        """Whether the gateway may adopt the group by itself now, as far as operators and the time
        of the last attempt are concerned."""
        return now_ms >= self.adopt_from_ms and not (self.is_released or self.is_configured)

    def invites_adoption(self, answer: Struct) -> bool:
        """Whether this answer of the cluster may be a reason to adopt the group."""
        is_quiet = isinstance(answer, HeartbeatResponse) and not answer.error_code
        return is_quiet and self.rules.adoption == "auto"

    @property
    def reason_left(self) -> str:
        """Why the operator leaves the group to the cluster."""
        return "as configured (groups_forward)" if self.is_configured else RELEASED

    @property
    def is_forwarded(self) -> bool:
        """Whether the group belongs to the cluster, as far as known."""
        return self.decision.mode is Mode.FORWARDED or self.is_left

    def take_outbox(self) -> Sequence[Effect]:
        """What operators are to learn, once."""
        outbox = tuple(self.outbox)
        self.outbox.clear()
        return outbox

    def recent_decision(self, now_ms: int) -> RoutingDecision | None:
        """A recent decision, for requests that cannot add a member, such as every commit of a
        consumer that assigns itself. None if the cluster must be asked."""
        if self.is_left:
            return self.take(NoMembers(), now_ms)
        if self.seen_ms is None:
            return None
        age_ms = now_ms - self.seen_ms
        match self.decision.mode:
            case Mode.FORWARDED if age_ms < FORWARDED_FOR_MS:
                return self.decision
            case Mode.HOSTED if age_ms < FOUND_FREE_FOR_MS:
                return self.decision
            case _:
                return None

    def find_decision(self, call: Call, now_ms: int) -> RoutingDecision | None:
        """The decision that is fresh enough for this call; None if the cluster must be asked. A
        call that may add a member needs a lookup of its own, but only once the engine has found
        nothing wrong with it."""
        if call.has_look and not self.is_left:
            return self.decision
        recent = self.recent_decision(now_ms)
        if recent is None or call.api not in JOINS or self.is_left:
            return recent
        if recent.mode is Mode.HOSTED:
            return None if call.stage is Stage.LOOKING else recent
        return recent if _names_member(call) else None

    def is_left_behind(self, call: Call, now_ms: int) -> bool | None:
        """Whether an anchor with our state log holds a group that has no anchor here: one of an
        earlier run, or one that failed to leave. None if the cluster must be asked: a recent
        decision may have seen an anchor that has left since."""
        if call.has_look:
            return self.decision.has_anchor
        recent = self.recent_decision(now_ms)
        return None if recent is None or recent.has_anchor else False

    def record_relayed(
        self, connection: int | None, request: Struct, answer: Struct, now_ms: int
    ) -> None:
        """The cluster has answered a request on this connection, perhaps with a member id."""
        if self.pending_ids is None:
            return
        if self.pending_ids.is_over(now_ms):
            self.pending_ids = None
        else:
            self.pending_ids.record_relayed(connection, request, answer)

    def answer_repeated(self, call: Call, now_ms: int) -> JoinGroupReply | None:
        """The answer to a JoinGroup that asks for an id again shortly after a move; None if the
        cluster answers."""
        ids = self.pending_ids
        return None if ids is None or ids.is_over(now_ms) else ids.answer_repeated(call)

    def adopt(self, now_ms: int, anchor_generation: int | None) -> None:
        """The gateway has taken over the group, and its anchor holds it."""
        self.rules.released.discard(self.group_id)
        self._serve("it was adopted", now_ms, has_anchor=True)
        self.host(self.decision.reason, anchor_generation)

    def forget(self, reason: str) -> None:
        """Have each call need a new lookup."""
        self.decision = RoutingDecision(Mode.UNKNOWN, reason)
        self.seen_ms = None

    def host(self, reason: str, anchor_generation: int | None = None) -> None:
        """The gateway's engine has the group from now on. `anchor_generation`: the generation in
        which the anchor holds the group, if it does."""
        if not self.is_hosting:
            started = HostingStarted(reason=reason, anchor_generation=anchor_generation)
            self.outbox.append(EmitNow(started))
            self._lacks_generation = anchor_generation is None
        self._told, self.is_hosting = Mode.HOSTED, True

    def report_anchor(self, generation: int | None) -> None:
        """Report the generation in which the anchor holds the group, if the hosting began without
        an anchor."""
        if self._lacks_generation and self.is_hosting and generation is not None:
            self._lacks_generation = False
            self.outbox.append(EmitNow(AnchorJoined(anchor_generation=generation)))

    def end_hosting(self, cause: HostingEndCause) -> None:
        """The gateway's engine no longer has the group."""
        if self.is_hosting:
            self.outbox.append(EmitNow(HostingEnded(cause=cause)))
        self.is_hosting = False

    def is_ours(self, group: DescribedGroup) -> bool:
        """Whether the group's only member in the cluster is an anchor with our state log, of this
        process or an earlier one."""
        return log_of(group) != "" and self._may_be_ours(group)

    def _may_be_ours(self, anchored: DescribedGroup) -> bool:
        """Whether the group's only member is an anchor of this process or an earlier one, or is an
        anchor that joins just now."""
        has_our_log = log_of(anchored) in ("", self.rules.gateway.log_id)
        is_alone = len(anchored.members) == 1 and not self._is_older(anchored)
        return has_our_log and is_alone and not self._is_successors(anchored)

    def _is_older(self, anchored: DescribedGroup) -> bool:
        """Whether groupferry 0.2 has joined the anchor, with our state log as far as known."""
        is_older = anchored.protocol_type == OLDER_PROTOCOL_TYPE
        return is_older and log_of(anchored) in ("", self.rules.gateway.log_id)

    def _is_successors(self, anchored: DescribedGroup) -> bool:
        """Whether a process that opened our state log after this one joined the anchor. An earlier
        one may also have done so just now: its request was on the way when it was killed."""
        run_id = run_of(anchored.members[0].member_metadata)
        return run_id is not None and run_id > self.rules.gateway.run_id

    def take(
        self,
        outcome: LookupOutcome,
        now_ms: int,
        *,
        is_held: bool = False,
        has_native_join: bool = False,
    ) -> RoutingDecision:
        """The decision on what a lookup has found: the first case that applies. `is_held`: whether
        the group has members or an anchor here. `has_native_join`: whether a consumer of the new
        protocol waits to join."""
        is_left, rules = self.is_left and not is_held, self.rules
        match outcome:
            case LiveMembers(anchored=DescribedGroup() as group) if self._is_older(group):
                return self._withhold(Mode.UNKNOWN, "older_anchor", OLDER, now_ms)
            case LiveMembers(anchored=DescribedGroup() as group) if self._may_be_ours(group):
                # One that is there again after a failover of the coordinator has to leave first.
                reason = "its anchor is still in the cluster" if is_left else "its anchor holds it"
                return self._serve(reason, now_ms, has_anchor=True)
            case _ if is_left:
                return self.forward(self.reason_left, now_ms)
            case BrokerTooOld():
                reason = "its coordinator is older than Kafka 2.3, so no anchor can hold the group"
                return self.forward(reason, now_ms)
            case LookupFailed(error):
                return self._leave_unknown(error, now_ms)
            case NoMembers() if rules.why_none_is_taken and not is_held:
                return self.forward(rules.why_none_is_taken, now_ms)
            case NoMembers() if now_ms < self._others_gone_ms:
                reason = (
                    "its members are in another state log, or in one that was lost: the gateway"
                    " grants nothing until their longest possible session has ended,"
                    f" {rules.longest_session_ms / 1000:.0f} s after the other gateway's anchor was"
                    " last seen (group.max.session.timeout.ms)"
                )
                return self._withhold(Mode.UNKNOWN, "group_waits_for_sessions", reason, now_ms)
            case NoMembers() if is_held or self.is_adopted or self.is_hosted_by_setting:
                return self._serve(EMPTY, now_ms)
            case NoMembers(takes_natives=False) if has_native_join:
                return self._serve(NATIVE_FIRST, now_ms)
            case NoMembers():
                return self.forward(NOT_ADOPTED, now_ms)
            case LiveMembers(anchored=DescribedGroup() as group):
                return self._leave_elsewhere(group, now_ms)
            case _:
                return self._leave_occupied(outcome, now_ms)

    def _leave_unknown(self, error: str, now_ms: int) -> RoutingDecision:
        if self.decision.mode is Mode.FORWARDED:
            # Its members' heartbeats must not all wait for lookups that fail.
            self.seen_ms = now_ms - FORWARDED_FOR_MS + FOUND_FREE_FOR_MS
            return self.decision
        reason = "the cluster does not say who is in the group"
        self._report("group_state_unknown", f"{reason}: {error}", level="warning")
        return self._decide(RoutingDecision(Mode.UNKNOWN, reason), now_ms)

    def _leave_occupied(
        self, outcome: LiveMembers | OtherGroupType, now_ms: int
    ) -> RoutingDecision:
        """Leave a group to its members in the cluster."""
        protocol = outcome.protocol if isinstance(outcome, LiveMembers) else ""
        if kind := foreign_kind(outcome.protocol_type, protocol):
            return self.forward(kind, now_ms)
        reason = f"in the cluster itself, the group has {outcome}"
        if self.is_adopted and self._told is not Mode.FORWARDED:
            fields = {"reason": f"{reason}: it is hosted after they leave"}
            self.outbox.append(Log("warning", "adopted_group_forwarded", fields))
        return self.forward(reason, now_ms)

    def _leave_elsewhere(self, group: DescribedGroup, now_ms: int) -> RoutingDecision:
        """Leave a group to the gateway whose anchor holds it. After that has gone, its members may
        still believe that they own partitions, until their sessions are over."""
        gateway, log_id = self.rules.gateway, log_of(group)
        if len(group.members) > 1:
            reason = f"more than one gateway is in the group: {_whereabouts(group)}"
        elif log_id in ("", gateway.log_id):
            reason = f"a gateway with our state log has taken the group, {_whereabouts(group)}"
            if self.rules.shares_log:
                return self._decide(RoutingDecision(Mode.UNKNOWN, reason), now_ms)
        else:
            reason = (
                f"another gateway has the group, {_whereabouts(group)}, with the state log"
                f" {log_id}; ours is {gateway.log_id}"
            )
        self._others_gone_ms = now_ms + self.rules.longest_session_ms
        self._told = None
        return self._withhold(Mode.ELSEWHERE, "group_hosted_elsewhere", reason, now_ms)

    # -- how a decision takes effect -------------------------------------------------------------

    def forward(self, reason: str, now_ms: int) -> RoutingDecision:
        """Leave the group to the cluster's coordinator until it is seen to be free again."""
        self._reported = ""
        if self._told is not Mode.FORWARDED:
            self.outbox.append(EmitNow(GroupForwarded(reason=reason)))
        self._told = Mode.FORWARDED
        return self._decide(RoutingDecision(Mode.FORWARDED, reason), now_ms)

    def _serve(self, reason: str, now_ms: int, *, has_anchor: bool = False) -> RoutingDecision:
        """Have the gateway's engine serve the group."""
        self._reported = ""
        return self._decide(RoutingDecision(Mode.HOSTED, reason, has_anchor=has_anchor), now_ms)

    def _withhold(self, mode: Mode, event: str, reason: str, now_ms: int) -> RoutingDecision:
        """Have neither the gateway nor the cluster serve the group."""
        self._report(event, reason, level="error")
        return self._decide(RoutingDecision(mode, reason), now_ms)

    def _decide(self, decision: RoutingDecision, now_ms: int) -> RoutingDecision:
        self.decision, self.seen_ms = decision, now_ms
        return decision

    def _report(self, event: str, reason: str, *, level: Level) -> None:
        """Log one line per reason, however often the group's clients ask."""
        if self._reported != reason:
            self.outbox.append(Log(level, event, {"reason": reason}))
        self._reported = reason


def _names_member(call: Call) -> bool:
    """Whether the call is a member's rejoin. During a rebalance each member sends one, and a lookup
    for each would cost the square of their number. If the member is no longer in the group, the
    cluster says so, and the client's next join names no member."""
    return isinstance(call.event, JoinGroupReceived) and bool(call.event.member_id)


def _whereabouts(group: DescribedGroup) -> str:
    return ", ".join(f"{member.client_id} at {member.client_host}" for member in group.members)
