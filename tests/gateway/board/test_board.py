"""The board over real groups: what each line of it says while a group is rolled."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import cast

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from coordinator.engine import GroupEngine
from coordinator.interface.config import GroupConfig
from coordinator.interface.events import DeleteGroupReceived
from coordinator.interface.roll_policy import RollMode
from gateway.board import board as module
from gateway.board.board import Board, NoSuchGroup
from gateway.board.views import GroupLine
from gateway.data_path.config import Limits
from gateway.data_path.connection_limiter import ConnectionLimiter
from gateway.groups.clock import Clock
from gateway.groups.groups_elsewhere import GroupElsewhere, GroupsElsewhere
from tests.gateway.board.test_lags import offsets_committed
from tests.support.hosted_groups import GROUP, QUIET_S, HostedGroups, hosted_groups


@asynccontextmanager
async def watched_groups() -> AsyncIterator[tuple[HostedGroups, Board]]:
    """Groups, and the board that watches them."""
    async with hosted_groups() as groups:
        await groups.nursery.start(groups.table.resume)
        board = Board(
            groups.table,
            cluster=groups.cluster,
            clock=Clock(),
            config_of=lambda _: groups.config,
            stop=trio.Event(),
            limiter=ConnectionLimiter(Limits()),
        )
        groups.journal.listen(board.take)
        yield groups, board


async def test_a_classic_group_is_shown_with_its_members(autojump_clock: MockClock) -> None:
    """The partitions are those that its leader has assigned."""
    async with watched_groups() as (groups, board):
        joined = await groups.lone_classic_member(client_id="c-1")
        page = await board.group(GROUP)
    assert (page.mode, page.type, page.state) == ("hosted", "classic", "Stable")
    assert (page.members, page.native_members, page.blocker) == (1, 0, None)
    assert page.stands == "1 member, all with the classic protocol"
    (member,) = page.member_list
    assert (member.member_id, member.client_id) == (joined.member_id, "c-1")
    assert (member.protocol, member.phase, member.owned) == (
        "classic",
        "Stable",
        {"foo": (0, 1, 2)},
    )


async def test_a_mixed_group_says_whom_it_waits_for(autojump_clock: MockClock) -> None:
    """First for the classic member to give up partitions, then for the native one to take them."""
    async with watched_groups() as (groups, board):
        joined = await groups.lone_classic_member(client_id="c-1")
        await groups.native("n", client_id="n-1")
        assert (await board.line(GROUP)).blocker == "waits for the next heartbeat of c-1, n-1"
        await groups.beat(joined.member_id, joined.generation)
        line = await board.line(GROUP)
        page = await board.group(GROUP)
        events = board.latest_events(GROUP)
    assert (line.type, line.members, line.native_members) == ("consumer", 2, 1)
    assert line.stands == "1 of 2 members with the new protocol"
    assert line.blocker == "waits for c-1 to rejoin"
    assert (line.conversions, line.owned_twice) == (1, 0)
    classic, native = page.member_list
    assert (classic.phase, native.phase) == ("ToldToRejoin", "Waiting")
    assert native.to_get == classic.to_give_up != {}
    assert any('"group_converted"' in event.line for event in events.events)
    assert events.last == events.events[-1].position


async def test_groups_of_other_machines_are_listed_with_their_gateway(
    autojump_clock: MockClock,
) -> None:
    """A later look gets them only if they have changed, and learns that one has gone."""
    others = {"elsewhere": GroupElsewhere("b at i:1", "classic", "Stable")}

    class Elsewhere:
        async def list_groups(self) -> Mapping[str, GroupElsewhere]:
            return others

    async with watched_groups() as (groups, board):
        board._elsewhere = cast(GroupsElsewhere, Elsewhere())
        await groups.lone_classic_member(client_id="c-1")
        first = await board.groups(since=0)
        second = await board.groups(since=first.revision)
        others["elsewhere"] = GroupElsewhere("b at i:1", "classic", "Empty")
        third = await board.groups(since=second.revision)
        others.clear()
        fourth = await board.groups(since=third.revision)
    assert [(line.group_id, line.gateway) for line in first.groups] == [
        ("elsewhere", "b at i:1"),
        (GROUP, None),
    ]
    line = first.groups[0]
    assert (line.mode, line.state, line.policy, line.members) == ("elsewhere", "Stable", None, None)
    assert second.groups == ()
    assert [line.state for line in third.groups] == ["Empty"]
    assert fourth.gone == ("elsewhere",)


async def test_a_group_that_is_only_in_the_log_is_listed(autojump_clock: MockClock) -> None:
    """A group in the log has no members, but a type and epochs."""
    async with watched_groups() as (groups, board):
        joined = await groups.lone_classic_member()
        await groups.leave(joined.member_id)
        await trio.sleep(5)
        await wait_all_tasks_blocked()
        assert GROUP not in groups.running
        (line,) = (await board.groups()).groups
    assert (line.mode, line.type, line.state) == ("hosted", "classic", "Empty")
    assert (line.members, line.stands) == (0, "no members")


async def test_the_list_comes_in_parts(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part begins after the last group of the one before."""
    monkeypatch.setattr(module, "GROUPS_MAX", 2)
    async with watched_groups() as (groups, board):
        for name in "cab":
            await groups.native("n", group=name)
        first = await board.groups()
        rest = await board.groups(first.next_after or "")
    assert [group.group_id for group in first.groups] == ["a", "b"]
    assert [group.group_id for group in rest.groups] == ["c"]
    assert (first.next_after, rest.next_after) == ("b", None)


