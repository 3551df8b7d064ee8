"""The lines of a process that takes shards from others while it runs."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from coordinator.interface.records import RemovalCause
from gateway.events.catalog import read_line
from gateway.events.event import DecisionEvents, Envelope
from gateway.events.gateway_events import GatewayEnded, ShardsGivenUp, ShardsTaken
from gateway.events.group_events import HostingEnded, HostingStarted
from gateway.events.member_events import MemberLeft
from gateway.fleet.member import SHARDS, shard_of
from gateway.journal.fleet_journal import FleetJournal
from gateway.journal.journal import Sinks
from gateway.journal.line_files import PATTERN, LineFiles

LEFT = MemberLeft(member_id="m", cause=RemovalCause.LEFT)
OWN, TAKEN = "a", "b"
SHARD = shard_of(TAKEN, SHARDS)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[FleetJournal]:
    """The journal of a process with run 4."""
    with closing(LineFiles(tmp_path)) as files:
        yield FleetJournal(SHARDS, "5" * 32, Sinks(files=files), run=4)


def lines(folder: Path) -> list[Envelope]:
    """All lines in the folder."""
    data = b"".join(path.read_bytes() for path in sorted(folder.glob(PATTERN)))
    return [read_line(line) for line in data.splitlines()]


def write(journal: FleetJournal, group_id: str) -> None:
    """One event in the sequence of a group, as the state log has it."""
    for envelopes in journal.stamp_batch([DecisionEvents((LEFT,), 5)], group_id):
        journal.pass_on(envelopes)


def host(journal: FleetJournal, group_id: str) -> None:
    """Begin to host a group."""
    journal.emit(HostingStarted(reason="r"), group_id)


def test_lines_of_a_taken_shard_have_its_run(journal: FleetJournal, tmp_path: Path) -> None:
    """All other lines have the run of the process. Each run has its own process id and numbers from
    1."""
    assert shard_of(OWN, SHARDS) != SHARD
    journal.begin_run(9, (SHARD,), ShardsTaken(shards=(SHARD,)))
    for group_id in (OWN, TAKEN):
        host(journal, group_id)
        write(journal, group_id)
    runs = [(line.group_id, line.event, line.run) for line in lines(tmp_path)]
    assert runs == [
        (None, "shards_taken", 9),
        (OWN, "hosting_started", 4),
        (OWN, "member_left", 4),
        (TAKEN, "hosting_started", 9),
        (TAKEN, "member_left", 9),
    ]
    numbers = {
        (line.process_id, line.sequence, line.run)
        for line in lines(tmp_path)
        if line.process_id is not None
    }
    assert sorted((run, number) for _id, number, run in numbers) == [(4, 1), (9, 1), (9, 2)]
    assert len({process_id for process_id, _number, _run in numbers}) == 2
    assert journal.sequence_of(TAKEN) == 1
    assert journal.has_told(TAKEN)


def test_a_shard_that_is_given_up_ends_its_hostings(journal: FleetJournal, tmp_path: Path) -> None:
    """The next process continues the sequence from the state log. Other shards continue here."""
    journal.begin_run(9, (SHARD,), ShardsTaken(shards=(SHARD,)))
    for group_id in (OWN, TAKEN):
        host(journal, group_id)
        write(journal, group_id)
    journal.give_up(SHARD, groups=1, took_ms=3)
    ended = [line for line in lines(tmp_path) if isinstance(line.fields, HostingEnded)]
    assert [(line.group_id, line.run) for line in ended] == [(TAKEN, 9)]
    last = lines(tmp_path)[-1]
    assert (last.event, last.run) == ("shards_given_up", 9)
    assert isinstance(last.fields, ShardsGivenUp)
    assert last.fields.ends_run
    assert journal.sequence_of(TAKEN) == 0
    assert journal.sequence_of(OWN) == 1


def test_what_is_reported_too_late_about_a_shard_that_was_given_up_has_no_line(
    journal: FleetJournal, tmp_path: Path
) -> None:
    """The next process has begun its own lines about the group. Once the shard is here again, its
    events are written."""
    host(journal, TAKEN)
    journal.give_up(SHARD, groups=1, took_ms=3)
    before = len(lines(tmp_path))
    journal.emit(LEFT, TAKEN)
    assert len(lines(tmp_path)) == before
    journal.emit(LEFT, OWN)
    journal.begin_run(9, (SHARD,), ShardsTaken(shards=(SHARD,)))
    host(journal, TAKEN)
    assert [(line.group_id, line.run) for line in lines(tmp_path)[before:]] == [
        (OWN, 4),
        (None, 9),
        (TAKEN, 9),
    ]


def test_a_shard_of_the_beginning_is_given_up_as_well(
    journal: FleetJournal, tmp_path: Path
) -> None:
    """The shard goes to the process whose slot it belongs to."""
    host(journal, TAKEN)
    journal.give_up(SHARD, groups=0, took_ms=0)
    assert [(line.event, line.run) for line in lines(tmp_path)[1:]] == [
        ("hosting_ended", 4),
        ("shards_given_up", 4),
    ]
    last = lines(tmp_path)[-1].fields
    assert isinstance(last, ShardsGivenUp)
    assert not last.ends_run, "the process has more in this run"


def test_a_run_ends_with_the_last_shard_that_was_taken_in_it(
    journal: FleetJournal, tmp_path: Path
) -> None:
    """If the process is killed before, lines of the others are missing."""
    other = (SHARD + 1) % SHARDS
    journal.begin_run(9, (SHARD, other), ShardsTaken(shards=(SHARD, other)))
    for shard in (SHARD, other):
        journal.give_up(shard, groups=0, took_ms=0)
    ends = [line.fields for line in lines(tmp_path) if isinstance(line.fields, ShardsGivenUp)]
    assert [fields.ends_run for fields in ends] == [False, True]


def test_the_end_of_the_process_ends_all_runs(journal: FleetJournal, tmp_path: Path) -> None:
    """A reader misses no end."""
    journal.begin_run(9, (SHARD,), ShardsTaken(shards=(SHARD,)))
    for group_id in (OWN, TAKEN):
        host(journal, group_id)
    journal.end_hostings()
    journal.emit(GatewayEnded())
    ends = [(line.group_id, line.event, line.run) for line in lines(tmp_path)[3:]]
    assert ends == [
        (OWN, "hosting_ended", 4),
        (TAKEN, "hosting_ended", 9),
        (None, "shards_given_up", 9),
        (None, "gateway_ended", 4),
    ]


def test_listeners_hear_of_every_run(journal: FleetJournal) -> None:
    """Whether they listen before it begins, or after."""
    heard: list[str] = []
    journal.listen(lambda envelope: heard.append(f"early {envelope.event}"))
    journal.begin_run(9, (SHARD,), ShardsTaken(shards=(SHARD,)))
    journal.listen(lambda envelope: heard.append(f"late {envelope.event}"))
    host(journal, TAKEN)
    assert heard == ["early shards_taken", "early hosting_started", "late hosting_started"]
