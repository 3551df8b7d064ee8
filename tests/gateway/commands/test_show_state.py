"""`groupferry state` prints the log."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from gateway import cli
from gateway.events.group_events import (
    AdoptionStarted,
    AdoptionUndone,
    GroupAdopted,
    GroupDeleted,
    GroupForwarded,
    HostingStarted,
)
from gateway.fleet.fleet_state import open_state, write_state
from gateway.fleet.member import SHARDS, FleetMember, shard_of
from gateway.journal.journal import Journal, Sinks
from gateway.journal.line_files import FOLDER_NAME, LineFiles
from gateway.state_folder import bind_to_cluster
from gateway.state_log.last_events import LastEvents
from gateway.state_log.log import StateLogUnreadable
from gateway.state_log.record_format import Entry, encode_record
from gateway.state_log.sharded import open_sharded_log
from gateway.state_log.sqlite import open_sqlite_log
from gateway.state_log.sqlite_writer import GroupWrite
from tests.support.durable_records import BAR, FOO, GROUP, RECORDS


def show_state(
    capsys: pytest.CaptureFixture[str], folder: Path, *flags: str
) -> list[dict[str, Any]]:
    """The output of the command."""
    assert cli.main(["state", "--state-dir", str(folder), *flags]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    return [json.loads(line) for line in printed.out.splitlines()]


async def test_every_record_is_one_line_even_while_a_gateway_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Records are in the order of writing, with client data decoded where possible."""
    async with open_sqlite_log(tmp_path) as log:
        await log.append("other", [RECORDS["group_epoch"]])
        events = LastEvents(
            sequence=7, lines=('{"event": "member_left"}', "ü"), began_ms=5, at_ms=6
        )
        await log.append(GROUP, [*RECORDS.values(), events])
        lines = show_state(capsys, tmp_path)
        of_group = show_state(capsys, tmp_path, "--group", GROUP)
    assert [line["position"] for line in lines] == sorted(line["position"] for line in lines)
    assert lines[0]["group_id"] == "other"
    assert lines[1:] == of_group
    by_type = {line["type"]: line for line in of_group}
    assert by_type["CONSUMER_GROUP_METADATA"]["value"] == {
        "epoch": 12,
        "metadata_hash": 9_000_000_000_000_000_001,
        "cause": "member_joined",
    }
    member = by_type["CONSUMER_GROUP_MEMBER_METADATA"]
    assert (member["group_id"], member["member_id"]) == (GROUP, "m-3")
    protocol = member["value"]["classic_member_metadata"]["supported_protocols"][0]
    assert protocol["metadata"]["topics"] == ["foo"]
    current = by_type["CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT"]["value"]
    assert {
        held["topic_id"]: (held["partitions"], held["assignment_epochs"])
        for held in current["assigned_partitions"]
    } == {str(FOO): ([0, 2], [3, 12]), str(BAR): ([1], [5])}
    assert by_type["LAST_EVENTS"]["value"] == {
        "sequence": 7,
        "lines": list(events.lines),
        "began": 5,
        "at": 6,
    }


async def test_a_group_id_cannot_reverse_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its direction marks are escaped, also in the JSON."""
    async with open_sqlite_log(tmp_path) as log:
        await log.append("a\u202eb\x9b", [RECORDS["group_epoch"]])
    assert cli.main(["state", "--state-dir", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert not {"\u202e", "\x9b"} & set(printed)
    assert json.loads(printed)["group_id"] == "a\u202eb\x9b"


async def test_an_unreadable_record_is_shown_raw(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its group cannot be loaded. The others are shown and served."""
    key = encode_record(GROUP, RECORDS["group_epoch"]).key
    async with open_sqlite_log(tmp_path) as log:
        bad = GroupWrite(GROUP, [Entry(key, b"\x00\x63")])
        assert log._writer.write([bad]) == [None]  # noqa: SLF001, RUF100
        await log.append("other", [RECORDS["group_epoch"]])
    unreadable, other = show_state(capsys, tmp_path)
    assert unreadable == {
        "position": 1,
        "group_id": GROUP,
        "unreadable": "ConsumerGroupMetadataValue has no version 99",
        "key": key.hex(),
        "value": "0063",
    }
    assert other["group_id"] == "other"
    assert show_state(capsys, tmp_path, "--group", GROUP) == [unreadable]
    async with open_sqlite_log(tmp_path) as log:
        assert await log.read("other") == (RECORDS["group_epoch"],)
        with pytest.raises(StateLogUnreadable, match=r"record 1 of state\.sqlite cannot be read"):
            await log.read(GROUP)
        assert list(await log.unreadable_groups()) == [GROUP]


