"""The two sequences, and what is told again after a gateway was killed."""

from collections.abc import Sequence
from pathlib import Path

from structlog.testing import capture_logs

from coordinator.records import EpochCause, RemovalCause
from gateway.events import journal as journal_module
from gateway.events.catalog import read_line
from gateway.events.envelope import Envelope
from gateway.events.event import GatewayEvent
from gateway.events.events_topic import EventsTopic
from gateway.events.gateway_events import GatewayEnded
from gateway.events.group_events import GroupEpochBumped
from gateway.events.journal import Journal, Sinks, Told, last_events
from gateway.events.line_files import PATTERN, LineFiles
from gateway.events.member_events import MemberLeft

LEFT = MemberLeft(member_id="m", cause=RemovalCause.LEFT)


def bumped(epoch: int) -> GroupEpochBumped:
    """An event that says which one it is."""
    return GroupEpochBumped(group_epoch=epoch, cause=EpochCause.MEMBER_JOINED)


def written(folder: Path) -> list[Envelope]:
    """All lines in the folder."""
    data = b"".join(path.read_bytes() for path in sorted(folder.glob(PATTERN)))
    return [read_line(line) for line in data.splitlines()]


def places(folder: Path) -> list[tuple[str | None, bool, int]]:
    """Of each line its group, whether it has the process's sequence, and its number."""
    return [(each.group_id, bool(each.process_id), each.sequence) for each in written(folder)]


def test_a_group_has_a_sequence_of_its_own(tmp_path: Path) -> None:
    """Without gaps, whatever other groups and the process do in between."""
    journal = Journal("log", Sinks(files=LineFiles(tmp_path)))
    for group_id in ("a", "b", "a"):
        batch = journal.stamp_batch([Told((bumped(1), LEFT), 5), Told((), 6)], group_id)
        journal.tell(GatewayEnded())
        assert [len(envelopes) for envelopes in batch] == [2, 0]
        for envelopes in batch:
            journal.pass_on(envelopes)
    journal.tell(LEFT, "a")
    found = written(tmp_path)
    assert [e.sequence for e in found if e.group_id == "a" and e.process_id is None] == [1, 2, 3, 4]
    assert [e.sequence for e in found if e.group_id == "b"] == [1, 2]
    of_process = [each for each in found if each.process_id]
    assert [each.sequence for each in of_process] == [1, 2, 3, 4]
    assert len({each.process_id for each in of_process}) == 1
    assert {each.gateway_id for each in found} == {"log"}
    assert (found[-1].group_id, found[-1].after) == ("a", 4)
    assert of_process[0].after is None


def test_what_the_log_did_not_take_has_no_place(tmp_path: Path) -> None:
    """The batch has not happened: the next one has its numbers."""
    journal = Journal("log", Sinks(files=LineFiles(tmp_path)))
    journal.stamp_batch([Told((bumped(1),), 5)], "a")
    (envelopes,) = journal.stamp_batch([Told((bumped(1),), 6)], "a")
    journal.pass_on(envelopes)
    assert places(tmp_path) == [("a", False, 1)]


def test_a_killed_gateways_last_batch_is_written_again(tmp_path: Path) -> None:
    """Line for line as it was, and not told to anybody else: it may have been. Then the sequence
    goes on."""
    killed = Journal("log", Sinks(files=LineFiles(tmp_path)))
    last = last_events(killed.stamp_batch([Told((bumped(1), LEFT), 5)], "a"))
    assert last is not None
    heard: list[GatewayEvent] = []
    journal = Journal("log", Sinks(files=LineFiles(tmp_path), listener=heard.append))
    with capture_logs() as lines:
        journal.take_up("a", last)
        journal.take_up("a", last)
        journal.take_up("b", None)
    assert (lines, heard) == ([], [])
    assert [each.line for each in written(tmp_path)] == list(last.lines)
    for envelopes in journal.stamp_batch([Told((LEFT,), 7)], "a"):
        journal.pass_on(envelopes)
    assert places(tmp_path) == [("a", False, 1), ("a", False, 2), ("a", False, 3)]
    assert heard == [LEFT]


