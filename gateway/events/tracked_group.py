"""A group as its events show it: who is in it, and who holds which partitions."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from coordinator.interface.volatile_records import ClassicPhase
from gateway.events.event import GatewayEvent
from gateway.events.group_events import (
    GroupConverted,
    GroupCreated,
    GroupDeleted,
    GroupEpochBumped,
    GroupLoaded,
    GroupStateChanged,
    HostingEnded,
    TargetComputed,
)
from gateway.events.member_events import (
    GrantEnded,
    MemberFenced,
    MemberJoined,
    MemberLeft,
    MemberReplaced,
    MemberSnapshot,
    MemberSwitched,
    Partitions,
    PartitionsAssigned,
    PartitionsRevoked,
    Protocol,
)


@dataclass(slots=True)
class TrackedMember:
    """A member."""

    instance_id: str | None
    client_id: str
    client_host: str
    protocol: Protocol
    epoch: int | None = None
    partitions: dict[str, set[int]] = field(default_factory=dict)
    pending: dict[str, set[int]] = field(default_factory=dict)


class TrackedGroup:
    """Changes with the group's events only."""

    def __init__(self) -> None:
        self.kind: Protocol | None = None
        self.members: dict[str, TrackedMember] = {}
        self.group_epoch = 0
        """The group epoch; for a classic group, the generation."""
        self._state: str = ClassicPhase.EMPTY
        """The state of a classic group."""
        self._assignment_epoch: int | None = None
        self._owners: dict[str, dict[int, str]] = {}
        """The member that holds each partition, by topic."""
        self._topic_ids: dict[str, str] = {}

    def snapshot(self, state: str | None = None) -> GroupLoaded:
        """The whole group. `state`: that of a consumer group, which no event reports."""
        return GroupLoaded(
            kind=self.kind,
            state=self._state if self.kind != "consumer" or state is None else state,
            group_epoch=self.group_epoch,
            assignment_epoch=self._assignment_epoch,
            members=tuple(self._snapshots()),
            topic_ids={
                topic: topic_id
                for topic in sorted(self._owners)
                if (topic_id := self._topic_ids.get(topic)) is not None
            },
        )

    def owners_of(self, topic: str) -> Mapping[int, str]:
        """The members that hold the partitions of a topic."""
        return self._owners.get(topic, {})

    def actor_of(self, member_id: str) -> str:
        """The name of a member that stays the same when a static member gets another id."""
        member = self.members.get(member_id)
        return member_id if member is None or member.instance_id is None else member.instance_id

    def _snapshots(self) -> Iterator[MemberSnapshot]:
        for member_id, member in self.members.items():
            yield MemberSnapshot(
                member_id=member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                protocol=member.protocol,
                member_epoch=self.group_epoch if self.kind == "classic" else member.epoch,
                partitions=_sort(member.partitions),
                pending_revocation=_sort(member.pending),
            )

    def apply(self, event: GatewayEvent) -> None:  # noqa: PLR0912  # one case for each
        match event:
            case PartitionsAssigned():
                self._assign(event)
            case PartitionsRevoked(member_id=member_id, partitions=partitions):
                if (member := self.members.get(member_id)) is not None:
                    member.epoch = event.member_epoch
                    for topic, numbers in partitions.items():
                        member.pending.setdefault(topic, set()).update(numbers)
            case GrantEnded(member_id=member_id, partitions=partitions):
                self._end(member_id, partitions)
            case MemberJoined(member_id=member_id):
                self.members[member_id] = TrackedMember(
                    event.instance_id, event.client_id, event.client_host, event.protocol
                )
            case MemberSwitched(member_id=member_id, protocol=protocol):
                if member_id in self.members:
                    self.members[member_id].protocol = protocol
            case MemberLeft() | MemberFenced() | MemberReplaced():
                self.members.pop(event.member_id, None)
            case GroupStateChanged(to_state=state, generation=generation):
                self._state, self.group_epoch = state, generation
            case GroupEpochBumped(group_epoch=epoch):
                self.group_epoch = epoch
            case TargetComputed(assignment_epoch=epoch):
                self._assignment_epoch = epoch
            case GroupCreated(kind=kind):
                self.kind = kind
            case GroupConverted():
                self._convert(event)
            case GroupLoaded():
                self._load(event)
            case GroupDeleted() | HostingEnded():
                self._clear()
            case _:
                pass

    def _load(self, loaded: GroupLoaded) -> None:
        self._clear()
        self.kind, self._state = loaded.kind, loaded.state
        self.group_epoch, self._assignment_epoch = loaded.group_epoch, loaded.assignment_epoch
        self._topic_ids = dict(loaded.topic_ids)
        for member in loaded.members:
            self.members[member.member_id] = TrackedMember(
                member.instance_id,
                member.client_id,
                member.client_host,
                member.protocol,
                member.member_epoch,
                {topic: set(numbers) for topic, numbers in (member.partitions or {}).items()},
                {topic: set(numbers) for topic, numbers in member.pending_revocation.items()},
            )
            for topic, numbers in (member.partitions or {}).items():
                self._owners.setdefault(topic, {}).update(dict.fromkeys(numbers, member.member_id))

    def _clear(self) -> None:
        self.kind, self._state = None, ClassicPhase.EMPTY
        self.group_epoch, self._assignment_epoch = 0, None
        self.members.clear()
        self._owners.clear()
        self._topic_ids.clear()

    def _convert(self, event: GroupConverted) -> None:
        if event.direction == "classic->consumer":
            self.kind, self.group_epoch = "consumer", event.group_epoch or 0
            self._assignment_epoch = event.group_epoch
        else:
            self.kind, self.group_epoch = "classic", event.generation or 0
            self._assignment_epoch = None
            for member in self.members.values():
                member.pending.clear()

    def _assign(self, event: PartitionsAssigned) -> None:
        member = self.members.get(event.member_id)
        self._topic_ids.update(event.topic_ids)
        for topic, numbers in event.partitions.items():
            self._owners.setdefault(topic, {}).update(dict.fromkeys(numbers, event.member_id))
            if member is not None:
                member.partitions.setdefault(topic, set()).update(numbers)
                _subtract(member.pending, topic, numbers)
        if member is not None:
            member.epoch = event.member_epoch

    def _end(self, member_id: str, partitions: Partitions) -> None:
        member = self.members.get(member_id)
        for topic, numbers in partitions.items():
            owners = self._owners.get(topic, {})
            for number in numbers:
                if owners.get(number) == member_id:
                    del owners[number]
            if not owners:
                self._owners.pop(topic, None)
                self._topic_ids.pop(topic, None)
            if member is not None:
                _subtract(member.partitions, topic, numbers)
                _subtract(member.pending, topic, numbers)


def _sort(partitions: Mapping[str, set[int]]) -> Partitions:
    return {topic: tuple(sorted(numbers)) for topic, numbers in sorted(partitions.items())}


def _subtract(partitions: dict[str, set[int]], topic: str, numbers: Sequence[int]) -> None:
    if topic in partitions:
        partitions[topic].difference_update(numbers)
        if not partitions[topic]:
            del partitions[topic]
