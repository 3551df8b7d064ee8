"""The simulated cluster."""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace

from coordinator.interface.events import OffsetCommitReceived
from coordinator.interface.topics import Partition
from gateway.hosting.identity import INSTANCE_ID, AnchorIds
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.heartbeat import HeartbeatRequest
from tests.simulation.cluster import ANCHOR_SESSION_MS, GROUP, LATE_MS_MAX, Cluster, Commit
from tests.simulation.coordinator import FakeGroup
from tests.simulation.world import World

IDS = AnchorIds(member_id="anchor-1", generation=1)


def cluster_of(
    world: World, *, holds_anchors: bool = True
) -> tuple[Cluster, list[tuple[str, int, int]]]:
    """A cluster whose group an anchor holds, and a list of the offsets that it stores."""
    told: list[tuple[str, int, int]] = []
    cluster = Cluster(
        world,
        holds_anchors=holds_anchors,
        stored=lambda who, _partition, before, now: told.append((who, before, now)),
    )
    cluster.create("foo", 2)
    cluster.coordinator.groups[GROUP] = FakeGroup(
        member_id=IDS.member_id, instance_id=INSTANCE_ID, generation=IDS.generation, is_synced=True
    )
    return cluster, told


def commit(cluster: Cluster, position: int = 7) -> Commit:
    """A commit under the anchor's ids."""
    partition = Partition(cluster.topics.by_name["foo"].topic_id, 0)
    positions: Mapping[Partition, int] = {partition: position}
    request = OffsetCommitReceived(
        token=position,
        version=9,
        member_id="m",
        instance_id=None,
        epoch=1,
        partitions=frozenset(positions),
    )
    return Commit(who="c1", request=request, positions=positions, ids=IDS, sender=1)


def noting(codes: list[int | None]) -> Callable[[Commit, int | None], None]:
    """Takes the cluster's codes."""
    return lambda _commit, code: codes.append(code)


def test_a_recreated_topic_is_a_new_topic() -> None:
    """It has a new id and no offsets, and the image has a new version."""
    cluster, _told = cluster_of(World(1))
    first = cluster.topics.by_name["foo"]
    cluster.offsets[Partition(first.topic_id, 0)] = 5
    cluster.delete("foo")
    cluster.create("foo", 2)
    assert cluster.topics.by_name["foo"].topic_id != first.topic_id
    assert (cluster.offsets, cluster.topics.version) == ({}, 3)


def test_commits_of_one_connection_are_stored_in_order() -> None:
    """Each has its answer."""
    for seed in range(10):
        world = World(seed)
        cluster, told = cluster_of(world)
        codes = list[int | None]()
        some = [commit(cluster, position) for position in (7, 8, 9)]
        cluster.send(some, noting(codes))
        assert cluster.may_store(bool) == some
        world.run_until(world.now_ms + 1_000)
        assert [now for _who, _before, now in told] == [7, 8, 9]
        assert codes == [0, 0, 0]
        assert cluster.may_store(bool) == []


def test_a_commit_without_an_answer_arrives_late_or_never() -> None:
    """Nobody hears of it."""
    stored = 0
    for seed in range(40):
        world = World(seed)
        cluster, told = cluster_of(world)
        cluster.lost_answer_rate = 1.0
        codes = list[int | None]()
        cluster.send([commit(cluster)], noting(codes))
        world.run_until(world.now_ms + 2 * LATE_MS_MAX)
        assert codes == [None]
        stored += len(told)
    assert 0 < stored < 40


def test_a_late_commit_of_a_replaced_anchor_is_refused() -> None:
    """Its ids tell the cluster."""
    world = World(1)
    cluster, told = cluster_of(world)
    late = commit(cluster)
    codes = list[int | None]()
    cluster.send([late], noting(codes))
    cluster.group.member_id = "anchor-2"
    assert cluster.may_store(bool) == []
    world.run_until(world.now_ms + 1_000)
    assert (told, codes) == ([], [ErrorCode.FENCED_INSTANCE_ID])


def test_without_anchors_a_lost_commit_is_stored_in_time_or_never() -> None:
    """The engine waits for `hold_ms` after it learned that the answer is lost."""
    stored = 0
    for seed in range(40):
        world = World(seed)
        cluster, told = cluster_of(world, holds_anchors=False)
        cluster.lost_answer_rate = 1.0
        lost = replace(commit(cluster), ids=None)
        cluster.send([lost], lambda each, _code, cluster=cluster: cluster.hold([each], 500))  # type: ignore[misc]
        world.run_until(world.now_ms + cluster.delay_ms_max + 500)
        seen = len(told)
        world.run_until(world.now_ms + 10_000)
        assert len(told) == seen
        stored += seen
    assert 0 < stored < 40


def test_commits_without_an_answer_arrive_in_the_order_of_their_connection() -> None:
    """Each may be lost."""
    for seed, holds_anchors in itertools.product(range(40), (True, False)):
        world = World(seed)
        cluster, _told = cluster_of(world, holds_anchors=holds_anchors)
        arrived: list[int] = []
        cluster._store = lambda _who, _partition, position, into=arrived: into.append(position)  # type: ignore[method-assign, misc]
        commits = [commit(cluster) for _ in range(4)]
        for number, each in enumerate(commits):
            each.positions = dict.fromkeys(each.positions, number)
        cluster.lost_answer_rate = 1.0
        cluster.send(commits, lambda _commit, _code: None)
        if not holds_anchors:
            cluster.hold(commits, 500)
        world.run_until(world.now_ms + 2 * LATE_MS_MAX)
        assert arrived == sorted(arrived)


def test_no_commit_is_stored_after_the_fence() -> None:
    """The fence decides about commits on their way."""
    world = World(3)
    cluster, told = cluster_of(world, holds_anchors=False)
    cluster.send([commit(cluster)], lambda _commit, _code: None)
    cluster.fence_commits()
    seen = list(told)
    world.run_until(world.now_ms + 10_000)
    assert told == seen


def test_a_silent_anchor_is_removed_after_its_session() -> None:
    """A heartbeat keeps it."""
    world = World(1)
    cluster, _told = cluster_of(world)
    heartbeat = HeartbeatRequest(
        group_id=GROUP, generation_id=1, member_id=IDS.member_id, group_instance_id=None
    )
    world.run_until(world.now_ms + ANCHOR_SESSION_MS // 2)
    cluster.ask_coordinator(heartbeat, lambda _answer, _code: None)
    world.run_until(world.now_ms + ANCHOR_SESSION_MS - 100)
    kept = cluster.group.member_id
    world.run_until(world.now_ms + ANCHOR_SESSION_MS)
    assert (kept, cluster.group.member_id) == (IDS.member_id, "")


def test_an_intruder_consumes_beside_the_gateway() -> None:
    """It takes the anchor's place, and the offsets grow."""
    world = World(1)
    cluster, told = cluster_of(world)
    cluster.intrude()
    intruded = cluster.has_intruder
    cluster.consume_elsewhere()
    cluster.end_intrusion()
    assert (intruded, cluster.has_intruder) == (True, False)
    assert {who for who, _before, _now in told} == {"intruder"}
