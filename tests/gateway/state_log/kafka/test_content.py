"""The content of the log in a topic."""

import pytest

from coordinator.interface.records import TargetAssignmentMetadata
from gateway.fleet.member import shard_of
from gateway.state_log.kafka.content import (
    LOG_ID_KEY,
    NO_RUN,
    RUNS_PER_CLAIM,
    check_cluster,
    check_part,
    content_of,
    divide_by_shard,
    id_entry,
    owner_entry,
    shard_entry,
)
from gateway.state_log.log import StateLogUnreadable, StateLogUnusable
from gateway.state_log.record_format import Entry, StoredEntry, encode_record
from kafka_codecs.state_records import LogOwnerValue, LogShardValue


def test_the_newest_record_of_each_key_counts() -> None:
    """Compaction may leave older ones. Tombstones leave nothing."""
    entries = [
        encode_record("a", TargetAssignmentMetadata(epoch=1)),
        encode_record("b", TargetAssignmentMetadata(epoch=2)),
        encode_record("a", TargetAssignmentMetadata(epoch=3)),
        encode_record("b", TargetAssignmentMetadata(epoch=None)),
    ]
    groups = content_of(stored_entries(*entries)).groups
    assert groups.read("a") == (TargetAssignmentMetadata(epoch=3),)
    assert groups.group_ids() == ("a",)


def test_the_last_claim_names_the_owner() -> None:
    """The log's id stays the same for all owners."""
    first, second = (
        LogOwnerValue(owner_id=name, host="h", process_id=1, since=2) for name in ("one", "two")
    )
    content = content_of(
        stored_entries(owner_entry(first), id_entry("log", None), owner_entry(second))
    )
    assert (content.log_id, content.owner, content.owner_offset) == ("log", second, 2)
    assert (content_of([]).log_id, content_of([]).owner) == (None, None)


def stored_entries(*entries: Entry) -> list[StoredEntry]:
    """The same records in a topic, from its first offset on."""
    return [StoredEntry(offset, *entry) for offset, entry in enumerate(entries)]


EPOCH = TargetAssignmentMetadata(epoch=1)


def test_a_part_of_a_log_is_taken_for_nothing_else() -> None:
    """A partition without a name is new. An older groupferry knows no such record, so it does not
    start on a part either."""
    mark = LogShardValue(shard=3, shards=16)
    part = content_of(stored_entries(id_entry("log", None), shard_entry(mark)))
    check_part(part, mark, topic="t")
    check_part(content_of([]), mark, topic="t")
    check_part(content_of(stored_entries(id_entry("log", None))), None, topic="t")
    with pytest.raises(StateLogUnusable, match="lost partitions"):
        check_part(part, None, topic="t")
    whole = content_of(stored_entries(id_entry("log", None)))
    check_part(whole, LogShardValue(shard=0, shards=16), topic="t")  # it is about to be divided
    others = (LogShardValue(shard=4, shards=16), LogShardValue(shard=3, shards=8))
    for content, other in ((part, others[0]), (part, others[1]), (whole, mark)):
        with pytest.raises(StateLogUnusable, match="another number of shards"):
            check_part(content, other, topic="t")


def test_only_records_of_groups_are_divided() -> None:
    """The newest of each key. What is about the log, or unknown, stays in its partition."""
    newest = encode_record("b", TargetAssignmentMetadata(epoch=2))
    entries = [
        id_entry("log", None),
        encode_record("a", EPOCH),
        encode_record("b", EPOCH),
        Entry(b"unknown", b"value"),
        newest,
    ]
    parts = divide_by_shard(stored_entries(*entries), 4)
    assert parts == {shard_of("a", 4): [entries[1]], shard_of("b", 4): [newest]}
    assert len(parts) == 2


