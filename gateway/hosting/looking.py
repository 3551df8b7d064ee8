"""Looks at the cluster: one at a time, for everybody in the group who waits for one."""

from gateway.hosting.anchor import Anchor
from gateway.hosting.effects import Effect, Look


class Looking:
    """Whether a look is under way."""

    def __init__(self, anchor: Anchor, effects: list[Effect]) -> None:
        self.is_under_way = False
        self._is_of_anchor = False
        """Whether it began after the anchor had asked for it."""
        self._anchor = anchor
        self._effects = effects

    def begin(self) -> None:
        """Look, unless a look is under way."""
        if not self.is_under_way:
            self.is_under_way, self._is_of_anchor = True, self._anchor.wants_look
            self._effects.append(Look())

    def end(self) -> bool:
        """It has ended. Returns whether it is the one that the anchor waits for: one that began
        before the anchor was lost may have seen the old anchor."""
        self.is_under_way = False
        return self._anchor.wants_look and self._is_of_anchor