async def test_an_unknown_group_is_not_made_by_asking(autojump_clock: MockClock) -> None:
    """A client that asks for many names takes no memory."""
    async with watched_groups() as (groups, board):
        with pytest.raises(NoSuchGroup):
            await board.group("nobody")
        assert (await board.groups()).groups == ()
        assert groups.running == ()


async def test_a_gateway_is_ready_once_its_groups_are_loaded(autojump_clock: MockClock) -> None:
    """A gateway stays ready until it shuts down, as long as the cluster answers and the log is its
    own."""
    async with watched_groups() as (groups, board):
        assert board.readiness().is_ready
        board._stop.set()
        groups.cluster._unanswered_s = 0.0
        readiness = board.gateway().readiness
    assert not readiness.is_ready
    assert readiness.reasons == (
        "no broker of the cluster answers",
        "the gateway is shutting down",
    )


async def test_the_readiness_of_a_hosted_group_names_its_clients(
    autojump_clock: MockClock,
) -> None:
    """A hosted group cannot be adopted, because it is hosted already."""
    async with watched_groups() as (groups, board):
        await groups.lone_classic_member(client_id="c-1")
        readiness = await board.group_readiness(GROUP)
        with pytest.raises(NoSuchGroup):
            await board.group_readiness("nowhere")
    assert (readiness.mode, readiness.can_convert, readiness.can_be_adopted) == (
        "hosted",
        True,
        None,
    )
    (client,) = readiness.clients
    assert (client.protocol, client.members, client.defects) == ("classic", 1, ())


async def test_the_topics_that_members_subscribe_to_are_looked_at(
    autojump_clock: MockClock,
) -> None:
    """This holds in either protocol, and for all topics of a group without members."""
    async with watched_groups() as (groups, board):
        for topic in ("foo", "old"):
            groups.journal.emit(offsets_committed(topic, p0=1), "empty")
            groups.journal.emit(offsets_committed(topic, p0=1), GROUP)
        joined = await groups.lone_classic_member(client_id="c-1")
        turns = [board.lags.take_turns(10)]
        groups.journal.emit(offsets_committed("old", p0=1), GROUP)
        await groups.native("n", client_id="n-1")
        await groups.beat(joined.member_id, joined.generation)
        turns.append(board.lags.take_turns(10))
    for turn in turns:
        assert turn[GROUP] == [("foo", 0)]
    assert turns[0]["empty"] == [("foo", 0), ("old", 0)]


async def _idle_groups(groups: HostedGroups, count: int) -> None:
    """Groups that are only in the log."""
    for number in range(count):
        await groups.native("n", group=f"idle-{number}")
        await groups.native("n", -1, group=f"idle-{number}")
    await trio.sleep(QUIET_S)


