"""The two sequences, and lines that are repeated after a gateway was killed."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from coordinator.interface.records import EpochCause, RemovalCause
from gateway.events.catalog import read_line
from gateway.events.event import DecisionEvents, Envelope, GatewayEvent
from gateway.events.gateway_events import GatewayEnded
from gateway.events.group_events import (
    GroupEpochBumped,
    GroupLoaded,
    HostingEnded,
    HostingStarted,
)
from gateway.events.member_events import MemberLeft
from gateway.journal import journal as journal_module
from gateway.journal import line_files
from gateway.journal.events_topic import EventsTopicWriter
from gateway.journal.journal import Journal, Sinks, last_events
from gateway.journal.line_files import PATTERN, LineFiles
from gateway.state_log.last_events import LastEvents
from gateway.state_log.log import StateLogError

LEFT = MemberLeft(member_id="m", cause=RemovalCause.LEFT)


@pytest.fixture
def files(tmp_path: Path) -> Iterator[LineFiles]:
    """Files of events in the test's folder."""
    with closing(LineFiles(tmp_path)) as opened:
        yield opened


def epoch_bumped(epoch: int) -> GroupEpochBumped:
    """An event that differs for each number."""
    return GroupEpochBumped(group_epoch=epoch, cause=EpochCause.MEMBER_JOINED)


def lines_in(folder: Path) -> list[Envelope]:
    """All lines in the folder."""
    data = b"".join(path.read_bytes() for path in sorted(folder.glob(PATTERN)))
    return [read_line(line) for line in data.splitlines()]


def places(folder: Path) -> list[tuple[str | None, bool, int]]:
    """For each line: its group, whether it has the process's sequence, and its number."""
    return [(line.group_id, bool(line.process_id), line.sequence) for line in lines_in(folder)]


def test_a_group_has_its_own_sequence(tmp_path: Path, files: LineFiles) -> None:
    """The sequence has no gaps, whatever other groups and the process do meanwhile."""
    journal = Journal("log", Sinks(files=files))
    for group_id in ("a", "b", "a"):
        batch = journal.stamp_batch(
            [DecisionEvents((epoch_bumped(1), LEFT), 5), DecisionEvents((), 6)], group_id
        )
        journal.emit(GatewayEnded())
        assert [len(envelopes) for envelopes in batch] == [2, 0]
        for envelopes in batch:
            journal.pass_on(envelopes)
    journal.emit(LEFT, "a")
    lines = lines_in(tmp_path)
    assert [e.sequence for e in lines if e.group_id == "a" and e.process_id is None] == [1, 2, 3, 4]
    assert [e.sequence for e in lines if e.group_id == "b"] == [1, 2]
    of_process = [line for line in lines if line.process_id]
    assert [line.sequence for line in of_process] == [1, 2, 3, 4]
    assert len({line.process_id for line in of_process}) == 1
    assert {line.gateway_id for line in lines} == {"log"}
    assert (lines[-1].group_id, lines[-1].after) == ("a", 4)
    assert of_process[0].after is None


def test_a_failed_batch_takes_no_numbers(tmp_path: Path, files: LineFiles) -> None:
    """The next batch gets them."""
    journal = Journal("log", Sinks(files=files))
    journal.stamp_batch([DecisionEvents((epoch_bumped(1),), 5)], "a")
    (envelopes,) = journal.stamp_batch([DecisionEvents((epoch_bumped(1),), 6)], "a")
    journal.pass_on(envelopes)
    assert places(tmp_path) == [("a", False, 1)]


