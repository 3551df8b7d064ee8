"""Remembers whether the latest write to the state log succeeded.

The anchor joins a group in the cluster before the first member's records are written. While the log
rejects everything, as on a full disk, that join would be useless.
"""

from gateway.hosting.inputs import Damage

TRY_AGAIN_MS = 1_000
"""How often a group may begin despite the failure; its write shows whether the log has
recovered."""


class LogHealth:
    """Learns of each write of each group, and is asked before a group begins."""

    def __init__(self) -> None:
        self.failed_ms: int | None = None
        """When the latest write failed; None if it succeeded."""
        self._next_try_ms = 0

    def on_write(self, damage: Damage | None, now_ms: int) -> None:
        """A write has ended; None: well. A record that is too large says nothing about the log."""
        if damage is not Damage.REFUSED:
            self.failed_ms = None if damage is None else now_ms
            self._next_try_ms = now_ms + TRY_AGAIN_MS

    def may_begin(self, now_ms: int) -> bool:
        """Whether the latest write succeeded or a new attempt is due."""
        if self.failed_ms is None:
            return True
        if now_ms < self._next_try_ms:
            return False
        self._next_try_ms = now_ms + TRY_AGAIN_MS
        return True