async def test_a_look_costs_what_has_changed_since_the_last(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of idle groups are neither loaded nor shown again at each redraw."""
    async with watched_groups() as (groups, board):
        await _idle_groups(groups, 6)
        first = await board.groups(since=0)
        assert (len(first.groups), first.is_complete) == (6, True)
        made: list[str] = []
        make_engine, show_line = GroupEngine.__init__, board.line

        def count(engine: GroupEngine, group_id: str, config: GroupConfig) -> None:
            made.append(group_id)
            make_engine(engine, group_id, config)

        async def line(group_id: str) -> GroupLine:
            made.append(group_id)
            return await show_line(group_id)

        monkeypatch.setattr(GroupEngine, "__init__", count)
        monkeypatch.setattr(board, "line", line)
        second = await board.groups(since=first.revision)
        assert (second.groups, second.is_complete, second.gone, made) == ((), False, (), [])
        monkeypatch.setattr(GroupEngine, "__init__", make_engine)
        await groups.native("n", group="idle-3")
        await wait_all_tasks_blocked()
        (changed,) = (await board.groups(since=second.revision)).groups
        assert (changed.group_id, changed.members) == ("idle-3", 1)


@pytest.mark.parametrize("api", ["summary", "mark"])
async def test_an_idle_group_is_read_once_until_it_is_loaded(
    api: str, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ListGroups lists it as well. Whatever has changed it had a driver."""
    async with watched_groups() as (groups, _board):
        await _idle_groups(groups, 3)
        look = getattr(groups.table.views, api)
        before = [await look(f"idle-{number}") for number in range(3)]
        with monkeypatch.context() as patch:
            patch.setattr(GroupEngine, "load", lambda *_, **__: pytest.fail("read again"))
            assert [await look(f"idle-{number}") for number in range(3)] == before
        await groups.native("n", group="idle-1")
        await groups.native("n", -1, group="idle-1")
        await trio.sleep(QUIET_S)
        after = [await look(f"idle-{number}") for number in range(3)]
        assert [one == other for one, other in zip(after, before, strict=True)] == [
            *(True, False, True)
        ]


async def test_a_forwarded_group_is_shown_although_its_log_cannot_be_read(
    autojump_clock: MockClock,
) -> None:
    """The cluster answers for it, and the log is not asked."""
    async with watched_groups() as (groups, board):
        groups.table._rules.released.add("given-back")
        await groups.table.router.find_decisions(["given-back"])
        groups.log.records.unreadable["given-back"] = "record 7 cannot be read"
        for since in (None, 0):
            (line,) = (await board.groups(since=since)).groups
            assert (line.group_id, line.mode) == ("given-back", "forwarded")


async def test_a_look_shows_which_groups_are_gone(autojump_clock: MockClock) -> None:
    """A watcher forgets them."""
    async with watched_groups() as (groups, board):
        await _idle_groups(groups, 2)
        first = await board.groups(since=0)
        await groups.ask(lambda token, _: DeleteGroupReceived(token=token), group="idle-0")
        await trio.sleep(QUIET_S)
        second = await board.groups(since=first.revision)
        assert (second.groups, second.gone) == ((), ("idle-0",))


async def test_what_time_changes_is_shown_at_each_look(autojump_clock: MockClock) -> None:
    """One example is the time that partitions are without an owner."""
    async with watched_groups() as (groups, board):
        joined = await groups.lone_classic_member(client_id="c-1")
        await groups.native("n", client_id="n-1")
        await groups.leave(joined.member_id)
        looks = [await board.groups(since=0)]
        for _ in range(3):
            await trio.sleep(1)
            looks.append(await board.groups(since=looks[-1].revision))
        waited = [look.groups[0].unowned_partition_s or 0.0 for look in looks if look.groups]
        assert waited == sorted(set(waited))
        assert len(waited) == len(looks)


async def test_every_change_of_a_line_changes_its_mark(autojump_clock: MockClock) -> None:
    """A watcher would not see a change without a new mark. The steps are of each kind."""
    async with watched_groups() as (groups, board):
        shown: dict[str, GroupLine] = {}
        since = 0

        async def look() -> None:
            nonlocal since
            part = await board.groups(since=since)
            since = part.revision
            if part.is_complete:
                shown.clear()
            for gone in part.gone:
                del shown[gone]
            shown.update((line.group_id, line) for line in part.groups)
            assert shown == {line.group_id: line for line in (await board.groups()).groups}

        await look()
        joined = await groups.lone_classic_member(client_id="c-1")
        await look()
        await groups.native("n", client_id="n-1")
        await look()
        await groups.beat(joined.member_id, joined.generation)
        await look()
        await groups.table.orders.set_policy(GROUP, RollMode.HOLD, dry_run=False)
        await look()
        await groups.leave(joined.member_id)
        await look()
        epoch = (await groups.native("n", 0, client_id="n-1")).member_epoch
        await look()
        await groups.native("n", epoch, owned={})
        await look()
        await groups.native("n", -1)
        await look()
        await trio.sleep(QUIET_S)
        await look()
        await groups.table.orders.set_policy(GROUP, RollMode.ALLOW, dry_run=False)
        await trio.sleep(QUIET_S)
        await look()
        await groups.ask(lambda token, _: DeleteGroupReceived(token=token))
        await trio.sleep(QUIET_S)
        await look()