def test_a_killed_gateways_last_batch_is_written_again(tmp_path: Path, files: LineFiles) -> None:
    """The lines are unchanged, and are not announced a second time. Then the sequence continues."""
    killed = Journal("log", Sinks(files=files))
    last = last_events(killed.stamp_batch([DecisionEvents((epoch_bumped(1), LEFT), 5)], "a"))
    assert last is not None
    heard: list[GatewayEvent] = []
    sinks = Sinks(files=files, listener=lambda envelope: heard.append(envelope.fields))
    journal = Journal("log", sinks, recall={"a": last}.get)
    with capture_logs() as lines:
        journal.take_up("a")
        journal.take_up("a")
        journal.take_up("b")
    assert (lines, heard) == ([], [])
    assert [line.line for line in lines_in(tmp_path)] == list(last.lines)
    for envelopes in journal.stamp_batch([DecisionEvents((LEFT,), 7)], "a"):
        journal.pass_on(envelopes)
    assert places(tmp_path) == [("a", False, 1), ("a", False, 2), ("a", False, 3)]
    assert heard == [LEFT]


def test_an_uncertain_batch_found_in_the_log_is_announced(tmp_path: Path, files: LineFiles) -> None:
    """This process has announced nothing of it, or only a part."""
    heard: list[GatewayEvent] = []
    in_log: dict[str, LastEvents | None] = {}
    sinks = Sinks(files=files, listener=lambda envelope: heard.append(envelope.fields))
    journal = Journal("log", sinks, recall=in_log.get)
    in_log["a"] = last_events(journal.stamp_batch([DecisionEvents((epoch_bumped(1),), 5)], "a"))
    journal.take_up("a")
    batch = journal.stamp_batch(
        [DecisionEvents((epoch_bumped(2),), 6), DecisionEvents((LEFT,), 6)], "a"
    )
    journal.pass_on(batch[0])
    in_log["a"] = last_events(batch)
    with capture_logs() as lines:
        journal.take_up("a")
    assert heard == [epoch_bumped(2), LEFT]
    assert [line["event"] for line in lines] == ["member_left"]
    assert places(tmp_path) == [("a", False, 1), ("a", False, 2), ("a", False, 3)]


def test_of_a_huge_batch_the_log_stores_only_the_sequence(monkeypatch: object) -> None:
    """The topic would refuse a huge record, and the group's change with it."""
    journal = Journal("log")
    small = last_events(journal.stamp_batch([DecisionEvents((LEFT,), 5)], "a"))
    assert small is not None
    count = journal_module.REPEATABLE_BYTES_MAX // len(small.lines[0]) + 1
    last = last_events(journal.stamp_batch([DecisionEvents([LEFT] * count, 5)], "a"))
    assert last is not None
    assert (last.sequence, last.lines) == (count, ())


def test_a_batch_without_events_stores_none() -> None:
    """The log's earlier record of events stays."""
    assert last_events(Journal("log").stamp_batch([DecisionEvents((), 5)], "a")) is None


def test_a_forgotten_group_begins_another_sequence(tmp_path: Path, files: LineFiles) -> None:
    """This holds even within the same millisecond. Process events about the group meanwhile belong
    to neither."""
    journal = Journal("log", Sinks(files=files), now_ms=lambda: 6)
    for _ in range(2):
        (envelopes,) = journal.stamp_batch([DecisionEvents((epoch_bumped(1), LEFT), 5)], "a")
        journal.pass_on(envelopes)
        assert journal.has_told("a")
        journal.forget("a")
        journal.forget("a")
        assert not journal.has_told("a")
        journal.emit(LEFT, "a")
    assert [(line.began_ms, line.after, line.sequence) for line in lines_in(tmp_path)] == [
        *((5, None, 1), (5, None, 2), (6, 0, 1)),
        *((6, None, 1), (6, None, 2), (6, 0, 2)),
    ]


def test_a_sequence_keeps_its_start_across_a_restart(tmp_path: Path, files: LineFiles) -> None:
    """The sequence also keeps the time of its last event."""
    last = last_events(
        Journal("log").stamp_batch([DecisionEvents((LEFT,), 5), DecisionEvents((LEFT,), 7)], "a")
    )
    assert last is not None
    assert (last.sequence, last.began_ms, last.at_ms) == (2, 5, 7)
    sinks = Sinks(files=files)
    journal = Journal("log", sinks, now_ms=lambda: 100, recall={"a": last}.get)
    assert (journal.quiet_ms("a"), journal.quiet_ms("b")) == (93, 100)
    (envelopes,) = journal.stamp_batch([DecisionEvents((LEFT,), 9)], "a")
    journal.pass_on(envelopes)
    assert [(line.began_ms, line.sequence) for line in lines_in(tmp_path)] == [
        (5, 1),
        (5, 2),
        (5, 3),
    ]


