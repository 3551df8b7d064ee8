"""The calls of one group that wait, and how long each of them does."""

import heapq
from collections.abc import Iterator

from coordinator.interface.volatile_records import Token
from gateway.hosting.calls import Call

JOIN_PATIENCE_MS = 10_000
"""How long a join waits for the anchor: more than Kafka's initial rebalance delay of 3 s."""
MEMBER_PATIENCE_MS = 3_000
"""How long a member's requests wait for the anchor, counted from the loss of the group. The
member's next heartbeat queues behind them, and a session may be as short as 6 s."""


class WaitingCalls:
    """Calls in the order in which they began to wait: the first one to join leads the group."""

    def __init__(self) -> None:
        self._calls: dict[Token, Call] = {}
        self._limits: list[tuple[int, Token]] = []
        """A heap of the times when calls stop waiting."""

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[Call]:
        """The calls that wait now; they may be dropped meanwhile."""
        return iter(tuple(self._calls.values()))

    def add(self, call: Call) -> None:
        """Wait for something that is certain to come."""
        self._calls[call.token] = call

    def add_until(self, call: Call, give_up_ms: int, now_ms: int) -> bool:
        """Wait until `give_up_ms`, or until an earlier limit of the call. False if that is over."""
        if call.give_up_ms is None:
            call.give_up_ms = give_up_ms
        if call.give_up_ms <= now_ms:
            return False
        self.add(call)
        heapq.heappush(self._limits, (call.give_up_ms, call.token))
        return True

    def drop(self, call: Call) -> None:
        """The call no longer waits."""
        self._calls.pop(call.token, None)

    def take_overdue(self, now_ms: int) -> Iterator[Call]:
        """The calls whose time is over. The caller answers each of them."""
        while self._limits and self._limits[0][0] <= now_ms:
            _at_ms, token = heapq.heappop(self._limits)
            call = self._calls.get(token)
            if call is not None and call.give_up_ms is not None and call.give_up_ms <= now_ms:
                yield call

    def next_ms(self) -> int | None:
        """When the next call stops waiting, in wall-clock milliseconds."""
        while self._limits and self._limits[0][1] not in self._calls:
            heapq.heappop(self._limits)
        return self._limits[0][0] if self._limits else None
