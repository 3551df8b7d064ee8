"""A release as a move of one group: when it begins, what its steps mean for the engine and the
anchor, and how it ends.

`Releasing` decides the steps. See `gateway/docs/release.md`.
"""

from collections.abc import Sequence

from coordinator.group.state import GroupState
from coordinator.handlers.release import may_begin, members_not_taken
from coordinator.interface.events import ReleaseBegan
from coordinator.interface.records import ClassicGroupValue, Member, ReleaseState
from gateway.events import group_events
from gateway.hosting.grace import Grace
from gateway.hosting.group_parts import GroupParts
from gateway.hosting.move_requests import AnyRequest, NewProtocol, ReleaseOutcome, ReleaseRequest
from gateway.hosting.pending_ids import REMEMBERED_MS, PendingIds
from gateway.hosting.release import Releasing
from gateway.hosting.release_steps import HandedOver
from gateway.hosting.standing import RELEASED
from gateway.hosting.states import AnchorPhase, Mode

SETTLE_MAX_MS = 30_000
"""How long a release waits for the end of a rebalance before it begins."""


def why_not_released(state: GroupState, cluster: NewProtocol) -> tuple[str, ...]:
    """Why the group cannot be released as it is, one for each member that speaks against it."""
    if cluster.why_no_natives:
        what = "uses the new protocol"
        reason, remedy = cluster.why_no_natives, "roll it back to the classic one first"
    else:
        what = "uses the classic protocol beside native members"
        reason, remedy = cluster.why_not_mixed, "roll it to the new one first"
    members = members_not_taken(
        state, takes_natives=cluster.takes_natives, takes_mixed=cluster.takes_mixed
    )
    return tuple(f"{_describe_member(member)} {what}, and {reason}: {remedy}" for member in members)


def _describe_member(member: Member) -> str:
    return f"{member.member_id} ({member.client_id} at {member.client_host})"


class ReleaseStrategy:
    """What is particular to a release."""

    why_busy = "it is being released: try again"
    why_ending = "the gateway is shutting down; a release that has begun goes on with the next"
    why_forwarded = RELEASED

    def __init__(self, parts: GroupParts) -> None:
        self.machine: Releasing | None = None
        """From the beginning to the end."""
        self.waits_until_ms: int | None = None
        """When `begin` no longer waits for the end of a rebalance, or for the anchor."""
        self._parts = parts
        self._group: ClassicGroupValue | None = None
        """The members that are released, as they were; None if all had given up before this
        process."""
        self.is_beginning = False
        """Whether the engine is deciding on the beginning."""
        self._has_begun_here = False
        """Whether this process has decided to release the group, and not an earlier one."""

    # -- beginning and ending --------------------------------------------------------------------

    def prepare(self, request: ReleaseRequest, now_ms: int) -> None:
        """Wait from now on for what has to come first."""
        longest_ms = self._parts.rules.standing.longest_session_ms
        self.waits_until_ms = now_ms + (longest_ms if request.is_unattended else SETTLE_MAX_MS)
        self._parts.anchor.is_known_absent = False  # since the last look one may have come late

    def refused(self, *reasons: str) -> ReleaseOutcome:
        """The outcome of requests that have begun nothing."""
        return ReleaseOutcome.refused(self._parts.group_id, *reasons)

    def begin(
        self,
        requests: Sequence[AnyRequest],
        now_ms: int,
        *,
        has_steps: bool,  # noqa: ARG002
    ) -> ReleaseOutcome | None:
        """Begin, or go on with what the log has, once the group is at rest. Returns the outcome if
        that is impossible, or no longer necessary."""
        parts, state = self._parts, self._parts.engine.core.state
        if state.is_leaving:
            assert state.release is not None
            self._go_on(state.release, requests, now_ms)
            return None
        request = requests[-1]
        assert isinstance(request, ReleaseRequest)
        is_released = state.release is not None
        if is_released:
            parts.anchor.drop()  # one that is still there, or there again after a failover
        elif reasons := why_not_released(state, request.new_protocol):
            return self.refused(*reasons)
        assert self.waits_until_ms is not None
        is_late = now_ms >= self.waits_until_ms
        if (unknown := self._why_place_unknown(now_ms)) is not None:
            return self.refused(f"{unknown}: try again") if is_late else None
        if is_released:
            if not parts.anchor.is_here:
                return ReleaseOutcome(group_id=parts.group_id, is_released=True)
            why_late = "its anchor has not left yet"
        elif parts.standing.verdict.mode is Mode.ELSEWHERE and not parts.anchor.is_here:
            return self.refused(parts.standing.verdict.why)
        elif may_begin(state):
            cluster = request.new_protocol
            self.is_beginning = True
            parts.engine.note(
                ReleaseBegan(takes_natives=cluster.takes_natives, takes_mixed=cluster.takes_mixed)
            )
            return None
        else:
            why_late = f"its rebalance is not over after {SETTLE_MAX_MS // 1000} s"
        return self.refused(f"{why_late}: try again") if is_late else None

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
        verdict = parts.standing.verdict
        return verdict.why if verdict.mode is Mode.UNKNOWN else anchor.why

    def on_begun(self, *, is_durable: bool) -> None:
        """The engine has decided on the beginning."""
        self.is_beginning = False
        self._has_begun_here = is_durable and self._parts.engine.core.state.is_leaving

    def _go_on(self, release: ReleaseState, requests: Sequence[AnyRequest], now_ms: int) -> None:
        parts, rules = self._parts, self._parts.rules
        self._group = release.group
        members = () if release.group is None else release.group.members
        if not self._has_begun_here:
            parts.log("warning", "release_resumed", members=len(members))
        # No client can reach an unattended process, so that a pause keeps none away.
        is_unattended = any(
            isinstance(request, ReleaseRequest) and request.is_unattended for request in requests
        )
        grace = Grace() if is_unattended else parts.engine.grace
        guise = rules.standing.gateway.guise
        self.machine = Releasing(parts.group_id, guise, release, now_ms, grace)
        parts.standing.pending_ids = PendingIds()
        parts.emit(group_events.ReleaseStarted(members=len(members)))
        if members:
            parts.anchor.need(now_ms, is_live=True)

    def hand_over(self, now_ms: int, *, commits_in_flight: int) -> HandedOver | None:
        """Give the anchor's place to the release once that needs it, and it is known; None until
        then. `commits_in_flight`: those of recalled members."""
        parts, anchor, machine = self._parts, self._parts.anchor, self.machine
        commits = len(parts.engine.core.state.commits) + commits_in_flight
        if machine is None or not machine.is_ready(commits):
            return None
        if anchor.is_here:
            ids = anchor.hand_over()
            return None if ids is None else HandedOver(ids)
        if anchor.is_known_absent:
            return HandedOver(None)
        anchor.search(now_ms)
        return None

    def end(self, now_ms: int) -> ReleaseOutcome:
        """Leave the group to the cluster."""
        parts, routing, machine = self._parts, self._parts.standing, self.machine
        assert machine is not None
        self.abort()
        self._has_begun_here = False
        if routing.pending_ids is not None:
            routing.pending_ids.end_at(now_ms + REMEMBERED_MS)
        parts.emit(group_events.GroupReleased(unowned_ms=machine.unowned_ms))
        routing.end_hosting("released")
        routing.forward(RELEASED, now_ms)
        return ReleaseOutcome(
            group_id=parts.group_id, is_released=True, unowned_ms=machine.unowned_ms
        )

    def abort(self) -> None:
        """Forget the machine."""
        self.machine, self.is_beginning = None, False

    def group(self) -> ClassicGroupValue | None:
        """The group as it is released."""
        return self._group
