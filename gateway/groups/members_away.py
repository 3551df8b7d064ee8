"""Counts native members that left or were removed within the last minutes and whose clients are not
back. A hold counts them as members, so that none is refused when it comes back."""

from collections.abc import Callable
from typing import NamedTuple

from pydantic import TypeAdapter

from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.state import GroupState
from gateway.events.event import Envelope
from gateway.events.member_events import MemberFenced, MemberLeft

AWAY_MAX_MS = 300_000
"""A member that is away for longer does not come back."""
DEPARTURES_MAX = 100
"""Departures that are kept for one group. The oldest are dropped first."""


class _NativeDeparture(NamedTuple):
    client: tuple[str, str]
    """Client id and host."""
    at_ms: int


_HANDED_OVER = TypeAdapter(dict[str, dict[str, _NativeDeparture]])


class MembersAway:
    """The latest departures of native members, taken from the events of the journal."""

    def __init__(self, state_of: Callable[[str], GroupState | None]) -> None:
        """`state_of` finds a group in memory. The journal passes an event on just before its group
        changes, so the group still has the member that leaves."""
        self._state_of = state_of
        self._departures: dict[str, dict[str, _NativeDeparture]] = {}
        """By group and member id, the latest at the end of both."""

    def observe(self, envelope: Envelope) -> None:
        """Record the departure of a native member; other events change nothing."""
        group_id, event = envelope.group_id, envelope.fields
        if group_id is None or not isinstance(event, MemberLeft | MemberFenced):
            return
        state = self._state_of(group_id)
        group = None if state is None else state.group
        if not isinstance(group, ConsumerGroup):
            return
        member = group.members.get(event.member_id)
        if member is None or member.is_classic:
            return
        departures = self._departures[group_id] = self._departures.pop(group_id, {})
        departures.pop(event.member_id, None)
        departure = _NativeDeparture((member.client_id, member.client_host), envelope.at_ms)
        departures[event.member_id] = departure
        if len(departures) > DEPARTURES_MAX:
            del departures[next(iter(departures))]
        self._forget_old(envelope.at_ms)

    def _forget_old(self, now_ms: int) -> None:
        """Forget groups without a recent departure."""
        while self._departures:
            group_id = next(iter(self._departures))
            latest = next(reversed(self._departures[group_id].values()))
            if now_ms - latest.at_ms <= AWAY_MAX_MS:
                return
            del self._departures[group_id]

    def hand_over(self, concerns: Callable[[str], bool]) -> bytes | None:
        """Remove the departures of these groups and return them for another process; None if there
        are none."""
        names = tuple(filter(concerns, self._departures))
        groups = {name: self._departures.pop(name) for name in names}
        return _HANDED_OVER.dump_json(groups) if groups else None

    def take_over(self, handed_over: bytes) -> None:
        """Add the departures that another process has handed over. Raises ValueError."""
        groups = {**self._departures, **_HANDED_OVER.validate_json(handed_over)}

        def latest(departures: dict[str, _NativeDeparture]) -> int:
            return next(reversed(departures.values())).at_ms

        self._departures = dict(sorted(groups.items(), key=lambda item: latest(item[1])))

    def count(self, group_id: str, now_ms: int) -> int:
        """The native members of a group that are away now."""
        state = self._state_of(group_id)
        group = None if state is None else state.group
        members = () if group is None else group.members.values()
        present = {(member.client_id, member.client_host) for member in members}
        return sum(
            now_ms - departure.at_ms <= AWAY_MAX_MS and departure.client not in present
            for departure in self._departures.get(group_id, {}).values()
        )
