"""The topic image."""

from uuid import UUID

from coordinator.interface.topics import Partition, Topic, Topics, by_topic
from tests.support.operations import counted_steps

A, B = UUID(int=1), UUID(int=2)


def image(
    count: int = 3, *, topic_id: UUID = A, racks: tuple[frozenset[str], ...] = (), version: int = 0
) -> Topics:
    a = Topic(name="a", topic_id=topic_id, partition_count=count, racks=racks)
    b = Topic(name="b", topic_id=B, partition_count=1)
    return Topics({"a": a, "b": b}, version=version)


def test_names_to_ids_and_back() -> None:
    """Both directions drop unknown topics."""
    held = image().partitions([("a", (2, 0)), ("gone", (0,)), ("b", (0,))])
    assert held == {Partition(A, 0), Partition(A, 2), Partition(B, 0)}
    assert image().names([*held, Partition(UUID(int=9), 0)]) == {"a": (0, 2), "b": (0,)}
    assert list(image().names(held)) == ["a", "b"]
    assert image().ids(["a", "gone"]) == {A}


def test_the_hash_covers_ids_names_partitions_and_racks() -> None:
    """Version, other topics and order do not matter."""
    reference = image().metadata_hash(["a", "b"])
    assert image(version=7).metadata_hash(["b", "a", "gone"]) == reference
    others = [
        image(4).metadata_hash(["a", "b"]),
        image(topic_id=UUID(int=8)).metadata_hash(["a", "b"]),
        image(racks=(frozenset({"r1"}),)).metadata_hash(["a", "b"]),
        image().metadata_hash(["a"]),
    ]
    assert len({reference, *others}) == 5
    assert 0 < reference < 2**63


def test_the_hash_without_topics_is_zero() -> None:
    """This includes names of nonexistent topics (KIP-1101)."""
    assert image().metadata_hash([]) == image().metadata_hash(["gone"]) == 0


def test_the_hash_does_not_depend_on_the_process() -> None:
    """The hash is stored, so a restart must not change it."""
    racks = (frozenset({"r2", "r1", "r3"}), frozenset({"r3", "r2", "r1"}))
    assert image(racks=racks).metadata_hash(["a"]) == 8081949007905609439


def test_a_join_hashes_no_partition_again() -> None:
    """Every join and every generation asks for the hash of the same topics."""
    large = image(racks=(frozenset({"r"}),) * 10_000)
    first = large.metadata_hash(["a", "b"])
    with counted_steps() as steps:
        assert large.metadata_hash(["b", "a"]) == first
    assert steps.count < 200
    assert large.metadata_hash(["b"]) != first


def test_partitions_by_topic() -> None:
    """Partitions are grouped as on the wire, ascending."""
    held = [Partition(B, 0), Partition(A, 2), Partition(A, 0)]
    assert by_topic(held) == {A: (0, 2), B: (0,)}
