"""The simulated Kafka cluster: topics that appear, grow and vanish, the group's coordinator, and
the committed offsets.

Every request takes time, and its answer may be lost. A commit whose answer was lost may still
arrive much later. Only the ids in it then tell the cluster whether to store it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from coordinator.interface.config import GroupConfig
from coordinator.interface.events import OffsetCommitReceived, Request
from coordinator.interface.replies import Reply
from coordinator.interface.topics import Partition, Topic, Topics
from gateway.hosting.identity import AnchorIds
from gateway.hosting.lookup_outcome import LookupOutcome
from kafka_codecs.declaration import Struct
from kafka_codecs.describe_groups import DescribedGroup
from tests.simulation.broker_profiles import KAFKA_4_3, BrokerProfile
from tests.simulation.cluster_group import ClusterGroup
from tests.simulation.intruder import INTRUDER
from tests.simulation.world import World

PARTITIONS_MAX = 6
RACKS = ("a", "b", "c")
GROUP = "orders"
TRIP_MS_MAX = 20
"""The longest way between gateway and cluster, one way."""
TIMEOUT_MS = 1_500
"""When the gateway stops waiting for an answer of the cluster."""
LATE_MS_MAX = 6_000
"""The longest delay of a request whose answer was given up."""
CONSUMED_MAX = 9
"""The most records that a client consumes from a partition between two commits."""

_PATIENT = GroupConfig(classic_min_session_timeout_ms=1_000)

Positions = Mapping[Partition, int]


@dataclass(eq=False, slots=True, kw_only=True)
class Commit:
    """A commit on its way to the cluster, under the anchor's ids if there are any."""

    who: str
    request: OffsetCommitReceived
    positions: Positions
    ids: AnchorIds | None
    """The ids under which the commit is sent; None for one without a member, or under the member's
    own."""
    sender: int
    """The number of the process that sent it."""
    is_over: bool = False
    """Whether the cluster has stored or refused it."""
    is_held: bool = False
    """Whether its sender waits until the cluster can no longer store it."""
    is_relayed: bool = False
    """Whether it is under the member's own ids."""

    @property
    def is_of_member(self) -> bool:
        """Whether the cluster reads the ids of a member in it."""
        return self.ids is not None or self.is_relayed

    def as_sent(self) -> OffsetCommitReceived:
        """The request as the cluster reads it."""
        if self.is_relayed:
            return self.request
        if self.ids is None:
            return replace(self.request, member_id="", instance_id=None, epoch=-1)
        return replace(
            self.request,
            member_id=self.ids.member_id,
            instance_id=self.ids.instance_id or None,
            epoch=self.ids.generation,
        )


Answered = Callable[[Commit, int | None], None]
"""Takes the cluster's code for a commit, None if the answer was lost."""


