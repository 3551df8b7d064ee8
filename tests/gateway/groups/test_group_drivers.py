"""The groups in memory, and how many there may be."""

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock, wait_all_tasks_blocked

from coordinator.interface.events import OffsetCommitEnded
from coordinator.interface.replies import OffsetReply
from gateway.groups.group_driver import GroupDriver
from gateway.groups.group_drivers import GroupRefused
from gateway.hosting.calls import Call, Commit
from gateway.hosting.group import HostedGroup
from kafka_codecs.error_codes import ErrorCode
from tests.support.garbage import freed_at_once
from tests.support.hosted_groups import GROUP, QUIET_S, HostedGroups, hosted_groups


async def test_the_number_of_groups_is_limited(autojump_clock: MockClock) -> None:
    """Existing groups continue. A group that ends makes room for another."""
    async with hosted_groups(max_groups=2) as groups:
        joined = await groups.native("n", group="a")
        await groups.native("n", group="b")
        with pytest.raises(GroupRefused, match="the limit of 2 hosted groups is reached"):
            await groups.native("n", group="c")
        beaten = await groups.native("n", joined.member_epoch, group="a")
        assert beaten.error is ErrorCode.NONE
        await groups.native("n", -1, group="b")
        await trio.sleep(2)
        assert (await groups.native("n", group="c")).error is ErrorCode.NONE


async def test_a_group_that_has_ended_needs_no_garbage_collection(
    autojump_clock: MockClock,
) -> None:
    """The calls of its members need none either: a client may begin and leave any number of
    groups."""
    with freed_at_once(GroupDriver, HostedGroup, Call, Commit):
        async with hosted_groups() as groups:
            token, _ = await _consume(groups)
            groups.end_commit(OffsetCommitEnded(commit=token))
            await groups.native("n", -1)
            await trio.sleep(QUIET_S)
            assert not groups.running


async def _consume(groups: HostedGroups) -> tuple[int, OffsetReply]:
    """A member joins, sends a heartbeat, is refused once, and commits."""
    joined = await groups.native("n")
    await groups.native("n", joined.member_epoch)
    await groups.native("n", 99)
    return await groups.commit("n", joined.member_epoch, {"foo": [0]})


async def test_one_address_leaves_room_for_others(autojump_clock: MockClock) -> None:
    """A group counts for the address that began it, wherever its members are, and for none if it
    existed before the gateway. The log reports it once."""
    async with hosted_groups(max_groups=8, max_groups_per_address=2) as groups:
        await groups.native("n", group="resumed")
        await groups.native("n", group="a", begun_by="greedy")
        await groups.native("n", group="b", begun_by="greedy")
        with capture_logs() as lines:
            for group in ("c", "d", "e"):
                with pytest.raises(
                    GroupRefused, match="the limit of 2 hosted groups per client address"
                ):
                    await groups.native("n", group=group, begun_by="greedy")
        assert {line["event"] for line in lines} >= {"groups_refused"}
        await groups.native("n", group="c", begun_by="modest")
        for group in ("resumed", "a", "c"):
            assert not (await groups.native("m", group=group, begun_by="greedy")).error
        await groups.native("n", -1, group="a")
        await groups.native("m", -1, group="a")
        await trio.sleep(2)
        assert not (await groups.native("n", group="d", begun_by="greedy")).error


async def test_an_unused_id_makes_no_member(autojump_clock: MockClock) -> None:
    """The second JoinGroup looks at the cluster again."""
    async with hosted_groups() as groups:
        await groups.join()
        assert not groups.table.drivers.is_live(GROUP)


async def test_groups_do_not_wait_for_each_other(autojump_clock: MockClock) -> None:
    """A slow log delays only its own group."""
    async with hosted_groups() as groups:
        joined = await groups.native("n", group="quick")
        groups.log.gate = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: groups.native("m", group="slow"))
            await wait_all_tasks_blocked()
            quick = groups.view("quick")
            assert quick is not None
            assert quick.members
            groups.log.gate.set()
        again = await groups.native("n", joined.member_epoch, group="quick")
        assert again.error is ErrorCode.NONE


async def test_hosted_groups_are_known_until_their_anchors_have_left(
    autojump_clock: MockClock,
) -> None:
    """The groups keep the gateway from being removed. Meanwhile none is adopted."""
    async with hosted_groups() as groups:
        await groups.native("n", group="a")
        with groups.table.orders.taking_none():
            assert groups.table.drivers.hosted_ids() == {"a"}
            outcome = await groups.table.orders.adopt("b")
            assert outcome.reasons != ()
        await groups.native("n", -1, group="a")
        await trio.sleep(2)
        assert groups.table.drivers.hosted_ids() == set()