def test_a_claim_of_an_earlier_gateway_is_none() -> None:
    """The claim was written too late, by a process that did not know of the later one. Gateways
    that have no run yet, or are of one fleet, follow each other as they come."""

    def owner_of(*run_ids: int) -> int:
        claims = [
            LogOwnerValue(owner_id=f"{run_id}", host="h", process_id=1, since=2, run_id=run_id)
            for run_id in run_ids
        ]
        owner = content_of(stored_entries(*map(owner_entry, claims))).owner
        assert owner is not None
        return owner.run_id

    earlier, later = 5 * RUNS_PER_CLAIM, 7 * RUNS_PER_CLAIM
    assert owner_of(earlier, later + 1, earlier + 9) == later + 1
    assert owner_of(later, earlier, later + 2, later + 1) == later + 1
    assert owner_of(later, NO_RUN) == NO_RUN
    assert owner_of(later, NO_RUN, earlier) == earlier


def test_an_unreadable_record_makes_only_its_group_unreadable() -> None:
    """A group that lacks a record would be another group."""
    bad = Entry(encode_record("a", EPOCH).key, b"\x00\x63")
    groups = content_of(stored_entries(encode_record("b", EPOCH), bad)).groups
    assert groups.read("b") == (EPOCH,)
    with pytest.raises(StateLogUnreadable, match="offset 1 of the state log cannot be read"):
        groups.read("a")
    assert groups.group_ids() == ("b",)


def test_an_overwritten_record_may_be_unreadable() -> None:
    """Overwriting it repairs a group."""
    bad = Entry(encode_record("a", EPOCH).key, b"garbage")
    assert content_of(stored_entries(bad, encode_record("a", EPOCH))).groups.read("a") == (EPOCH,)
    gone = encode_record("a", TargetAssignmentMetadata(epoch=None))
    assert content_of(stored_entries(bad, gone)).groups.read("a") == ()


@pytest.mark.parametrize("key", [b"", b"k", b"garbage", b"\x00\x03"], ids=repr)
def test_a_foreign_record_is_skipped(key: bytes) -> None:
    """Another program wrote it. Its offset is reported."""
    content = content_of(stored_entries(encode_record("a", EPOCH), Entry(key, b"value")))
    assert content.groups.read("a") == (EPOCH,)
    assert list(content.ignored) == [1]


@pytest.mark.parametrize("key", [b"\x00\x11\x00", b"\x4e\x7f\x00"], ids=["Kafka's", "ours"])
def test_a_record_type_of_a_later_groupferry_is_not_skipped(key: bytes) -> None:
    """The unknown record may be an important part of a group."""
    with pytest.raises(StateLogUnusable, match=r"offset 0 .* newer groupferry"):
        content_of(stored_entries(Entry(key, b"value")))


def test_the_logs_own_records_must_be_readable() -> None:
    """These records name the log and its owner."""
    with pytest.raises(StateLogUnusable, match="offset 1 of the state log cannot be read"):
        content_of(stored_entries(encode_record("a", EPOCH), Entry(LOG_ID_KEY, b"garbage")))


OF_0_2_0 = "000004" + b"log".hex() + "00"
"""The id of a log, as 0.2.0 writes it: version 0, the id, and no tagged field."""


def test_a_log_of_0_2_0_has_no_cluster_yet() -> None:
    """The log takes the cluster that it meets first. Until then its record has the same bytes."""
    assert id_entry("log", None).value == bytes.fromhex(OF_0_2_0)
    content = content_of(stored_entries(Entry(LOG_ID_KEY, bytes.fromhex(OF_0_2_0))))
    assert (content.log_id, content.cluster_id) == ("log", None)


def test_an_older_groupferry_can_read_the_id_of_a_log_with_a_cluster() -> None:
    """The cluster is a tagged field, which 0.2.0 skips. All before it has the same bytes."""
    entry = id_entry("log", "abc")
    assert entry.value is not None
    assert entry.value.hex().startswith(OF_0_2_0.removesuffix("00") + "01")
    assert content_of(stored_entries(entry)).cluster_id == "abc"


@pytest.mark.parametrize("cluster_id", [None, "here"])
def test_the_log_of_another_cluster_is_refused(cluster_id: str | None) -> None:
    """One line names both, and the way out."""
    with pytest.raises(StateLogUnusable, match=r"topic t is .* of cluster there.*--state-topic"):
        check_cluster("there", cluster_id, topic="t")
    check_cluster(None, cluster_id, topic="t")
    check_cluster(cluster_id, cluster_id, topic="t")
