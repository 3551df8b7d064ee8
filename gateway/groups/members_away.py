"""Native members that are away for a moment: they left or were removed within the last minutes, and
their clients are not back. A hold counts them, so that none of them is refused when it comes
back."""

from collections.abc import Callable
from typing import NamedTuple

from pydantic import TypeAdapter

from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.state import GroupState
from gateway.events.event import Envelope
from gateway.events.member_events import MemberFenced, MemberLeft

AWAY_MAX_MS = 300_000
"""Who is away for longer has gone for good."""
DEPARTURES_MAX = 100
"""Members of one group. Of more, those that went first are forgotten."""


class _NativeDeparture(NamedTuple):
    client: tuple[str, str]
    """Client id and host."""
    at_ms: int


_HANDED_OVER = TypeAdapter(dict[str, dict[str, _NativeDeparture]])


class MembersAway:
    """A listener of the journal."""

    def __init__(self, state_of: Callable[[str], GroupState | None]) -> None:
        """`state_of`: a group in memory. Events are told just before their group moves, so it still
        has a member whose departure is told."""
        self._state_of = state_of
        self._departures: dict[str, dict[str, _NativeDeparture]] = {}
        """By group and member id, the latest at the end of both."""

    def take(self, envelope: Envelope) -> None:
        """See an event."""
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
        """Forget groups from which nobody has gone lately."""
        while self._departures:
            group_id = next(iter(self._departures))
            latest = next(reversed(self._departures[group_id].values()))
            if now_ms - latest.at_ms <= AWAY_MAX_MS:
                return
            del self._departures[group_id]

    def hand_over(self, concerns: Callable[[str], bool]) -> bytes | None:
        """Forget these groups, for another process to go on with; None if there is nothing to go on
        with."""
        names = tuple(filter(concerns, self._departures))
        groups = {name: self._departures.pop(name) for name in names}
        return _HANDED_OVER.dump_json(groups) if groups else None

    def take_over(self, handed_over: bytes) -> None:
        """Go on with groups of another process. Raises ValueError."""
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
