"""The events of a group become lines without gaps or repeats, through failures of the log and the
gateway."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock, wait_all_tasks_blocked

from coordinator.interface.config import GroupConfig
from coordinator.interface.events import DeleteGroupReceived
from gateway.journal.line_files import LineFiles
from gateway.journal.reading import read_lines
from gateway.state_log.last_events import FORGOTTEN, LogRecord
from gateway.state_log.log import StateLogUnsure
from gateway.state_log.memory import MemoryLog
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tests.support.commits import commit_of
from tests.support.event_lines import check_gaps, read_events
from tests.support.hosted_groups import (
    GROUP,
    QUIET_S,
    HostedGroups,
    ScriptedLog,
    hosted_groups,
    lone_request,
)

CONFIG = GroupConfig(classic_initial_rebalance_delay_ms=0, consumer_assignment_interval_ms=0)


def write_lines(groups: HostedGroups, folder: Path) -> LineFiles:
    """Write the groups' events into a folder."""
    files = LineFiles(folder)
    groups.journal._files = files  # noqa: SLF001, RUF100
    return files


async def roll(groups: HostedGroups, group: str = GROUP) -> None:
    """Roll a group from classic to native and back, with a rejoin in between."""
    member_id = (await groups.lone_classic_member(group=group)).member_id
    native = await groups.native("n", group=group)
    await groups.beat(member_id, 1, group=group)
    joined = await groups.join(member_id, owned={}, group=group)
    await groups.sync(member_id, joined.generation, group=group)
    await groups.native("n", native.member_epoch, owned={}, group=group)
    await groups.native("n", -1, group=group)


async def test_a_groups_lines_have_no_gap(tmp_path: Path, autojump_clock: MockClock) -> None:
    """This includes both conversions. Events without a record have the sequence of the process."""
    async with hosted_groups(config=CONFIG) as groups:
        write_lines(groups, tmp_path)
        await roll(groups)
        await roll(groups, "other")
    events = read_events(tmp_path)
    check_gaps(events)
    assert {event.event for event in events if event.process_id} >= {"member_state_changed"}
    recorded = [event.event for event in events if not event.process_id and event.group_id == GROUP]
    assert recorded.count("group_converted") == 2
    assert {event.group_id for event in events} == {GROUP, "other"}


@pytest.mark.parametrize("killed_at", range(1, 11))
async def test_a_gateway_killed_at_any_line_leaves_no_gap(
    tmp_path: Path, autojump_clock: MockClock, killed_at: int
) -> None:
    """The gateway is killed between a batch and its lines. The next gateway writes them, even for
    groups without requests."""
    log = ScriptedLog()
    async with hosted_groups(config=CONFIG, log=log) as groups:
        files = write_lines(groups, tmp_path)
        write, left = files.write, killed_at

        def dies(data: bytes, *, overflows: bool = False) -> None:
            nonlocal left
            left -= 1
            if left > 0:
                write(data, overflows=overflows)
            else:
                log.is_failing = True  # a dead process writes nothing

        with capture_logs(), pytest.MonkeyPatch.context() as patched, trio.move_on_after(60):
            patched.setattr(files, "write", dies)
            await roll(groups)
    assert left <= 0
    log.is_failing = False
    last = log.last_events(GROUP)
    assert last is not None
    async with hosted_groups(config=CONFIG, log=log) as groups:
        write_lines(groups, tmp_path)
        await groups.table.resume()
        await wait_all_tasks_blocked()
    of_group = [event for event in read_events(tmp_path) if event.process_id is None]
    check_gaps(of_group)
    assert of_group[-1].sequence == last.sequence


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [('"schema_version":', '"schema_version":99'), ('"fields":{', '"fields":{"later":true,')],
)
async def test_lines_of_another_version_prevent_no_load(
    tmp_path: Path, autojump_clock: MockClock, ours: str, theirs: str
) -> None:
    """The log has lines of the gateway before an upgrade or downgrade. They are written unchanged,
    and the sequence continues."""
    async with hosted_groups(config=CONFIG) as before:
        epoch = (await before.native("n")).member_epoch
        log = before.log
    last = log.last_events(GROUP)
    assert last is not None
    lines = tuple(line.replace(ours, theirs) for line in last.lines)
    await log.append(GROUP, [replace(last, lines=lines)])
    async with hosted_groups(config=CONFIG, log=log) as groups:
        write_lines(groups, tmp_path)
        await groups.table.resume()
        assert (await groups.native("n", epoch)).error is ErrorCode.NONE
        assert (await groups.native("n", -1)).error is ErrorCode.NONE
    assert tuple(line.text for line in read_lines(tmp_path))[: len(lines)] == lines
    own = [event for event in read_events(tmp_path) if event.process_id is None]
    assert own[0].sequence == last.sequence + 1


async def create_and_delete(groups: HostedGroups) -> None:
    """A group that comes and goes, with its task."""
    await groups.native("n")
    await groups.native("n", -1)
    await groups.ask(lambda token, _: DeleteGroupReceived(token=token))
    await trio.sleep(QUIET_S)


