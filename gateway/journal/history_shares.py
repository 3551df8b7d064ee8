"""Limits how much of the history the clients of one owner can fill, by the rule of all totals. What
was written comes back when its files may be gone."""

from collections import Counter, deque
from collections.abc import Callable

from gateway.journal.line_files import FOLDER_AGE_MAX_S, FOLDER_BYTES_MAX, OVERFLOW_BYTES_MIN
from gateway.quotas.quota_key import QuotaKey
from gateway.quotas.shares import SharedTotal

RECORD_BYTES_MAX = FOLDER_BYTES_MAX // 4
"""How much of the files clients may fill with events that have a record. Further ones go
elsewhere."""
OTHER_BYTES_MAX = FOLDER_BYTES_MAX - OVERFLOW_BYTES_MIN - RECORD_BYTES_MAX
"""How much clients may fill with events that they cause without changing a group, such as joins
that lead nowhere. Further ones are left out."""
OWNERS_MAX = 10_000
"""Owners that are counted apart. Any further ones share one part."""

_OTHERS = QuotaKey("(others)")
_DAY_MS = 24 * 60 * 60 * 1000
_DAYS = FOLDER_AGE_MAX_S * 1000 // _DAY_MS


class HistoryShares:
    """Call `has_room` before an event is written, and `spend` when it is."""

    def __init__(self, total_bytes: int, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._total = SharedTotal(total_bytes)
        self._days: deque[tuple[int, Counter[QuotaKey]]] = deque()
        """The bytes of each owner by the day on which they were written."""

    def has_room(self, owner: QuotaKey) -> bool:
        """Whether another event of this owner may be written."""
        self._free_old()
        return self._total.has_room(self._choose_owner(owner))

    def spend(self, owner: QuotaKey, size: int) -> None:
        """Count a written event."""
        self._free_old()
        owner = self._choose_owner(owner)
        day = self._now_ms() // _DAY_MS
        if not self._days or self._days[-1][0] != day:
            self._days.append((day, Counter()))
        self._days[-1][1][owner] += size
        self._total.take(owner, size)

    def _choose_owner(self, owner: QuotaKey) -> QuotaKey:
        is_apart = self._total.has_any(owner) or self._total.count_owners < OWNERS_MAX
        return owner if is_apart else _OTHERS

    def _free_old(self) -> None:
        while self._days and self._days[0][0] <= self._now_ms() // _DAY_MS - _DAYS:
            _day, written = self._days.popleft()
            for owner, size in written.items():
                self._total.free(owner, size)
