"""Follows a group by its events, and reports what follows from them.

Three things come from it. A snapshot at any place between two lines, so that a file of events can
begin with it. The end of the grants whose topic was deleted, which no record of the engine shows.
And the costs of rebalances and steps. The cost of an event follows what it changes."""

from collections.abc import Iterator, Mapping, Sequence

from gateway.events.event import GatewayEvent
from gateway.events.group_events import GroupLoaded, TopicsDeleted
from gateway.events.member_events import GrantEnded, Partitions, PartitionsAssigned
from gateway.events.move_costs import MoveCosts
from gateway.events.tracked_group import TrackedGroup

DELETED_IDS_MAX = 1_000
"""Ids of deleted topics that are remembered. A write that is under way may still grant their
partitions."""


class GroupTracker:
    """`observe` takes the events of each decision in the order of their lines, `settle` the state
    of the group whenever it is known."""

    def __init__(self) -> None:
        self._group = TrackedGroup()
        self._costs = MoveCosts(self._group)
        self._deleted_ids: dict[str, None] = {}
        """The oldest first."""

    @property
    def is_measuring(self) -> bool:
        """Whether `settle` may have something to report."""
        return self._costs.is_measuring

    def observe(self, events: Sequence[GatewayEvent], at_ms: int) -> Sequence[GatewayEvent]:
        """Take the events of a decision. Returns what follows from them, which is observed already:
        ends of grants, and of the rebalance that is interrupted."""
        if not events:
            return ()
        following = [*self._costs.begin(events, at_ms)]
        ends: list[GrantEnded] = []
        for event in events:
            self._costs.record(event, at_ms)
            self._group.apply(event)
            ends += self._ends_of_deleted(event)
        for end in ends:
            self._costs.record(end, at_ms)
            self._group.apply(end)
        self._costs.finish(at_ms)
        return [*following, *ends]

    def settle(self, state: str, at_ms: int) -> Sequence[GatewayEvent]:
        """The ends of rebalances and steps, if the group is at rest. `state`: the group's."""
        return self._costs.settle(state, at_ms)

    def snapshot(self, state: str | None = None) -> GroupLoaded:
        """The whole group. `state`: that of a consumer group, which no event reports."""
        return self._group.snapshot(state)

    def _ends_of_deleted(self, event: GatewayEvent) -> Iterator[GrantEnded]:
        """The ends of grants whose topic is gone: with the topic, or immediately if a write that
        was under way has granted them."""
        match event:
            case TopicsDeleted(topics=topics, topic_ids=ids):
                self._remember(ids)
                ended: dict[str, dict[str, tuple[int, ...]]] = {}
                for topic in topics:
                    for number, member_id in sorted(self._group.owners_of(topic).items()):
                        numbers = ended.setdefault(member_id, {})
                        numbers[topic] = (*numbers.get(topic, ()), number)
                for member_id, partitions in ended.items():
                    yield self._end(member_id, partitions, ids)
            case PartitionsAssigned(topic_ids=ids, partitions=partitions):
                gone = {
                    topic: numbers
                    for topic, numbers in partitions.items()
                    if ids.get(topic) in self._deleted_ids
                }
                if gone:
                    yield self._end(event.member_id, gone, ids)
            case _:
                pass

    def _remember(self, ids: Mapping[str, str]) -> None:
        self._deleted_ids |= dict.fromkeys(ids.values())
        while len(self._deleted_ids) > DELETED_IDS_MAX:
            del self._deleted_ids[next(iter(self._deleted_ids))]

    def _end(self, member_id: str, partitions: Partitions, ids: Mapping[str, str]) -> GrantEnded:
        member = self._group.members.get(member_id)
        epoch = None if member is None else member.epoch
        return GrantEnded(
            member_id=member_id,
            member_epoch=self._group.group_epoch if epoch is None else epoch,
            partitions=partitions,
            topic_ids={topic: ids[topic] for topic in partitions if topic in ids},
            cause="topic_deleted",
        )
