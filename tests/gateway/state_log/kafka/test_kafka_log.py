"""What a log reads just after a commit, when the cluster answers early."""

from collections.abc import Iterator

import pytest

from gateway.state_log.kafka import kafka_log
from gateway.state_log.kafka.content import shard_entry
from gateway.state_log.kafka.kafka_log import KafkaLog, LogShard
from gateway.state_log.log import StateLogError
from gateway.state_log.record_format import StoredEntry
from kafka_codecs.state_records import LogShardValue

SHARDS = 3


def marks(*shards: int) -> Iterator[StoredEntry]:
    """The marks of these parts, as the partitions show them."""
    for shard in shards:
        entry = shard_entry(LogShardValue(shard=shard, shards=SHARDS))
        yield StoredEntry(7, entry.key, entry.value)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> KafkaLog:
    """A log whose parts are read from a list."""
    monkeypatch.setattr(kafka_log, "LOOK_INTERVAL_S", 0)
    part = LogShard(shard=0, shards=SHARDS, log_id=None, run_id=0, record_bytes_max=1_000)
    return KafkaLog([("localhost", 1)], "t", part=part)


def test_a_divided_log_is_there_once_every_partition_shows_it(
    log: KafkaLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit is answered before its end is in every partition. A reader of a log without one
    would believe that its part is lost."""
    looks = iter([marks(0), marks(0, 2), marks(0, 1, 2), marks()])
    monkeypatch.setattr(log, "_read", lambda *_partitions: next(looks))
    log._await_parts(SHARDS)
    assert list(next(looks)) == []


def test_a_partition_that_never_shows_it_ends_the_start(
    log: KafkaLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line says so: the division is written, and the next start finds it."""
    monkeypatch.setattr(kafka_log, "OPEN_TIMEOUT_S", 0)
    monkeypatch.setattr(log, "_read", lambda *_partitions: marks(0, 1))
    with pytest.raises(StateLogError, match="start again"):
        log._await_parts(SHARDS)
