"""How a process gives up shards and takes others."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
import trio

from gateway.events.gateway_events import ShardsTaken
from gateway.fleet.member import FleetMember
from gateway.fleet.parent_link import ParentLink
from gateway.fleet.words import (
    GaveUp,
    NotOpened,
    Opened,
    OwnerTable,
    Take,
    Word,
    decode,
    encode,
    make_link,
)
from gateway.groups.clock import Clock
from gateway.groups.groups import Groups
from gateway.hosting.identity import Gateway
from gateway.hosting.rules import HostingRules
from gateway.journal.fleet_journal import FleetJournal
from gateway.observers.offset_reporter import OffsetReporter
from gateway.shard_moves import ShardMoves
from gateway.state_log.sharded import ShardedLog, open_sharded_log
from tests.support.until import until

SHARDS = 4
LOG_ID = "5" * 32


class Recorder:
    """Groups, journal, offsets and rules, which note what is asked of them."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.may_end = trio.Event()
        """Set when nothing is under way in the groups any more."""
        self.may_end.set()
        self.routing = self
        self.gateway = Gateway(log_id=LOG_ID, run_id=1)
        self.orders = self.away = self
        self.members_away: bytes | None = None

    async def give_up(self, concerns: Callable[[str], bool]) -> int:
        """Leave groups to others."""
        assert callable(concerns)
        self.notes.append("groups end")
        await self.may_end.wait()
        return 2

    async def resume(self, _log: object, task_status: trio.TaskStatus[None]) -> None:
        """Load groups."""
        self.notes.append(f"groups resume in run {self.gateway.run_id}")
        task_status.started()

    def hand_over(self, concerns: Callable[[str], bool]) -> bytes | None:
        """Tell who is away."""
        assert callable(concerns)
        return self.members_away

    def take_over(self, handed_over: bytes) -> None:
        """Learn who is away."""
        if handed_over == b"bad":
            raise ValueError(handed_over)
        self.notes.append(handed_over.decode())

    def flush(self) -> None:
        """Report offsets."""
        self.notes.append("offsets")

    def begin_run(self, run: int, shards: tuple[int, ...], _taken: ShardsTaken) -> None:
        """Begin a run of lines."""
        self.notes.append(f"run {run} of {shards}")


class Journals(Recorder):
    """Records the calls of a journal, whose `give_up` has other arguments."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.notes = recorder.notes

    def give_up(self, shard: int, *, groups: int, took_ms: int) -> None:  # type: ignore[override]
        """End the lines of a shard."""
        assert took_ms >= 0
        self.notes.append(f"lines of {shard} end, {groups} groups")


class Process:
    """The process of slot 0 of two, and its parent's end of the link."""

    def __init__(self) -> None:
        self.parent, own = make_link()
        self.link = ParentLink(own)
        self.member = FleetMember(slot=0, slots=2, shards=SHARDS)
        self.recorder = Recorder()
        self.moves: ShardMoves

    def say(self, word: Word) -> None:
        """Say something as the parent."""
        self.parent.send(encode(word))

    async def hear(self) -> Word:
        """What it says next."""
        await trio.lowlevel.wait_readable(self.parent)
        return decode(self.parent.recv(4096))

    async def until_serving(self, *shards: int) -> None:
        """Wait until it serves exactly these."""
        await until(lambda: self.member.serving == set(shards))


@asynccontextmanager
async def running(folder: Path, *, needs_all: bool = True) -> AsyncIterator[Process]:
    """A process that serves its own shards and obeys."""
    process = Process()
    recorder: Any = process.recorder
    async with AsyncExitStack() as resources:
        state_log = await resources.enter_async_context(
            open_sharded_log(folder, process.member, log_id=LOG_ID, run_id=1, needs_all=needs_all)
        )
        process.moves = ShardMoves(
            process.member,
            process.link,
            cast(Groups, recorder),
            cast(HostingRules, recorder),
            state_log=state_log,
            journal=cast(FleetJournal, Journals(recorder)),
            offsets=cast(OffsetReporter, recorder),
            clock=Clock(),
            slots_folder=folder,
        )
        nursery = await resources.enter_async_context(trio.open_nursery())
        started = trio.Event()
        scope = trio.CancelScope()
        await nursery.start(process.link.obey, trio.Event(), started, scope, lambda: None)
        nursery.start_soon(process.moves.run)
        with trio.fail_after(20):
            yield process
        nursery.cancel_scope.cancel()
    process.parent.close()


async def test_a_shard_is_given_up_once_nothing_of_it_is_under_way(tmp_path: Path) -> None:
    """Its requests are refused before, and its lock is free when the parent learns of it."""
    async with running(tmp_path) as process:
        process.recorder.may_end = trio.Event()
        process.say(OwnerTable((1, 1, 0, 1)))
        await process.until_serving(2)
        assert process.recorder.notes == ["groups end"]
        process.recorder.may_end.set()
        assert await process.hear() == GaveUp(0)
        assert process.recorder.notes[1:] == ["offsets", "lines of 0 end, 2 groups"]
        other = FleetMember(slot=1, slots=2, shards=SHARDS)
        async with open_sharded_log(tmp_path, other, (0,), log_id=LOG_ID, run_id=2):
            pass
        assert process.moves.last is not None