class Cluster:
    """Topics and offsets. `stored` is called with committer, partition, old and new offset."""

    def __init__(
        self,
        world: World,
        *,
        holds_anchors: bool,
        profile: BrokerProfile = KAFKA_4_3,
        config: GroupConfig = _PATIENT,
        stored: Callable[[str, Partition, int, int], None],
    ) -> None:
        self.holds_anchors = holds_anchors
        """Whether its coordinator checks the ids of commits. Otherwise it stores any commit."""
        self.group = ClusterGroup(world, GROUP, profile, config, lambda: self.topics)
        """The group in the cluster."""
        self._last_ms: dict[object, int] = {}
        """When the latest request of a connection of the gateway arrives."""
        self.failure_rate = 0.0
        """The share of requests of the gateway itself that get no answer."""
        self.topics = Topics()
        self.offsets: dict[Partition, int] = {}
        self.names: dict[UUID, str] = {}
        self.lost_answer_rate = 0.0
        self.delay_ms_max = 60
        self.has_racks = False
        self._world = world
        self._stored = stored
        self._on_the_way: dict[Commit, None] = {}
        self._racks_moved = 0
        self.intruded_ms = world.now_ms
        """When the intruder entered the group."""

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
        self._world.trace("cluster", f"deletes the topic {name}")
        gone = self.topics.by_name[name].topic_id
        rest = {topic.name: topic for topic in self.topics.by_name.values() if topic.name != name}
        before = self.topics
        self.topics = Topics(rest, before.version + 1, before.names_version)
        self.offsets = {p: offset for p, offset in self.offsets.items() if p.topic_id != gone}

    def _put(self, topic: Topic, *, names_version: int) -> None:
        self._world.trace("cluster", f"{topic.name} has {topic.partition_count} partitions")
        topics = {**self.topics.by_name, topic.name: topic}
        self.topics = Topics(topics, self.topics.version + 1, names_version)

    # -- the group's coordinator -----------------------------------------------------------------

    def fails_now(self) -> bool:
        """Draw whether a request of the gateway itself gets no answer."""
        return bool(self.failure_rate) and self._world.chance(self.failure_rate)

    def ask_coordinator(
        self,
        message: Struct,
        answered: Callable[[Struct | None, int], None],
        connection: object = None,
    ) -> None:
        """Ask on behalf of the gateway. `answered` gets the answer and its code, or None. Requests
        on one `connection` keep their order."""
        world = self._world
        if not self.fails_now():
            at_ms = world.now_ms + world.between(1, TRIP_MS_MAX)
            if connection is not None:
                at_ms = self._last_ms[connection] = max(at_ms, self._last_ms.get(connection, 0))
            world.after(at_ms - world.now_ms, self._coordinate, message, answered)
            return
        world.counts["anchors without an answer"] += 1
        world.after(TIMEOUT_MS, answered, None, 0)
        if world.chance(0.7):
            delay_ms = world.between(1, LATE_MS_MAX)
            world.after(delay_ms, self._coordinate, message, _ignore_answer)

    def _coordinate(self, message: Struct, answered: Callable[[Struct | None, int], None]) -> None:
        world = self._world

        def hear(answer: Struct | None) -> None:
            if answer is None:
                world.after(TIMEOUT_MS, answered, None, 0)
                return
            code = getattr(answer, "error_code", 0)
            world.trace("cluster", f"answers {type(message).__name__} of the gateway: {code}")
            world.after(world.between(1, TRIP_MS_MAX), answered, answer, code)

        self.group.ask(message, hear)

    def relay(
        self, request: Request, answered: Callable[[Reply | None, int, Topics], None]
    ) -> None:
        """Relay a client's request. `answered` gets the answer, when it was given, and the topics
        then; None if the connection broke."""
        world = self._world

        def hear(reply: Reply | None) -> None:
            now_ms, topics = world.now_ms, self.topics
            world.after(world.between(1, TRIP_MS_MAX), answered, reply, now_ms, topics)

        world.after(world.between(1, TRIP_MS_MAX), self.group.handle, request, hear)

    def look(self, looked: Callable[[LookupOutcome | None], None]) -> None:
        """Find out who is in the group."""
        self._ask_about_group(self.group.look, looked)

    def describe(self, described: Callable[[DescribedGroup | None], None]) -> None:
        """Have the group described."""
        self._ask_about_group(self.group.describe, described)

    def _ask_about_group(self, look: Callable[[], Any], looked: Callable[[Any], None]) -> None:
        world = self._world

        def answer() -> None:
            world.after(world.between(1, TRIP_MS_MAX), looked, look())

        if self.fails_now():
            world.after(TIMEOUT_MS, looked, None)
        else:
            world.after(world.between(1, TRIP_MS_MAX), answer)

    def remove_anchor(self) -> None:
        """Remove the anchor, as an admin can who waits for its own commits. One without a member
        that is late would otherwise be stored, because the group is empty then."""
        anchors = self.group.anchors
        if anchors and all(request.is_of_member for request in self._on_the_way):
            self._world.trace("admin", "removes the anchor from the group in the cluster")
            self._world.counts["anchors removed"] += 1
            self.group.remove(anchors)

    def intrude(self) -> None:
        """Let a consumer that bypasses the gateway into the group, in the anchor's place."""
        if self.group.has_other_members:
            return
        self._world.trace(INTRUDER, "is in the group in the cluster")
        self._world.counts["takeovers"] += 1
        self.intruded_ms = self._world.now_ms
        self.group.intrude()

    @property
    def has_intruder(self) -> bool:
        """Whether the group in the cluster has a consumer, which is never silent."""
        return self.group.has_intruder

    def end_intrusion(self) -> None:
        """Let the intruder leave."""
        if self.has_intruder:
            self._world.trace(INTRUDER, "leaves")
            self.group.end_intrusion()

    def consume_elsewhere(self) -> None:
        """Store greater offsets on behalf of the intruder."""
        for topic in self.topics.by_name.values():
            for number in range(topic.partition_count):
                partition = Partition(topic.topic_id, number)
                position = self.offsets.get(partition, 0) + self._world.between(1, CONSUMED_MAX)
                self._store(INTRUDER, partition, position)

    # -- offsets ---------------------------------------------------------------------------------

    def send(self, commits: Sequence[Commit], answered: Answered) -> None:
        """Send commits on one connection, which keeps their order. `answered` is called for each of
        them, until an answer is lost. A commit without an answer arrives late, or never."""
        world, at_ms = self._world, 0
        for number, commit in enumerate(commits):
            self._on_the_way[commit] = None
            at_ms += world.between(1, self.delay_ms_max)
            if self.lost_answer_rate and world.chance(self.lost_answer_rate):
                world.counts["commits without an answer"] += 1
                world.after(at_ms, answered, commit, None)
                self._lose(commits[number:], at_ms)
                return
            world.after(at_ms, self._arrive, commit, answered)

    def _lose(self, commits: Sequence[Commit], at_ms: int) -> None:
        self._on_the_way.update(dict.fromkeys(commits))
        if (
            self.holds_anchors and not commits[0].is_relayed
        ):  # otherwise others say when they arrive
            self._arrive_later(commits, at_ms, at_ms + LATE_MS_MAX, never=0.2)

    def hold(self, commits: Sequence[Commit], hold_ms: int) -> None:
        """Store commits without an answer within this time or never. The engine waits for that
        where no anchor's ids end them."""
        held = [commit for commit in commits if not commit.is_held]
        for commit in held:
            commit.is_held = True
        self._arrive_later(held, 0, hold_ms - 1, never=0.3)

    def _arrive_later(
        self, commits: Sequence[Commit], from_ms: int, to_ms: int, *, never: float
    ) -> None:
        """Each arrives or is lost, in the order of their connection."""
        world = self._world
        delays_ms = sorted(world.between(from_ms, to_ms) for _ in commits)
        for commit, delay_ms in zip(commits, delays_ms, strict=True):
            if world.chance(never):
                self._end(commit)
            else:
                world.after(delay_ms, self._arrive, commit, _ignore_answer)

    def end_relayed(self, commits: Sequence[Commit]) -> None:
        """Store or discard what is on its way on a client's connection that breaks: how a member
        may overtake itself is between its client and Kafka."""
        for commit in commits:
            if commit.is_relayed and not commit.is_over:
                if self._world.chance(0.5):
                    self._arrive(commit, _ignore_answer)
                self._end(commit)

    def fence_commits(self) -> None:
        """Store or discard every commit on its way now, because the gateway that sent them is gone
        and no ids could tell the cluster."""
        for commit in [*self._on_the_way]:
            if self._world.chance(0.5):
                self._arrive(commit, _ignore_answer)
            self._end(commit)

    def may_store(self, concerns: Callable[[Commit], object]) -> list[Commit]:
        """The commits on their way that the cluster would store if they arrived now."""
        return [
            request
            for request in self._on_the_way
            if concerns(request) and not self._code_of(request)
        ]

    def _code_of(self, commit: Commit) -> int:
        return self.group.would_refuse(commit.as_sent()) if self.holds_anchors else 0

    def _arrive(self, commit: Commit, answered: Answered) -> None:
        if commit.is_over:
            return
        code = self.group.commit(commit.as_sent()) if self.holds_anchors else 0
        self._end(commit)
        if code:
            self._world.counts["commits refused by the cluster"] += 1
            self._world.trace("cluster", f"refuses a commit of {commit.who} with {code}")
        else:
            for partition, position in sorted(commit.positions.items()):
                self._store(commit.who, partition, position)
        self._world.after(self._world.between(1, TRIP_MS_MAX), answered, commit, code)

    def _end(self, commit: Commit) -> None:
        commit.is_over = True
        self._on_the_way.pop(commit, None)

    def _store(self, who: str, partition: Partition, position: int) -> None:
        if partition.topic_id in self.topics.by_id:
            before = self.offsets.get(partition, -1)
            self.offsets[partition] = position
            self._world.trace("cluster", f"stores {position} for {self.name_of(partition)}")
            self._stored(who, partition, before, position)

    def name_of(self, partition: Partition) -> str:
        """The partition's name in transcripts."""
        return f"{self.names.get(partition.topic_id, '?')}-{partition.number}"


def _ignore_answer(*_answer: Any) -> None:
    """No process waits for the answer any more."""