async def test_a_deleted_groups_sequence_is_forgotten(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """A group of the same id has another sequence, so readers do not skip its events as repeats."""
    async with hosted_groups(config=CONFIG) as groups:
        write_lines(groups, tmp_path)
        await create_and_delete(groups)
        assert await groups.log.told_group_ids() == ()
        await groups.native("n")
        assert await groups.log.told_group_ids() == (GROUP,)
    events = read_events(tmp_path)
    check_gaps(events)
    created = [event for event in events if event.event == "group_created"]
    assert len({event.sequence for event in created}) == 1 < len(created)
    assert created[0].began_ms != created[1].began_ms


async def test_a_failed_deletion_of_a_sequence_is_repeated(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """The log failed, or the gateway was killed. Until the deletion the sequence continues."""
    log = ScriptedLog()
    async with hosted_groups(config=CONFIG, log=log) as groups:
        write_lines(groups, tmp_path)
        log.refuses = lambda record: record == FORGOTTEN
        await create_and_delete(groups)
    async with hosted_groups(config=CONFIG, log=log) as groups:
        write_lines(groups, tmp_path)
        await groups.table.resume()
        await create_and_delete(groups)
        assert await log.told_group_ids() == (GROUP,)
        await groups.native("n", group="live")
        log.refuses = lambda _record: False
        await groups.table.forget_events()
        assert await log.told_group_ids() == ("live",)
        await groups.native("n")
    events = read_events(tmp_path)
    check_gaps(events)
    own = [event for event in events if event.group_id == GROUP and event.process_id is None]
    assert len({event.began_ms for event in own}) == 2


async def test_a_failed_batch_leaves_no_gap(tmp_path: Path, autojump_clock: MockClock) -> None:
    """Its numbers go to the next events."""
    async with hosted_groups(config=CONFIG) as groups:
        write_lines(groups, tmp_path)
        await groups.native("n")
        groups.log.is_failing = True
        with capture_logs():
            await groups.native("other")
        groups.log.is_failing = False
        await groups.native("third")
    check_gaps(read_events(tmp_path))


async def test_an_uncertain_batch_is_reported_once(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """The batch is reported when the log turns out to have it."""
    async with hosted_groups(config=CONFIG) as groups:
        write_lines(groups, tmp_path)
        await groups.native("n")

        async def append(group_id: str, batch: Iterable[LogRecord]) -> None:
            await MemoryLog.append(groups.log, group_id, tuple(batch))
            raise StateLogUnsure("nobody knows")

        with pytest.MonkeyPatch.context() as patched, capture_logs() as lines:
            patched.setattr(groups.log, "append", append)
            reply = await groups.native("m")
            await wait_all_tasks_blocked()
        assert reply.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        joined = [line["member_id"] for line in lines if line["event"] == "member_joined"]
        assert joined == ["m"]
    check_gaps(read_events(tmp_path))
    assert [e.event for e in read_events(tmp_path)].count("member_joined") == 2


async def test_a_quiet_heartbeat_writes_nothing(tmp_path: Path, autojump_clock: MockClock) -> None:
    """Heartbeats come by the thousand each second, so they write neither lines nor records."""
    async with hosted_groups(config=CONFIG) as groups:
        write_lines(groups, tmp_path)
        epoch = (await groups.native("n")).member_epoch
        lines, batches = len(read_events(tmp_path)), len(groups.log.batches)
        for _ in range(3):
            await groups.native("n", epoch)
        assert (len(read_events(tmp_path)), len(groups.log.batches)) == (lines, batches)


async def test_a_members_commits_are_reported_before_its_departure(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """A reader of the lines then knows the owner of every offset."""
    async with hosted_groups(config=CONFIG) as groups:
        write_lines(groups, tmp_path)
        await groups.native("n")
        record_commit(groups)
        await groups.native("n", -1)
    events = read_events(tmp_path)
    check_gaps(events)
    names = [event.event for event in events]
    last = names.index("offsets_committed")
    assert [event.at_ms for event in events[last:]] == [events[-1].at_ms] * len(names[last:])
    assert {"partitions_assigned"} <= set(names[:last])
    assert set(names[last:]) == {
        "offsets_committed",
        "grant_ended",
        "member_left",
        "group_epoch_bumped",
        "rebalance_ended",
    }


async def test_commits_are_reported_before_the_end_of_their_topic(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """Later commits would count for a topic that is created under the same name."""
    async with hosted_groups(config=CONFIG) as groups:
        write_lines(groups, tmp_path)
        joined = await groups.native("n")
        record_commit(groups)
        del groups.cluster.partition_counts["foo"]
        groups.cluster.change()
        await trio.sleep(2)
        await groups.native("n", joined.member_epoch)
    names = [event.event for event in read_events(tmp_path)]
    assert names[names.index("topics_deleted") - 1] == "offsets_committed"


def record_commit(groups: HostedGroups) -> None:
    """Let the cluster have stored a commit of n."""
    commit = commit_of({"foo": {0: 5}}, group_id=GROUP, member_id="n")
    stored = OffsetCommitResponsePartition(partition_index=0)
    topic = OffsetCommitResponseTopic(name="foo", partitions=(stored,))
    answer = OffsetCommitResponse(topics=(topic,))
    groups.offsets.record_commit(lone_request(commit, 9), answer)


async def test_a_refused_classic_member_is_reported(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """Its answer has only a code and no reason."""
    async with hosted_groups(config=CONFIG) as groups:
        write_lines(groups, tmp_path)
        await groups.native("n")
        reply = await groups.join("late", metadata=b"\x00")
        assert reply.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    events = read_events(tmp_path)
    check_gaps(events)
    (refused,) = [event for event in events if event.event == "conversion_refused"]
    assert (refused.group_id, refused.fields.fields["member_id"]) == (GROUP, "late")
