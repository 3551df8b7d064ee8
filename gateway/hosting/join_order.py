"""Keeps the order of a client's joins while a move holds them.

A client that has waited for too long opens another connection and joins again. The older join must
not reach the cluster after the newer one: it would replace a static member that is alive.
"""

from coordinator.interface.events import ConsumerHeartbeatReceived, JoinGroupReceived
from gateway.hosting.answers import JOINS
from gateway.hosting.calls import Call


class JoinOrder:
    """The joins that wait, by the instance or the member that each is of."""

    def __init__(self) -> None:
        self._latest: dict[str, Call] = {}

    def add(self, call: Call) -> Call | None:
        """Have a call wait. Returns the older one of the same member on another connection, be it
        this one or one that waits already: nobody reads its answer."""
        key = _key(call)
        if not key:
            return None
        other = self._latest.get(key)
        if other is None or other is call or other.connection == call.connection:
            self._latest[key] = call
            return None
        if (other.connection or 0) > (call.connection or 0):
            return call
        self._latest[key] = call
        return other

    def drop(self, call: Call) -> None:
        """The call no longer waits."""
        key = _key(call)
        if key and self._latest.get(key) is call:
            del self._latest[key]


def _key(call: Call) -> str:
    """The identity of the member that joins; empty if it has none yet."""
    if call.api not in JOINS:
        return ""
    match call.event:
        case JoinGroupReceived() | ConsumerHeartbeatReceived() as event:
            return event.instance_id or event.member_id
        case _:
            return ""
