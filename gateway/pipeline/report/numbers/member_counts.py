"""The number of members of either protocol in a group, over time."""

from collections.abc import Iterable
from dataclasses import dataclass

from gateway.pipeline.tables.timeline import TimelineRow


@dataclass(slots=True)
class MemberCounts:
    """A time with constant numbers of members."""

    from_ms: int
    to_ms: int | None
    """Null if it has not ended."""
    classic_members: int
    consumer_members: int

    @property
    def members(self) -> int:
        """Members of both protocols."""
        return self.classic_members + self.consumer_members


def member_counts(timeline: Iterable[TimelineRow]) -> list[MemberCounts]:
    """The spells of a group, one after another."""
    more: dict[int, list[int]] = {}
    for row in timeline:
        for at_ms, one in ((row.from_ms, 1), (row.to_ms, -1)):
            if at_ms is not None:
                # The group's own rows count zero, so that groups without members are included.
                counts = more.setdefault(at_ms, [0, 0])
                if row.member_id is not None and row.protocol is not None:
                    counts[row.protocol == "consumer"] += one
    found: list[MemberCounts] = []
    classic = consumer = 0
    for at_ms, (more_classic, more_consumer) in sorted(more.items()):
        classic, consumer = classic + more_classic, consumer + more_consumer
        if found and (found[-1].classic_members, found[-1].consumer_members) == (classic, consumer):
            continue
        if found:
            found[-1].to_ms = at_ms
        found.append(MemberCounts(at_ms, None, classic, consumer))
    return found