def test_a_batch_that_was_in_the_log_after_all_is_told_to_everybody(tmp_path: Path) -> None:
    """Nobody knew whether the log had it; this process has told nothing of it, or a part."""
    heard: list[GatewayEvent] = []
    journal = Journal("log", Sinks(files=LineFiles(tmp_path), listener=heard.append))
    journal.take_up("a", last_events(journal.stamp_batch([Told((bumped(1),), 5)], "a")))
    batch = journal.stamp_batch([Told((bumped(2),), 6), Told((LEFT,), 6)], "a")
    journal.pass_on(batch[0])
    with capture_logs() as lines:
        journal.take_up("a", last_events(batch))
    assert heard == [bumped(2), LEFT]
    assert [line["event"] for line in lines] == ["member_left"]
    assert places(tmp_path) == [("a", False, 1), ("a", False, 2), ("a", False, 3)]


def test_of_a_huge_batch_the_log_keeps_the_sequence_only(monkeypatch: object) -> None:
    """The topic would refuse the record, and the group's change with it."""
    journal = Journal("log")
    small = last_events(journal.stamp_batch([Told((LEFT,), 5)], "a"))
    assert small is not None
    count = journal_module.REPEATABLE_BYTES_MAX // len(small.lines[0]) + 1
    last = last_events(journal.stamp_batch([Told([LEFT] * count, 5)], "a"))
    assert last is not None
    assert (last.sequence, last.lines) == (count, ())


def test_a_batch_that_tells_nothing_keeps_nothing() -> None:
    """What the log has of the group's events stays."""
    assert last_events(Journal("log").stamp_batch([Told((), 5)], "a")) is None


def test_a_forgotten_group_begins_another_sequence(tmp_path: Path) -> None:
    """Even within the same millisecond. What is told beside it meanwhile belongs to neither."""
    journal = Journal("log", Sinks(files=LineFiles(tmp_path)), now_ms=lambda: 6)
    for _ in range(2):
        (envelopes,) = journal.stamp_batch([Told((bumped(1), LEFT), 5)], "a")
        journal.pass_on(envelopes)
        assert journal.has_told("a")
        journal.forget("a")
        journal.forget("a")
        assert not journal.has_told("a")
        journal.tell(LEFT, "a")
    assert [(each.began_ms, each.after, each.sequence) for each in written(tmp_path)] == [
        *((5, None, 1), (5, None, 2), (6, 0, 1)),
        *((6, None, 1), (6, None, 2), (6, 0, 2)),
    ]


def test_a_sequence_keeps_its_beginning_over_a_restart(tmp_path: Path) -> None:
    """And the time of its last event."""
    last = last_events(Journal("log").stamp_batch([Told((LEFT,), 5), Told((LEFT,), 7)], "a"))
    assert last is not None
    assert (last.sequence, last.began_ms, last.at_ms) == (2, 5, 7)
    journal = Journal("log", Sinks(files=LineFiles(tmp_path)), now_ms=lambda: 100)
    journal.take_up("a", last)
    assert (journal.quiet_ms("a"), journal.quiet_ms("b")) == (93, 100)
    (envelopes,) = journal.stamp_batch([Told((LEFT,), 9)], "a")
    journal.pass_on(envelopes)
    assert [(each.began_ms, each.sequence) for each in written(tmp_path)] == [
        (5, 1),
        (5, 2),
        (5, 3),
    ]


class RecordedTopic(EventsTopic):
    """What would be sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str | None]] = []

    def write(self, lines: Sequence[str], group_id: str | None) -> None:
        self.sent += [(line, group_id) for line in lines]


def test_the_topic_has_every_line_that_the_files_have(tmp_path: Path) -> None:
    """Also those that are written again, each with its group."""
    killed = Journal("log")
    last = last_events(killed.stamp_batch([Told((bumped(1), LEFT), 5)], "a"))
    topic = RecordedTopic()
    journal = Journal("log", Sinks(files=LineFiles(tmp_path), topic=topic))
    journal.take_up("a", last)
    journal.tell(LEFT, "b")
    journal.tell(GatewayEnded())
    (file,) = tmp_path.glob(PATTERN)
    assert [line for line, _ in topic.sent] == file.read_text().splitlines()
    assert [group_id for _, group_id in topic.sent] == ["a", "a", "b", None]
