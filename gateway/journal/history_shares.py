"""Limits how much of the history the clients of one owner can fill with events that they cause
without changing a group, such as joins that lead nowhere."""

from collections.abc import Callable, Hashable

from gateway.journal.line_files import FOLDER_AGE_MAX_S, FOLDER_BYTES_MAX

SHARE_BYTES = FOLDER_BYTES_MAX // 4
"""What one owner may fill at any rate. It comes back within the time that the files are kept, so
that one owner never has more than half of the folder."""
OWNERS_MAX = 10_000
"""Owners that are remembered. The one that was silent longest is forgotten first."""

_BYTES_PER_MS = SHARE_BYTES / (FOLDER_AGE_MAX_S * 1000)


class HistoryShares:
    """Call `has_room` before an event is numbered, and `spend` when it is written."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._spent: dict[Hashable, tuple[float, int]] = {}
        """The bytes of each owner, at the time of its last event."""

    def has_room(self, owner: Hashable) -> bool:
        """Whether another event of this owner may be written."""
        return self._spent_bytes(owner) < SHARE_BYTES

    def spend(self, owner: Hashable, size: int) -> None:
        """Count a written event."""
        spent_bytes = self._spent_bytes(owner) + size
        self._spent.pop(owner, None)  # so that the latest comes last
        self._spent[owner] = (spent_bytes, self._now_ms())
        if len(self._spent) > OWNERS_MAX:
            del self._spent[next(iter(self._spent))]

    def _spent_bytes(self, owner: Hashable) -> float:
        spent_bytes, at_ms = self._spent.get(owner, (0.0, 0))
        return max(0.0, spent_bytes - (self._now_ms() - at_ms) * _BYTES_PER_MS)
