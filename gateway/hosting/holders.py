"""The members that may still hold partitions after an adoption failed."""

from collections.abc import Iterable
from dataclasses import dataclass

from coordinator.interface.records import ClassicGroupMember


@dataclass(slots=True)
class _Holder:
    session_timeout_ms: int
    rejoin_by_ms: int
    """As in any rebalance, a member that has not rejoined by then is given up."""
    silent_from_ms: int
    """When its session is over, unless it is heard again."""


class Holders:
    """Empty once nobody can hold a partition any more. Times are milliseconds."""

    def __init__(self) -> None:
        self._by_id: dict[str, _Holder] = {}

    def __len__(self) -> int:
        """How many there are."""
        return len(self._by_id)

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._by_id

    def recall(self, members: Iterable[ClassicGroupMember], now_ms: int) -> None:
        """From now on these members are told to rejoin."""
        for member in members:
            session_ms = member.session_timeout_ms
            self._by_id[member.member_id] = _Holder(
                session_ms,
                now_ms + max(session_ms, member.rebalance_timeout_ms),
                now_ms + session_ms,
            )

    def heard(self, member_id: str, now_ms: int) -> None:
        """The member has sent a request."""
        if (holder := self._by_id.get(member_id)) is not None:
            holder.silent_from_ms = now_ms + holder.session_timeout_ms

    def let_go(self, member_id: str) -> bool:
        """The member holds nothing any more. Whether it was the last one that could."""
        return self._by_id.pop(member_id, None) is not None and not self._by_id

    def let_go_silent(self, now_ms: int) -> bool:
        """Give up the members that were silent for too long. Whether one was the last."""
        silent = [each for each in self._by_id if now_ms >= self._until_ms(each)]
        for each in silent:
            self.let_go(each)
        return bool(silent) and not self._by_id

    def overdue(self, now_ms: int) -> Iterable[str]:
        """The members that are heard, and have not rejoined in time."""
        return (
            member_id
            for member_id, holder in self._by_id.items()
            if holder.rejoin_by_ms <= now_ms < holder.silent_from_ms
        )

    def next_ms(self) -> int | None:
        """When the next one is silent for too long; None if there is none."""
        return min(map(self._until_ms, self._by_id), default=None)

    def _until_ms(self, member_id: str) -> int:
        holder = self._by_id[member_id]
        return min(holder.rejoin_by_ms, holder.silent_from_ms)
