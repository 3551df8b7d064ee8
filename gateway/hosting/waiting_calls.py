"""The calls of a group that wait for something: in which order, and how long."""

import heapq
from collections.abc import Iterator, Sequence

from coordinator.interface.events import ConsumerHeartbeatReceived, JoinGroupReceived
from coordinator.interface.volatile_records import Token
from gateway.hosting.answers import JOINS
from gateway.hosting.calls import Call


class WaitingCalls:
    """Keeps calls in the order in which they began to wait: the first one to join leads the
    group."""

    def __init__(self) -> None:
        self._by_token: dict[Token, Call] = {}
        self._limits: list[tuple[int, Token]] = []
        """A heap of the times when calls stop waiting, with those of calls that no longer wait."""
        self._held_joins: dict[str, Call] = {}
        """The newest join that waits for the end of a move, of each member or instance."""

    def __len__(self) -> int:
        """The number of calls that wait."""
        return len(self._by_token)

    def __iter__(self) -> Iterator[Call]:
        """The calls that wait now, whatever becomes of them meanwhile."""
        return iter(tuple(self._by_token.values()))

    def __contains__(self, call: Call) -> bool:
        """Whether the call waits."""
        return call.token in self._by_token

    def add(self, call: Call) -> None:
        """Wait for something that is certain to come."""
        self._by_token[call.token] = call

    def add_until(self, call: Call, give_up_ms: int, now_ms: int) -> bool:
        """Wait until then, or until an earlier limit of the call. False if that is over."""
        if call.give_up_ms is None:
            call.give_up_ms = give_up_ms
        if call.give_up_ms <= now_ms:
            return False
        self.add(call)
        heapq.heappush(self._limits, (call.give_up_ms, call.token))
        return True

    def hold_join(self, call: Call) -> Call | None:
        """Note a call that is to wait for the end of a move. If it joins, and a join of the same
        member on another connection waits, the older of the two is returned, and ends.

        A client that has waited for too long opens another connection and joins again. After the
        newer join, the older one would replace a static member that is alive.
        """
        if not (key := _key_of_joiner(call)):
            return None
        newest, older = call, None
        other = self._held_joins.get(key, call)
        if other.connection != call.connection:
            older, newest = sorted((other, call), key=lambda join: join.connection or 0)
        self._held_joins[key] = newest
        return older

    def remove(self, call: Call) -> None:
        """The call is advanced, or has its answer."""
        self._by_token.pop(call.token, None)

    def forget(self, call: Call) -> None:
        """The call has its answer."""
        self.remove(call)
        if (key := _key_of_joiner(call)) and self._held_joins.get(key) is call:
            del self._held_joins[key]

    def next_ms(self) -> int | None:
        """When the next call stops waiting."""
        while self._limits and self._limits[0][1] not in self._by_token:
            heapq.heappop(self._limits)
        return self._limits[0][0] if self._limits else None

    def take_expired(self, now_ms: int) -> Sequence[Call]:
        """The calls that have waited for too long; each is returned once."""
        expired = []
        while self._limits and self._limits[0][0] <= now_ms:
            call = self._by_token.get(heapq.heappop(self._limits)[1])
            if call is not None and call.give_up_ms is not None and call.give_up_ms <= now_ms:
                self.remove(call)
                expired.append(call)
        return expired


def _key_of_joiner(call: Call) -> str:
    """The identity of the member that joins; empty if it has none yet."""
    match call.event:
        case JoinGroupReceived() | ConsumerHeartbeatReceived() as event if call.api in JOINS:
            return event.instance_id or event.member_id
        case _:
            return ""
