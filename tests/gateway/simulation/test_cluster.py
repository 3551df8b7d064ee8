"""The simulated cluster."""

from coordinator.interface.topics import Partition
from gateway.simulation.cluster import Cluster
from gateway.simulation.world import World


def cluster_of(world: World) -> tuple[Cluster, list[tuple[str, int, int]]]:
    """A cluster, and a list of the offsets that it stores."""
    told: list[tuple[str, int, int]] = []
    cluster = Cluster(
        world, stored=lambda who, _partition, before, now: told.append((who, before, now))
    )
    cluster.create("foo", 2)
    return cluster, told


def test_a_recreated_topic_is_a_new_topic() -> None:
    """It has a new id and no offsets, and the image has a new version."""
    cluster, _told = cluster_of(World(1))
    first = cluster.topics.by_name["foo"]
    cluster.offsets[Partition(first.topic_id, 0)] = 5
    cluster.delete("foo")
    cluster.create("foo", 2)
    assert cluster.topics.by_name["foo"].topic_id != first.topic_id
    assert (cluster.offsets, cluster.topics.version) == ({}, 3)


def test_a_commit_is_stored_after_a_delay() -> None:
    """Its answer follows."""
    world = World(1)
    cluster, told = cluster_of(world)
    ended: list[bool] = []
    partition = Partition(cluster.topics.by_name["foo"].topic_id, 0)
    cluster.commit("c1", {partition: 7}, ended.append)
    assert told == []
    world.run_until(world.now_ms + cluster.delay_ms_max)
    assert (told, ended) == ([("c1", -1, 7)], [False])


def test_a_commit_without_an_answer_is_stored_in_time_or_never() -> None:
    """The engine waits for `hold_ms` after it learned that the answer is lost."""
    stored = 0
    for seed in range(40):
        world = World(seed)
        cluster, told = cluster_of(world)
        cluster.lost_answer_rate = 1.0
        ended: list[bool] = []
        partition = Partition(cluster.topics.by_name["foo"].topic_id, 0)
        commit = cluster.commit("c1", {partition: 7}, ended.append)
        while not ended:
            world.run_until(world.now_ms + 1)
        assert ended == [True]
        cluster.lose(commit, 500)
        world.run_until(world.now_ms + 499)
        seen = len(told)
        world.run_until(world.now_ms + 10_000)
        assert len(told) == seen
        stored += seen
    assert 0 < stored < 40


def test_no_commit_is_stored_after_the_fence() -> None:
    """The fence decides about commits on their way."""
    world = World(3)
    cluster, told = cluster_of(world)
    partition = Partition(cluster.topics.by_name["foo"].topic_id, 0)
    cluster.commit("c1", {partition: 7}, lambda _: None)
    cluster.fence_commits()
    seen = list(told)
    world.run_until(world.now_ms + 10_000)
    assert told == seen
