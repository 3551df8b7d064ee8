"""What calls need the anchor for, and what becomes of them without it."""

from gateway.hosting.answers import Situation
from gateway.hosting.calls import Call, Reserve
from gateway.hosting.group_parts import GroupParts
from gateway.hosting.identity import NO_IDS, AnchorIds
from gateway.hosting.move import Move
from gateway.hosting.open_calls import ENDING, OpenCalls
from gateway.hosting.states import AnchorPhase, Stage


class AnchorAccess:
    """Has the anchor join for calls, and leave again."""

    def __init__(self, parts: GroupParts, move: Move, calls: OpenCalls) -> None:
        self._anchor, self._engine = parts.anchor, parts.engine
        self._rules, self._effects = parts.rules, parts.effects
        self._move = move
        self._calls = calls

    @property
    def is_held(self) -> bool:
        """Whether the group has members and its anchor, so that another member takes nothing."""
        return self._engine.is_live and (
            not self._rules.can_anchor or self._anchor.phase is AnchorPhase.STABLE
        )

    @property
    def is_awaited(self) -> bool:
        """Whether a member is about to join."""
        return any(call.stage is Stage.ADMITTING for call in self._calls.waiting)

    def ids_for(
        self, call: Call, patience_ms: int, now_ms: int, *, since: int = -1
    ) -> AnchorIds | None:
        """The anchor's ids, confirmed after request number `since`. None if the call has to wait
        for them, or was refused.

        In a group with members, all requests stop waiting `patience_ms` after the group was lost,
        because they queue one behind the other.
        """
        has_given_way = call.give_up_ms is not None and self._anchor.has_given_way
        if not self._rules.can_anchor:
            return NO_IDS
        if has_given_way or self._calls.is_ending:
            why = self._anchor.why if has_given_way else ENDING
            self._calls.refuse(call, Situation.NOT_ANCHORED, why)
            return None
        if not self.need(call, now_ms):
            return None
        ids = self._anchor.ids(now_ms, since=since)
        if ids is None:
            waited_ms = self._anchor.lost_for_ms(now_ms) if self._engine.is_live else 0
            self._calls.wait_at_most(call, now_ms + patience_ms - waited_ms, now_ms)
        return ids

    def has_place(self, call: Call) -> bool:
        """Whether the group has an anchor, or may have one as far as the limits tell. If that is
        unknown, the call waits. A group with members counts already."""
        if self._anchor.is_here or self._engine.is_live or call.has_anchor_place:
            return True
        if not self._rules.can_anchor:
            return True
        self._effects.append(Reserve(call, is_anchored=True, is_hosted=False))
        return False

    def need(self, call: Call, now_ms: int) -> bool:
        """Start the anchor if there is none, and keep it. Refuses the call during a move."""
        if self._move.bars_anchor:
            self._calls.refuse(call, Situation.MOVING)
            return False
        self._anchor.need(now_ms, is_live=self._engine.is_live)
        return True

    def let_go(self) -> None:
        """Release the group without lingering, because no member was admitted."""
        if not self.is_awaited:
            self._anchor.drop()
