"""The board over real groups: what each line of it says while a group is rolled."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.board import board as module
from gateway.board.board import Board, NoSuchGroup
from gateway.data_path.config import Limits
from gateway.data_path.places import Places
from gateway.groups.clock import Clock
from tests.gateway.board.test_lags import committed
from tests.support.hosted_groups import GROUP, HostedGroups, hosted_groups


@asynccontextmanager
async def watched() -> AsyncIterator[tuple[HostedGroups, Board]]:
    """Groups, and the board that watches them."""
    async with hosted_groups() as groups:
        await groups.nursery.start(groups.table.resume)
        board = Board(
            groups.table,
            cluster=groups.cluster,
            clock=Clock(),
            config_of=lambda _: groups.config,
            stop=trio.Event(),
            places=Places(Limits()),
        )
        groups.journal.listen(board.take)
        yield groups, board


async def test_a_classic_group_is_shown_with_its_members(autojump_clock: MockClock) -> None:
    """The partitions are those that its leader has assigned."""
    async with watched() as (groups, board):
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
    async with watched() as (groups, board):
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
    assert any('"group_converted"' in each.line for each in events.events)
    assert events.last == events.events[-1].position


async def test_a_group_that_is_only_in_the_log_is_listed(autojump_clock: MockClock) -> None:
    """It has no members, but a type and epochs."""
    async with watched() as (groups, board):
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
    async with watched() as (groups, board):
        for name in "cab":
            await groups.native("n", group=name)
        first = await board.groups()
        rest = await board.groups(first.next_after or "")
    assert [each.group_id for each in first.groups] == ["a", "b"]
    assert [each.group_id for each in rest.groups] == ["c"]
    assert (first.next_after, rest.next_after) == ("b", None)


async def test_an_unknown_group_is_not_made_by_asking(autojump_clock: MockClock) -> None:
    """Whoever asks for many names takes no memory."""
    async with watched() as (groups, board):
        with pytest.raises(NoSuchGroup):
            await board.group("nobody")
        assert (await board.groups()).groups == ()
        assert groups.running == ()


async def test_a_gateway_is_ready_once_its_groups_are_loaded(autojump_clock: MockClock) -> None:
    """Until it shuts down, and as long as the cluster answers and the log is its own."""
    async with watched() as (groups, board):
        assert board.readiness().is_ready
        board._stop.set()
        groups.cluster._unanswered_s = 0.0
        told = board.gateway().readiness
    assert not told.is_ready
    assert told.reasons == (
        "no broker of the cluster answers",
        "the gateway is shutting down",
    )


async def test_the_readiness_of_a_hosted_group_names_its_clients(
    autojump_clock: MockClock,
) -> None:
    """It is not adopted, because it is hosted already."""
    async with watched() as (groups, board):
        await groups.lone_classic_member(client_id="c-1")
        found = await board.group_readiness(GROUP)
        with pytest.raises(NoSuchGroup):
            await board.group_readiness("nowhere")
    assert (found.mode, found.can_convert, found.can_be_adopted) == ("hosted", True, None)
    (client,) = found.clients
    assert (client.protocol, client.members, client.defects) == ("classic", 1, ())


async def test_the_topics_that_members_subscribe_to_are_looked_at(
    autojump_clock: MockClock,
) -> None:
    """In either protocol, and all of a group without members."""
    async with watched() as (groups, board):
        for topic in ("foo", "old"):
            groups.journal.tell(committed(topic, p0=1), "empty")
            groups.journal.tell(committed(topic, p0=1), GROUP)
        joined = await groups.lone_classic_member(client_id="c-1")
        turns = [board.lags.take_turns(10)]
        groups.journal.tell(committed("old", p0=1), GROUP)
        await groups.native("n", client_id="n-1")
        await groups.beat(joined.member_id, joined.generation)
        turns.append(board.lags.take_turns(10))
    for turn in turns:
        assert turn[GROUP] == [("foo", 0)]
    assert turns[0]["empty"] == [("foo", 0), ("old", 0)]
