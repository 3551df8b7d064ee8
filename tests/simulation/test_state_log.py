"""The simulated log has one writer, and fails as it is told to."""

from coordinator.interface.records import EpochCause, GroupEpoch
from gateway.hosting.inputs import Damage
from tests.simulation.state_log import SimulatedLog
from tests.simulation.world import World

BATCH = (GroupEpoch(epoch=1, metadata_hash=1, cause=EpochCause.MEMBER_JOINED),)


def test_only_the_last_to_take_the_log_can_write() -> None:
    """The log does not have what the others write."""
    log = SimulatedLog(World(1))
    first, second = log.take(), log.take()
    assert log.append(first, [BATCH]) is Damage.NONE
    assert log.append(second, [BATCH, ()]) is None
    assert log.batches == [BATCH]
    assert (log.is_owned_by(first), log.is_owned_by(second)) == (False, True)


def test_a_failed_write_leaves_nothing() -> None:
    """The next one may succeed."""
    log = SimulatedLog(World(1))
    writer = log.take()
    log.failure_rate = 1.0
    assert log.append(writer, [BATCH]) is Damage.NONE
    assert log.fails_to_read()
    assert not log.records()


def test_a_doubtful_write_is_in_the_log_or_not() -> None:
    """The writer is told only that nobody knows."""
    found = set()
    for seed in range(10):
        log = SimulatedLog(World(seed))
        writer = log.take()
        log.doubt_rate = 1.0
        assert log.append(writer, [BATCH]) is Damage.UNSURE
        found.add(len(log.batches))
    assert found == {0, 1}


def test_compaction_keeps_the_newest_record_of_each_key() -> None:
    """Up to a random point."""
    lengths = set()
    for seed in range(20):
        log = SimulatedLog(World(seed))
        log.append(log.take(), [BATCH] * 4)
        log.compact()
        assert log.records()[-1] == BATCH[0]
        lengths.add(len(log.records()))
    assert lengths == {1, 2, 3, 4}


def test_a_batch_after_a_compaction_that_leaves_nothing_is_read() -> None:
    """It is the first of the log, and new all the same."""
    ended = (GroupEpoch(epoch=None, cause=EpochCause.MEMBER_REMOVED),)
    read = set()
    for seed in range(20):
        log = SimulatedLog(World(seed))
        writer = log.take()
        log.append(writer, [BATCH, ended])
        before = log.stored
        log.compact()
        log.append(writer, [BATCH])
        assert log.since(before) == [BATCH]
        read.add(log.since(0) is None)
    assert read == {True, False}