def test_a_sequence_of_an_older_groupferry_continues(tmp_path: Path, files: LineFiles) -> None:
    """Its lines do not say when it began, so that readers see one sequence."""
    last: LastEvents | None = LastEvents(sequence=7, lines=())
    journal = Journal("log", Sinks(files=files), recall={"a": last}.get)
    (envelopes,) = journal.stamp_batch([DecisionEvents((LEFT,), 9)], "a")
    journal.pass_on(envelopes)
    journal.emit(LEFT, "a")
    assert [(line.began_ms, line.after) for line in lines_in(tmp_path)] == [(None, None), (None, 8)]
    last = last_events([envelopes])
    assert last is not None
    assert (last.sequence, last.began_ms) == (8, 0)


def test_a_group_continues_its_sequence_with_its_first_event(
    tmp_path: Path, files: LineFiles
) -> None:
    """The gateway serves before it has read the events of all groups."""
    last = last_events(Journal("log").stamp_batch([DecisionEvents((LEFT,), 5)], "a"))
    journal = Journal("log", Sinks(files=files), recall={"a": last}.get)
    journal.emit(LEFT, "a")
    assert [(line.began_ms, line.after) for line in lines_in(tmp_path)] == [(5, None), (5, 1)]


def test_a_log_that_cannot_be_read_holds_up_no_event(tmp_path: Path, files: LineFiles) -> None:
    """Another gateway may have taken it."""

    def recall(_group_id: str) -> LastEvents | None:
        raise StateLogError("it is still being read")

    journal = Journal("log", Sinks(files=files), recall=recall)
    journal.emit(LEFT, "a")
    assert [line.after for line in lines_in(tmp_path)] == [0]
    with pytest.raises(StateLogError):
        journal.take_up("a")


