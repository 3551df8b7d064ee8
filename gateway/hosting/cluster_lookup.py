"""The lookup of a group's members in the cluster: one at a time, for all that wait for it."""

from gateway.hosting.anchor import Anchor
from gateway.hosting.effects import Effect, Look
from gateway.hosting.lookup_outcome import LookupOutcome


class ClusterLookup:
    """Serves the calls that wait, and the anchor."""

    def __init__(self, anchor: Anchor, effects: list[Effect]) -> None:
        self.is_under_way = False
        self.latest_outcome: LookupOutcome | None = None
        """What the cluster said, unless an adoption was waiting for the group."""
        self._anchor = anchor
        self._effects = effects
        self._is_for_anchor = False

    def begin(self) -> None:
        """Begin a lookup unless one is under way."""
        if not self.is_under_way:
            self.is_under_way, self._is_for_anchor = True, self._anchor.wants_look
            self._effects.append(Look())

    def end(self) -> bool:
        """The lookup has ended. Returns whether the anchor waits for it: one that began before the
        anchor was lost may have seen the old anchor."""
        self.is_under_way = False
        return self._anchor.wants_look and self._is_for_anchor