async def test_members_that_are_away_are_known_to_the_next_process(tmp_path: Path) -> None:
    """The next process learns what the last one knew, also that no member is away any more."""
    async with running(tmp_path) as process:
        process.recorder.members_away = b"n1 is away"
        for run_id in (8, 9):
            process.say(OwnerTable((1, 1, 0, 1)))
            assert await process.hear() == GaveUp(0)
            process.recorder.members_away = None
            process.say(OwnerTable((0, 1, 0, 1)))
            process.say(Take((0,), run_id=run_id))
            await process.until_serving(0, 2)
            assert await process.hear() == Opened(0)
        assert process.recorder.notes.count("n1 is away") == 1


async def test_a_damaged_list_of_members_that_are_away_costs_no_shard(tmp_path: Path) -> None:
    """A hold counts them no longer."""
    async with running(tmp_path) as process:
        process.recorder.members_away = b"bad"
        process.say(OwnerTable((1, 1, 0, 1)))
        assert await process.hear() == GaveUp(0)
        process.say(OwnerTable((0, 1, 0, 1)))
        process.say(Take((0,), run_id=9))
        await process.until_serving(0, 2)


async def test_shards_are_given_up_at_once(tmp_path: Path) -> None:
    """Their requests are refused from the same moment on, so none waits for another."""
    async with running(tmp_path) as process:
        process.recorder.may_end = trio.Event()
        process.say(OwnerTable((1, 1, 1, 1)))
        await until(lambda: process.recorder.notes == ["groups end"] * 2)
        process.recorder.may_end.set()
        given_up = [await process.hear(), await process.hear()]
        assert GaveUp(0) in given_up
        assert GaveUp(2) in given_up


async def test_taken_shards_have_a_run_of_their_own(tmp_path: Path) -> None:
    """The run is in force before a group of the shards is loaded. Members are served afterwards."""
    async with running(tmp_path) as process:
        process.say(OwnerTable((0, 0, 0, 0)))
        process.say(Take((1, 3), run_id=9))
        await process.until_serving(0, 1, 2, 3)
        assert process.recorder.notes == ["run 9 of (1, 3)", *["groups resume in run 9"] * 2]


async def test_a_shard_that_is_taken_and_wanted_back_at_once_is_given_up(tmp_path: Path) -> None:
    """The shard is given up once it is open: the parent waits for its end."""
    async with running(tmp_path) as process:
        process.say(OwnerTable((0, 0, 0, 1)))
        process.say(Take((1,), run_id=9))
        process.say(OwnerTable((0, 1, 0, 1)))
        assert await process.hear() == Opened(1)
        assert await process.hear() == GaveUp(1)
        await process.until_serving(0, 2)
        notes = process.recorder.notes
        assert notes.index("groups resume in run 9") < notes.index("groups end")


async def test_a_shard_that_hangs_as_it_is_opened_holds_up_no_later_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The coordinator of its transactions may be away for long."""
    real = ShardedLog.open_shard

    async def open_shard(log: ShardedLog, shard: int, *run_id: int) -> Any:
        if shard == 1:
            await trio.sleep_forever()
        return await real(log, shard, *run_id)

    monkeypatch.setattr(ShardedLog, "open_shard", open_shard)
    async with running(tmp_path) as process:
        process.say(OwnerTable((0, 0, 0, 1)))
        process.say(Take((1,), run_id=9))
        process.say(OwnerTable((0, 1, 0, 0)))  # it is wanted back
        process.say(Take((3,), run_id=10))
        await process.until_serving(0, 2, 3)


async def test_a_shard_that_cannot_be_opened_costs_no_other(tmp_path: Path) -> None:
    """The parent learns of it, and may say so again once it can be opened."""
    async with running(tmp_path) as process:
        other = FleetMember(slot=1, slots=2, shards=SHARDS)
        async with open_sharded_log(tmp_path, other, (1,), log_id=LOG_ID, run_id=2):
            process.say(OwnerTable((0, 0, 0, 0)))
            process.say(Take((1, 3), run_id=9))
            assert await process.hear() == NotOpened(1)
            await process.until_serving(0, 2, 3)
        process.say(Take((1,), run_id=10))
        await process.until_serving(0, 1, 2, 3)


async def test_the_parent_learns_of_a_shard_that_a_start_could_not_open(tmp_path: Path) -> None:
    """The parent has the shard tried again, like one that was to be taken."""
    other = FleetMember(slot=1, slots=2, shards=SHARDS)
    async with AsyncExitStack() as resources:
        async with open_sharded_log(tmp_path, other, (0,), log_id=LOG_ID, run_id=2):
            process = await resources.enter_async_context(running(tmp_path, needs_all=False))
            assert await process.hear() == NotOpened(0)
            assert process.member.serving == {2}
        process.say(Take((0,), run_id=9))
        await process.until_serving(0, 2)


async def test_a_shard_that_was_not_opened_is_not_given_up(tmp_path: Path) -> None:
    """Though it is wanted back before that is known."""
    async with running(tmp_path) as process:
        other = FleetMember(slot=1, slots=2, shards=SHARDS)
        async with open_sharded_log(tmp_path, other, (1,), log_id=LOG_ID, run_id=2):
            process.say(OwnerTable((0, 0, 0, 1)))
            process.say(Take((1,), run_id=9))
            process.say(OwnerTable((1, 1, 0, 1)))
            messages = [await process.hear(), await process.hear()]
            assert NotOpened(1) in messages
            assert GaveUp(0) in messages
