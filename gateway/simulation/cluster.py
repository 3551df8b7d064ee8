"""The simulated Kafka cluster: topics that appear, grow and vanish, and the committed offsets.

Storing a commit takes time, and its answer may be lost. The cluster then stores the commit before
the engine stops waiting for it, or never.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from coordinator.interface.topics import Partition, Topic, Topics
from gateway.simulation.world import World

PARTITIONS_MAX = 6
RACKS = ("a", "b", "c")
OTHER_COORDINATOR = "other coordinator"
"""The committer of offsets while another coordinator serves the group."""
CONSUMED_MAX = 9
"""The most records that a client consumes from a partition between two commits."""

Positions = Mapping[Partition, int]


@dataclass(eq=False, slots=True, kw_only=True)
class Commit:
    """A commit on its way to the cluster; `is_over` once it is stored or discarded."""

    who: str
    positions: Positions
    is_lost: bool = False
    is_over: bool = False


class Cluster:
    """Topics and offsets. `stored` is called with committer, partition, old and new offset."""

    def __init__(self, world: World, *, stored: Callable[[str, Partition, int, int], None]) -> None:
        self.topics = Topics()
        self.offsets: dict[Partition, int] = {}
        self.names: dict[UUID, str] = {}
        self.lost_answer_rate = 0.0
        self.delay_ms_max = 60
        self.has_racks = False
        self._world = world
        self._stored = stored
        self._on_the_way: list[Commit] = []
        self._racks_moved = 0

    # -- topics ----------------------------------------------------------------------------------

    def create(self, name: str, partition_count: int) -> None:
        """Create a topic. One that existed before gets a new id."""
        topic_id = UUID(int=self._world.dice.getrandbits(128), version=4)
        self.names[topic_id] = name
        racks = tuple(self._draw_racks() for _ in range(partition_count))
        topic = Topic(name=name, topic_id=topic_id, partition_count=partition_count, racks=racks)
        self._put(topic, names_version=self.topics.names_version + 1)

    def grow(self, name: str) -> None:
        """Add a partition to a topic."""
        topic = self.topics.by_name[name]
        if topic.partition_count < PARTITIONS_MAX:
            more = replace(
                topic,
                partition_count=topic.partition_count + 1,
                racks=(*topic.racks, self._draw_racks()),
            )
            self._put(more, names_version=self.topics.names_version)

    def move_replica(self, name: str) -> None:
        """Move a replica of the topic's first partition to a new rack."""
        topic = self.topics.by_name[name]
        self._racks_moved += 1
        racks = (frozenset({f"rack {self._racks_moved}"}), *topic.racks[1:])
        self._put(replace(topic, racks=racks), names_version=self.topics.names_version)

    def _draw_racks(self) -> frozenset[str]:
        """The racks of a partition's replicas; empty if the cluster has no racks."""
        return frozenset({self._world.dice.choice(RACKS)}) if self.has_racks else frozenset()

    def delete(self, name: str) -> None:
        """Delete a topic and its offsets."""
        self._world.tell("cluster", f"deletes the topic {name}")
        gone = self.topics.by_name[name].topic_id
        rest = {each.name: each for each in self.topics.by_name.values() if each.name != name}
        before = self.topics
        self.topics = Topics(rest, before.version + 1, before.names_version)
        self.offsets = {p: offset for p, offset in self.offsets.items() if p.topic_id != gone}

    def _put(self, topic: Topic, *, names_version: int) -> None:
        self._world.tell("cluster", f"{topic.name} has {topic.partition_count} partitions")
        topics = {**self.topics.by_name, topic.name: topic}
        self.topics = Topics(topics, self.topics.version + 1, names_version)

    # -- offsets ---------------------------------------------------------------------------------

    def commit(self, who: str, positions: Positions, ended: Callable[[bool], None]) -> Commit:
        """Store the positions after a delay, and call `ended` with whether the answer was lost. In
        that case, or to stop waiting for the answer, the caller calls `lose`."""
        world = self._world
        commit = Commit(who=who, positions=positions)
        self._on_the_way = [each for each in self._on_the_way if not each.is_over]
        self._on_the_way.append(commit)
        answer_ms = world.between(1, self.delay_ms_max)
        is_lost = world.chance(self.lost_answer_rate)
        if not is_lost:
            world.after(answer_ms, self._store_in_time, commit)
        world.after(answer_ms, ended, is_lost)
        return commit

    def lose(self, commit: Commit, hold_ms: int) -> None:
        """Lose the commit's answer. The cluster stores the commit within `hold_ms`, or never."""
        commit.is_lost = True
        stored_ms = self._world.between(0, hold_ms - 1)
        self._world.after(
            stored_ms, self._store if self._world.chance(0.7) else self._forget, commit
        )

    def fence_commits(self) -> None:
        """Store or discard every commit on its way, because the gateway that sent them is gone."""
        for commit in self._on_the_way:
            if self._world.chance(0.5):
                self._store(commit)
            commit.is_over = True
        self._on_the_way.clear()

    def commit_elsewhere(self) -> None:
        """Store greater offsets on behalf of the other coordinator."""
        partitions = [
            Partition(topic.topic_id, number)
            for topic in self.topics.by_name.values()
            for number in range(topic.partition_count)
        ]
        positions = {
            partition: self.offsets.get(partition, 0) + self._world.between(1, CONSUMED_MAX)
            for partition in partitions
        }
        self._store(Commit(who=OTHER_COORDINATOR, positions=positions))

    def _store_in_time(self, commit: Commit) -> None:
        if not commit.is_lost:
            self._store(commit)

    def _forget(self, commit: Commit) -> None:
        commit.is_over = True

    def _store(self, commit: Commit) -> None:
        if commit.is_over:
            return
        commit.is_over = True
        for partition, position in sorted(commit.positions.items()):
            if partition.topic_id in self.topics.by_id:
                before = self.offsets.get(partition, -1)
                self.offsets[partition] = position
                self._world.tell("cluster", f"stores {position} for {self.name_of(partition)}")
                self._stored(commit.who, partition, before, position)

    def name_of(self, partition: Partition) -> str:
        """The partition's name in transcripts."""
        return f"{self.names.get(partition.topic_id, '?')}-{partition.number}"
