"""A restart repeats only the events that may be missing in the files."""

from contextlib import closing
from pathlib import Path

import pytest

from coordinator.interface.records import EpochCause
from gateway.events.event import DecisionEvents, Envelope
from gateway.events.gateway_events import GatewayEnded
from gateway.events.group_events import GroupEpochBumped
from gateway.journal import written_events
from gateway.journal.journal import Journal, Sinks, last_events
from gateway.journal.line_files import PATTERN, LineFiles
from gateway.journal.written_events import WRITE_MS_MAX, WrittenEvents
from gateway.state_log.last_events import LastEvents
from tests.gateway.journal.test_journal import RecordedTopic


def batch_of(journal: Journal, group_id: str, at_ms: int) -> tuple[list[Envelope], LastEvents]:
    """The next events of a group, and what the state log stores with them."""
    bumped = GroupEpochBumped(group_epoch=1, cause=EpochCause.MEMBER_JOINED)
    stamped = journal.stamp_batch(
        [DecisionEvents((bumped,), at_ms), DecisionEvents((bumped,), at_ms)], group_id
    )
    last = last_events(stamped)
    assert last is not None
    return [envelope for envelopes in stamped for envelope in envelopes], last


def text_of(folder: Path) -> bytes:
    """All lines in the folder."""
    return b"".join(path.read_bytes() for path in sorted(folder.glob(PATTERN)))


@pytest.mark.parametrize("written", [0, 1, 2])
def test_lines_are_repeated_only_if_some_are_missing(tmp_path: Path, written: int) -> None:
    """A batch may have been written in part. The other group's is complete."""
    with closing(LineFiles(tmp_path)) as files:
        killed = Journal("log", Sinks(files=files))
        complete, last_of_other = batch_of(killed, "other", 5)
        killed.pass_on(complete)
        envelopes, last = batch_of(killed, "g", 5)
        killed.pass_on(envelopes[:written])
    before = text_of(tmp_path)
    with closing(LineFiles(tmp_path)) as files:
        journal = Journal("log", Sinks(files=files), recall={"g": last, "other": last_of_other}.get)
        journal.take_up("other")
        journal.take_up("g")
        after, _last = batch_of(journal, "other", 6)
    repeated = b"" if written == 2 else b"".join(b"%b\n" % line.encode() for line in last.lines)
    assert text_of(tmp_path) == before + repeated
    assert after[0].sequence == 3


def test_a_restart_without_activity_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of groups and the age of their last events do not matter. Only the end of the
    files is read."""
    monkeypatch.setattr(written_events, "END_BYTES_MAX", 4_000)
    in_log: dict[str, LastEvents] = {}
    with closing(LineFiles(tmp_path)) as files:
        journal = Journal("log", Sinks(files=files), now_ms=lambda: 200 * WRITE_MS_MAX)
        for number in range(100):
            envelopes, in_log[f"g{number}"] = batch_of(journal, f"g{number}", 5)
            journal.pass_on(envelopes)
        for _ in range(50):
            journal.emit(GatewayEnded())
    before = text_of(tmp_path)
    with closing(LineFiles(tmp_path)) as files:
        journal = Journal("log", Sinks(files=files), recall=in_log.get)
        for group_id in in_log:
            journal.take_up(group_id)
    assert text_of(tmp_path) == before


def test_recent_lines_are_sent_to_a_topic_again(tmp_path: Path) -> None:
    """The topic may lack the lines that a killed process had in its buffer."""
    with closing(LineFiles(tmp_path)) as files:
        killed = Journal("log", Sinks(files=files), now_ms=lambda: WRITE_MS_MAX)
        old, last_of_old = batch_of(killed, "old", 5)
        recent, last_of_recent = batch_of(killed, "recent", WRITE_MS_MAX - 5)
        killed.pass_on(old)
        killed.pass_on(recent)
        before = text_of(tmp_path)
        topic = RecordedTopic()
        in_log = {"old": last_of_old, "recent": last_of_recent}
        journal = Journal("log", Sinks(files=files, topic=topic), recall=in_log.get)
        for group_id in in_log:
            journal.take_up(group_id)
    assert [group_id for _line, group_id in topic.sent] == ["recent", "recent"]
    assert text_of(tmp_path) == before


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no line\n[]\n{}\n",
        b'{"gateway_id":"log","at_ms":"x"}\n',
        b'{"gateway_id":"log","at_ms":5,"process_id":null,"began_ms":null,"sequence":"x","group_id":"g"}',
        b'{"gateway_id":"other","at_ms":5,"process_id":null,"began_ms":5,"sequence":9,"group_id":"g"}',
    ],
)
def test_what_cannot_be_read_counts_as_missing(tmp_path: Path, data: bytes) -> None:
    """The events of another state log do not count either."""
    (tmp_path / "events-20260101T000000.000Z.jsonl").write_bytes(data)
    last = LastEvents(sequence=1, lines=("{}",), began_ms=5, at_ms=5)
    assert not WrittenEvents(tmp_path, "log").has("g", last)
    assert not WrittenEvents(tmp_path / "none", "log").has("g", last)
    assert not WrittenEvents(None, "log").has("g", last)


def test_a_sequence_that_began_later_is_another_one(tmp_path: Path) -> None:
    """Its numbers are lower."""
    with closing(LineFiles(tmp_path)) as files:
        journal = Journal("log", Sinks(files=files))
        envelopes, last = batch_of(journal, "g", 5)
        journal.pass_on(envelopes)
    later = LastEvents(sequence=1, lines=("{}",), began_ms=last.began_ms + 1, at_ms=6)
    written = WrittenEvents(tmp_path, "log")
    assert written.has("g", last)
    assert not written.has("g", later)
