"""The topic image: what the engine knows about the cluster's topics. Every event comes with one."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import NamedTuple
from uuid import UUID

from coordinator.interface.value import value


class Partition(NamedTuple):
    """One partition, identified by topic id as in KIP-848. A recreated topic has a new id."""

    topic_id: UUID
    number: int


@value()
class Topic:
    """One topic; `racks` holds the racks of each partition's replicas and may be empty."""

    name: str
    topic_id: UUID
    partition_count: int
    racks: tuple[frozenset[str], ...] = ()


@value(kw_only=False)
class Topics:
    """The topics of the cluster that are relevant to a group.

    `version` grows whenever the image changes; a group recomputes its metadata hash only then.
    `names_version` grows whenever a topic appears in the cluster, because a regular expression may
    match it. It does not decrease across a restart.
    """

    by_name: Mapping[str, Topic] = field(default_factory=dict)
    version: int = 0
    names_version: int = 0
    by_id: Mapping[UUID, Topic] = field(init=False)
    _hash_of: dict[tuple[str, ...], int] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """The latest hash, by the names of its topics: a group's next one is nearly always the same."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_id", {t.topic_id: t for t in self.by_name.values()})

    def ids(self, names: Iterable[str]) -> frozenset[UUID]:
        """The ids of the existing topics among these names."""
        return frozenset(self.by_name[name].topic_id for name in names if name in self.by_name)

    def partitions(self, owned: Iterable[tuple[str, Iterable[int]]]) -> frozenset[Partition]:
        """Names to ids; topics that the cluster does not know are dropped (rules 4.2, 5.4)."""
        return frozenset(
            [
                Partition(topic.topic_id, number)
                for name, numbers in owned
                if (topic := self.by_name.get(name)) is not None
                for number in numbers
            ]
        )

    def names(self, partitions: Iterable[Partition]) -> dict[str, tuple[int, ...]]:
        """Ids to names, both sorted; ids that the cluster does not know are dropped (rule 5.6)."""
        by_name: dict[str, list[int]] = {}
        for topic_id, number in partitions:
            topic = self.by_id.get(topic_id)
            if topic is not None:
                by_name.setdefault(topic.name, []).append(number)
        return {name: tuple(sorted(by_name[name])) for name in sorted(by_name)}

    def metadata_hash(self, names: Iterable[str]) -> int:
        """A stable 63-bit hash of the subscribed topics: id, name, partition count and racks.

        Zero if none of them exists (KIP-1101).
        """
        known = tuple([name for name in sorted(names) if name in self.by_name])
        if not known:
            return 0
        if (latest := self._hash_of.get(known)) is None:
            self._hash_of.clear()
            latest = self._hash_of[known] = self._hash_topics(known)
        return latest

    def _hash_topics(self, names: Iterable[str]) -> int:
        digest = hashlib.blake2b(digest_size=8)
        for topic in map(self.by_name.__getitem__, names):
            racks = tuple(tuple(sorted(per_partition)) for per_partition in topic.racks)
            digest.update(repr((topic.name, topic.topic_id, topic.partition_count, racks)).encode())
        return int.from_bytes(digest.digest()) >> 1


def by_topic(partitions: Iterable[Partition]) -> dict[UUID, tuple[int, ...]]:
    """Partition numbers by topic id, ascending, as on the wire."""
    grouped: dict[UUID, list[int]] = {}
    for partition in sorted(partitions):
        grouped.setdefault(partition.topic_id, []).append(partition.number)
    return {topic_id: tuple(numbers) for topic_id, numbers in grouped.items()}