@asynccontextmanager
async def journal_of(folder: Path) -> AsyncIterator[tuple[Journal, LineFiles]]:
    """The journal of the folder's log, and its files."""
    async with open_sqlite_log(folder) as log:
        log_id = log.id
    files = LineFiles(folder / FOLDER_NAME)
    with capture_logs():
        yield Journal(log_id, Sinks(files=files), now_ms=lambda: 7), files
    files.close()


async def test_who_answers_for_each_group_follows_the_records(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last record decides, and its reason is shown. A deleted group has no mode."""
    async with journal_of(tmp_path) as (journal, files):
        journal.emit(GroupForwarded(reason="1 member (payments)"), GROUP)
        journal.emit(HostingStarted(reason="it has no members in the cluster"), GROUP)
        journal.emit(HostingStarted(reason="it has no members in the cluster"), "deleted")
        journal.emit(GroupDeleted(), "deleted")
        journal.emit(GroupForwarded(reason="its protocol type is connect"), "workers")
        files.write(b'{"event":"hosting_started","fields":{}}\n')
    async with open_sqlite_log(tmp_path):
        *_, ours, workers = show_state(capsys, tmp_path)
        assert show_state(capsys, tmp_path, "--group", GROUP) == [ours]
    assert ours == {
        "group_id": GROUP,
        "mode": "Hosted",
        "reason": "it has no members in the cluster",
        "at_ms": 7,
    }
    assert (workers["group_id"], workers["mode"]) == ("workers", "Forwarded")


async def test_a_group_that_is_being_adopted_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Afterwards either the gateway has it, or the cluster."""
    async with journal_of(tmp_path) as (journal, files):
        Journal("moved-away", Sinks(files=files)).emit(
            HostingStarted(reason="free"), "of-another-log"
        )
        for group in ("under-way", "undone", "adopted"):
            journal.emit(AdoptionStarted(members=2), group)
        journal.emit(AdoptionUndone(reason="a member left", held_ms=20), "undone")
        journal.emit(HostingStarted(reason="it was adopted"), "adopted")
        journal.emit(GroupAdopted(held_ms=60), "adopted")
    async with open_sqlite_log(tmp_path):
        modes = {group["group_id"]: group["mode"] for group in show_state(capsys, tmp_path)}
    assert modes == {"under-way": "Adopting", "undone": "Forwarded", "adopted": "Hosted"}


def test_a_folder_without_a_log_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is created there."""
    assert cli.main(["state", "--state-dir", str(tmp_path / "none")]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert (
        printed.err
        == f"groupferry: there is no state log in {tmp_path / 'none'}; see --state-dir\n"
    )
    assert not (tmp_path / "none").exists()


def test_a_damaged_log_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit status is 1, and there is no traceback."""
    (tmp_path / "state.sqlite").write_bytes(b"SQLite format 3\0" + bytes(4080))
    assert cli.main(["state", "--state-dir", str(tmp_path)]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    assert line.startswith(f"groupferry: {tmp_path / 'state.sqlite'}: ")


async def test_the_cluster_of_a_folder_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once it has met one."""
    async with open_sqlite_log(tmp_path) as log:
        await log.append("other", [RECORDS["group_epoch"]])
    (before,) = show_state(capsys, tmp_path)
    bind_to_cluster(tmp_path, "here")
    assert show_state(capsys, tmp_path) == [{"cluster_id": "here"}, before]
    assert show_state(capsys, tmp_path, "--group", "other") == [before]


async def test_the_shards_of_a_fleet_are_one_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each record names its shard. The modes are those that the processes have told."""
    state = open_state(tmp_path, 2)
    write_state(tmp_path, state)
    whole = FleetMember(slot=0, slots=1, shards=SHARDS)
    async with open_sharded_log(tmp_path, whole, log_id=state.log_id, run_id=1) as log:
        for group_id in (GROUP, "other"):
            await log.append(group_id, [RECORDS["group_epoch"]])
        files = LineFiles(tmp_path / "slots" / "1" / FOLDER_NAME)
        with capture_logs():
            journal = Journal(state.log_id, Sinks(files=files), now_ms=lambda: 7)
            journal.emit(HostingStarted(reason="free"), GROUP)
        files.close()
        *records, mode = show_state(capsys, tmp_path)
    assert {record["group_id"]: record["shard"] for record in records} == {
        group_id: shard_of(group_id, SHARDS) for group_id in (GROUP, "other")
    }
    assert (mode["group_id"], mode["mode"]) == (GROUP, "Hosted")
