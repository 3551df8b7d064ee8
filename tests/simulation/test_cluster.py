"""The simulated cluster."""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace

from coordinator.interface.events import OffsetCommitReceived
from coordinator.interface.topics import Partition
from gateway.hosting.identity import INSTANCE_ID, AnchorIds, Gateway
from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.heartbeat import HeartbeatRequest
from kafka_codecs.join_group import JoinGroupProtocol, JoinGroupRequest, JoinGroupResponse
from kafka_codecs.sync_group import SyncGroupRequest
from tests.simulation.broker_profiles import KAFKA_4_3
from tests.simulation.cluster import GROUP, LATE_MS_MAX, Cluster, Commit
from tests.simulation.world import World

ANCHOR_SESSION_MS = 60_000
GUISE = Gateway(log_id="log-1", run_id=1).guise


def join_anchor(world: World, cluster: Cluster) -> AnchorIds:
    """Let an anchor join the group, or replace the one that is there."""
    answers: list[Struct | None] = []
    join = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=ANCHOR_SESSION_MS,
        rebalance_timeout_ms=ANCHOR_SESSION_MS,
        member_id="",
        group_instance_id=INSTANCE_ID,
        protocol_type=GUISE.protocol_type,
        protocols=(JoinGroupProtocol(name=GUISE.protocol, metadata=GUISE.metadata),),
    )
    cluster.group.ask(join, answers.append)
    world.run_until(world.now_ms + 1)
    (joined,) = answers
    assert isinstance(joined, JoinGroupResponse)
    sync = SyncGroupRequest(
        group_id=GROUP,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        group_instance_id=INSTANCE_ID,
        protocol_type=GUISE.protocol_type,
        protocol_name=GUISE.protocol,
        assignments=(),
    )
    cluster.group.ask(sync, lambda _answer: None)
    return AnchorIds(member_id=joined.member_id, generation=joined.generation_id)


def cluster_of(
    world: World, *, holds_anchors: bool = True
) -> tuple[Cluster, list[tuple[str, int, int]]]:
    """A cluster whose group an anchor holds, and a list of the offsets that it stores."""
    told: list[tuple[str, int, int]] = []
    cluster = Cluster(
        world,
        holds_anchors=holds_anchors,
        profile=replace(KAFKA_4_3, initial_rebalance_delay_ms=0),
        stored=lambda who, _partition, before, now: told.append((who, before, now)),
    )
    cluster.create("foo", 2)
    join_anchor(world, cluster)
    return cluster, told


def commit(cluster: Cluster, position: int = 7) -> Commit:
    """A commit under the anchor's ids."""
    (anchor,) = cluster.group.anchors
    ids = AnchorIds(member_id=anchor, generation=cluster.group.generation)
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
    return Commit(who="c1", request=request, positions=positions, ids=ids, sender=1)


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
    join_anchor(world, cluster)
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
    (anchor,) = cluster.group.anchors
    heartbeat = HeartbeatRequest(
        group_id=GROUP,
        generation_id=cluster.group.generation,
        member_id=anchor,
        group_instance_id=INSTANCE_ID,
    )
    world.run_until(world.now_ms + ANCHOR_SESSION_MS // 2)
    cluster.ask_coordinator(heartbeat, lambda _answer, _code: None)
    world.run_until(world.now_ms + ANCHOR_SESSION_MS - 100)
    kept = cluster.group.anchors
    world.run_until(world.now_ms + ANCHOR_SESSION_MS)
    assert (kept, cluster.group.anchors) == ([anchor], [])


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