class RecordedTopic(EventsTopicWriter):
    """The lines that would be sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str | None]] = []

    def write(self, lines: Sequence[str], group_id: str | None) -> None:
        self.sent += [(line, group_id) for line in lines]


def test_the_topic_gets_every_line_of_the_files(tmp_path: Path, files: LineFiles) -> None:
    """Repeated lines are included, each with its group."""
    killed = Journal("log")
    last = last_events(killed.stamp_batch([DecisionEvents((epoch_bumped(1), LEFT), 5)], "a"))
    topic = RecordedTopic()
    sinks = Sinks(files=files, topic=topic)
    journal = Journal("log", sinks, recall={"a": last}.get)
    journal.take_up("a")
    journal.emit(LEFT, "b")
    journal.emit(GatewayEnded())
    (file,) = tmp_path.glob(PATTERN)
    assert [line for line, _ in topic.sent] == file.read_text().splitlines()
    assert [group_id for _, group_id in topic.sent] == ["a", "a", "b", None]


def test_each_line_names_its_hosting(tmp_path: Path, files: LineFiles) -> None:
    """A later hosting has a greater number, in a later run as well. Without one there is none."""
    journal = Journal("log", Sinks(files=files), run=7, cluster_id="cluster")
    journal.emit(LEFT, "a")
    for group_id in ("a", "b", "a"):
        journal.emit(HostingStarted(reason=""), group_id)
        (envelopes,) = journal.stamp_batch([DecisionEvents((epoch_bumped(1),), 5)], group_id)
        journal.pass_on(envelopes)
        journal.emit(HostingEnded(cause="forgotten"), group_id)
    journal.emit(LEFT, "a")
    lines = lines_in(tmp_path)
    assert [line.hosting for line in lines] == [None, 1, 1, 1, 2, 2, 2, 3, 3, 3, None]
    assert {(line.version, line.run, line.cluster_id) for line in lines} == {(2, 7, "cluster")}


def test_a_normal_exit_ends_all_hostings(tmp_path: Path, files: LineFiles) -> None:
    """A process that is killed ends none."""
    journal = Journal("log", Sinks(files=files))
    for group_id in ("a", "b", "c"):
        journal.emit(HostingStarted(reason=""), group_id)
    journal.emit(HostingEnded(cause="released"), "b")
    journal.end_hostings()
    ended = [line for line in lines_in(tmp_path) if isinstance(line.fields, HostingEnded)]
    assert [(line.group_id, line.fields.fields["cause"]) for line in ended] == [
        ("b", "released"),
        ("a", "gateway_ended"),
        ("c", "gateway_ended"),
    ]


def test_a_file_states_a_group_before_its_first_line(
    tmp_path: Path, files: LineFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that begins there needs nothing older. A group without a line is not stated."""
    journal = Journal("log", Sinks(files=files))
    loaded = GroupLoaded(kind="classic", state="Stable", group_epoch=1, members=())
    journal.snapshot_of = lambda _group_id: loaded
    for group_id in ("a", "b", "quiet"):
        journal.emit(HostingStarted(reason=""), group_id)
        journal.emit(loaded, group_id)
    journal.emit(LEFT, "a")
    monkeypatch.setattr(line_files, "FILE_BYTES_MAX", 1)
    (envelopes,) = journal.stamp_batch([DecisionEvents((epoch_bumped(1),), 5)], "a")
    journal.pass_on(envelopes)
    monkeypatch.undo()
    journal.emit(LEFT, "a")
    journal.emit(LEFT, "b")
    journal.emit(HostingEnded(cause="forgotten"), "b")
    journal.emit(LEFT, "b")
    first, *later = sorted(tmp_path.glob(PATTERN))
    assert len(first.read_bytes().splitlines()) == 7
    lines = [read_line(line) for path in later for line in path.read_bytes().splitlines()]
    assert [(line.group_id, line.event) for line in lines] == [
        ("a", "group_loaded"),
        ("a", "group_epoch_bumped"),
        ("a", "group_loaded"),
        ("a", "member_left"),
        ("b", "group_loaded"),
        ("b", "member_left"),
        ("b", "hosting_ended"),
        ("b", "member_left"),
    ]
    of_process = [line.sequence for line in lines_in(tmp_path) if line.process_id]
    assert of_process == list(range(1, len(of_process) + 1))


def test_lines_while_a_first_batch_is_on_its_way_belong_to_its_sequence(
    tmp_path: Path, files: LineFiles
) -> None:
    """With another sequence, a reader would place them behind all later runs, and see two processes
    that have the group. A batch that the state log does not get begins no sequence."""
    times_ms = iter(range(50, 100))
    journal = Journal("log", Sinks(files=files), now_ms=lambda: next(times_ms))
    journal.stamp_batch([DecisionEvents((LEFT,), 5)], "g")
    journal.drop_batch("g")
    journal.emit(HostingEnded(cause="forgotten"), "g")
    (batch,) = journal.stamp_batch([DecisionEvents((LEFT,), 7)], "g")
    journal.emit(HostingStarted(reason="r"), "g")
    journal.pass_on(batch)
    began = [(line.event, line.began_ms, line.sequence) for line in lines_in(tmp_path)]
    assert began == [("hosting_ended", 50, 1), ("hosting_started", 50, 2), ("member_left", 50, 1)]


def test_a_sequence_does_not_begin_before_lines_that_came_first(
    tmp_path: Path, files: LineFiles
) -> None:
    """Its first batch may have waited for the anchor since an earlier moment. A reader would place
    those lines behind the whole sequence."""
    journal = Journal("log", Sinks(files=files), now_ms=lambda: 60)
    journal.emit(HostingStarted(reason="r"), "g")
    for batch in journal.stamp_batch([DecisionEvents((LEFT,), 5)], "g"):
        journal.pass_on(batch)
    assert [line.began_ms for line in lines_in(tmp_path)] == [60, 60]
