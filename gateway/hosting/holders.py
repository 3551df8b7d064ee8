"""The members that may still hold partitions while their group moves.

They are treated as members of a hosted group: a gateway that was just started, or was paused, gives
them the time to come back, and a member that is heard, but does not rejoin in time, is given up as
in any rebalance.
"""

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from coordinator.interface.records import ClassicGroupMember


@dataclass(slots=True)
class Grace:
    """The time until which a group keeps silent members, because something kept them from being
    heard, in wall-clock milliseconds."""

    over_ms: int = 0
    """After a pause of the process, whose length only the one knows who reads the clock."""
    reconnect_by_ms: int = 0
    """After the group was loaded: clients may still be on their way to this process."""


@dataclass(slots=True)
class _Holder:
    session_timeout_ms: int
    rejoin_by_ms: int
    silent_from_ms: int
    """When its session is over, unless it is heard again."""

    @property
    def until_ms(self) -> int:
        return min(self.rejoin_by_ms, self.silent_from_ms)


class GivenUp(NamedTuple):
    """A member whose time is over."""

    member_id: str
    is_alive: bool
    """Whether it is heard, and has not rejoined in time."""


class Holders:
    """Empty once no member can hold a partition any more. Times are milliseconds."""

    def __init__(
        self,
        members: Iterable[ClassicGroupMember],
        now_ms: int,
        grace: Grace,
    ) -> None:
        """Tell these members to rejoin from now on."""
        self._grace, reconnect_by_ms = grace, grace.reconnect_by_ms
        self._by_id = {
            member.member_id: _Holder(
                member.session_timeout_ms,
                max(
                    now_ms + max(member.session_timeout_ms, member.rebalance_timeout_ms),
                    reconnect_by_ms,
                ),
                max(now_ms + member.session_timeout_ms, reconnect_by_ms),
            )
            for member in members
        }
        self._due = [(holder.until_ms, id_) for id_, holder in self._by_id.items()]
        """A heap with an entry for each member, which may be too early."""
        heapq.heapify(self._due)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._by_id)

    def __contains__(self, member_id: object) -> bool:
        return member_id in self._by_id

    def mark_seen(self, member_id: str, now_ms: int) -> None:
        """The member has sent a request."""
        if (holder := self._by_id.get(member_id)) is not None:
            heard_until_ms = now_ms + holder.session_timeout_ms
            holder.silent_from_ms = max(holder.silent_from_ms, heard_until_ms)

    def drop(self, member_id: str) -> None:
        """The member holds nothing any more."""
        self._by_id.pop(member_id, None)

    def give_up(self, now_ms: int) -> Iterator[GivenUp]:
        """Let the members go whose time is over."""
        while (due_ms := self._due_ms()) is not None and due_ms <= now_ms:
            if self._grace.over_ms > now_ms:
                return
            _until_ms, member_id = heapq.heappop(self._due)
            holder = self._by_id.pop(member_id)
            yield GivenUp(member_id, is_alive=now_ms < holder.silent_from_ms)

    def next_ms(self) -> int | None:
        """When the time of the next one is over; None if there is none."""
        due_ms = self._due_ms()
        return None if due_ms is None else max(due_ms, self._grace.over_ms)

    def _due_ms(self) -> int | None:
        """When the time of the next one is over, whether the gateway was paused or not."""
        while self._due:
            until_ms, member_id = self._due[0]
            holder = self._by_id.get(member_id)
            if holder is None:
                heapq.heappop(self._due)
            elif holder.until_ms > until_ms:
                heapq.heapreplace(self._due, (holder.until_ms, member_id))
            else:
                return until_ms
        return None
