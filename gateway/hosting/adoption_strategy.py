"""An adoption as a move of one group: when it begins, what its steps mean for the engine and the
anchor, and how it ends.

`Adopting` decides the steps. See `gateway/docs/adoption.md`.
"""

from collections.abc import Sequence

from coordinator.interface.records import ClassicGroupValue
from gateway.events import group_events
from gateway.hosting.adoptable import is_promising
from gateway.hosting.adoption import Adopting
from gateway.hosting.group_parts import GroupParts
from gateway.hosting.move_requests import AdoptionOutcome, AnyRequest
from gateway.hosting.pending_ids import REMEMBERED_MS, PendingIds
from gateway.hosting.states import AdoptionStage

CONSIDER_EVERY_MS = 5_000
"""How often at most a forwarded group is considered for adoption."""
REFUSED_FOR_MS = 10_000
"""How long a group is left alone after the cluster's description spoke against its adoption."""
UNDONE_FOR_MS, UNDONE_FOR_MS_MAX = 60_000, 900_000
"""The same after an adoption that was undone, which costs its members a rebalance; doubles with
each failure."""
AT_ONCE_MAX = 8
"""Groups that the gateway adopts by itself at a time. Each holds the calls of its clients."""
STILL_ENDING = "requests of an adoption that was undone are still under way: try again"


class AdoptionStrategy:
    """What is particular to an adoption."""

    why_busy = "it is being adopted: try again"
    why_ending = "the gateway is shutting down"
    why_forwarded = "it is about to be adopted"
    waits_until_ms = None
    """When `begin` no longer waits; it never does."""

    def __init__(self, parts: GroupParts) -> None:
        self.machine: Adopting | None = None
        """From the beginning to the end."""
        self._parts = parts
        self._has_held = False

    # -- beginning and ending --------------------------------------------------------------------

    def may_consider(self, now_ms: int) -> bool:
        """Whether the gateway may adopt the group by itself now, as far as the relayed requests
        tell."""
        routing, rules = self._parts.standing, self._parts.rules
        if rules.standing.is_removing or not routing.may_be_adopted(now_ms):
            return False
        routing.adopt_from_ms = now_ms + CONSIDER_EVERY_MS
        watched = rules.watched.group(self._parts.group_id)
        has_turn = len(rules.adopting) < AT_ONCE_MAX
        return has_turn and watched is not None and is_promising(watched, now_ms)

    def refused(self, *reasons: str) -> AdoptionOutcome:
        """The outcome of requests that have begun nothing."""
        return AdoptionOutcome.refused(self._parts.group_id, *reasons)

    def begin(
        self, _requests: Sequence[AnyRequest], _now_ms: int, *, has_steps: bool
    ) -> AdoptionOutcome | None:
        """Begin, or go on with what the log has. Returns the outcome if that is impossible."""
        parts, engine = self._parts, self._parts.engine
        if engine.is_live or parts.anchor.is_here:
            return self.refused("it is hosted already")
        if has_steps:
            return self.refused(STILL_ENDING)
        stored = engine.core.state.adoption
        if stored is not None:
            parts.log("warning", "adoption_resumed", is_locked=stored.lock_generation is not None)
        self.machine = Adopting(
            parts.group_id,
            parts.rules.standing.gateway.guise,
            parts.rules.config,
            grace=engine.grace,
            found=stored,
        )
        self._has_held = stored is not None
        parts.rules.adopting.add(parts.group_id)
        return None

    def end(self, now_ms: int) -> AdoptionOutcome:
        """Have the engine serve the group, or leave it to the cluster again."""
        parts, routing, machine = self._parts, self._parts.standing, self.machine
        assert machine is not None
        is_adopted = machine.stage is AdoptionStage.ADOPTED
        self.abort()
        if is_adopted:
            assert machine.handed_over is not None
            parts.anchor.take_over(machine.handed_over, now_ms)
            routing.adopt(now_ms, machine.handed_over.generation)
            parts.effects.extend(routing.take_outbox())
            parts.engine.report_snapshot(are_topics_known=False)
            parts.emit(group_events.GroupAdopted(held_ms=machine.held_ms))
            parts.rules.watched.forget(parts.group_id)
        elif self._has_held:
            # A late request of the anchor may still have taken the group.
            routing.forget("its adoption was undone")
            routing.pending_ids = PendingIds()
            routing.pending_ids.end_at(now_ms + REMEMBERED_MS)
            parts.emit(group_events.AdoptionUndone(reason=machine.why, held_ms=machine.held_ms))
            pause_ms = min(UNDONE_FOR_MS << routing.adoptions_undone, UNDONE_FOR_MS_MAX)
            routing.adopt_from_ms = now_ms + pause_ms
            routing.adoptions_undone += 1
        else:
            routing.adopt_from_ms = now_ms + REFUSED_FOR_MS
        return AdoptionOutcome(
            group_id=parts.group_id,
            is_adopted=is_adopted,
            reasons=() if is_adopted else machine.reasons or (f"undone: {machine.why}",),
            held_ms=machine.held_ms if self._has_held else None,
        )

    def abort(self) -> None:
        """Forget the machine."""
        self.machine = None
        self._parts.rules.adopting.discard(self._parts.group_id)

    def hold(self) -> None:
        """Calls are held from now on."""
        self._has_held = True
        group = self.group()
        assert group is not None
        self._parts.emit(group_events.AdoptionStarted(members=len(group.members)))

    def group(self) -> ClassicGroupValue | None:
        """The group as it is adopted, from the log."""
        adoption = self._parts.engine.core.state.adoption
        return None if adoption is None else adoption.group
