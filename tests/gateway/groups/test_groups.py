"""All groups together: at the start of the gateway, and while no place is left."""

from collections.abc import Sequence

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock, wait_all_tasks_blocked

from coordinator.interface.records import (
    AdoptionRecord,
    AdoptionState,
    ClassicGroupMetadata,
    ClassicGroupValue,
    DurableRecord,
    GroupConfigs,
    ReleaseRecord,
    ReleaseState,
    ServedBySetting,
)
from gateway.cluster.errors import UpstreamError
from gateway.groups.group_drivers import GroupRefused
from gateway.groups.groups import RESUME_RETRY_S
from gateway.hosting.logged_engine import STALLED_AFTER_MS, LoggedEngine
from gateway.hosting.routes import GroupSituation
from gateway.state_log.log import StateLogError, StateLogUnreadable
from kafka_codecs.error_codes import ErrorCode
from tests.support.hosted_groups import GROUP, ScriptedLog, hosted_groups


async def test_groups_with_only_joins_make_room(
    autojump_clock: MockClock,
) -> None:
    """A client that joins many groups with the longest sessions, and never continues, blocks no
    other, with its members or with unused ids."""
    half_an_hour_ms = 1_800_000
    async with hosted_groups(max_groups=3) as groups:
        served = await groups.join(group="served", version=3, session_timeout_ms=half_an_hour_ms)
        await groups.sync(served.member_id, served.generation, group="served")
        await groups.join(group="joined", version=3, session_timeout_ms=half_an_hour_ms)
        await groups.join(group="handed-out", session_timeout_ms=half_an_hour_ms)
        with pytest.raises(GroupRefused):
            await groups.native("n", group="late")
        await trio.sleep(STALLED_AFTER_MS / 1000)
        with capture_logs() as lines:
            with pytest.raises(GroupRefused):
                await groups.native("n", group="late")
            await trio.sleep(1)
        assert list(groups.running) == ["served"]
        dissolved = {line["group_id"] for line in lines if line["event"] == "group_dissolved"}
        assert dissolved == {"joined", "handed-out"}
        assert (await groups.native("n", group="late")).error is ErrorCode.NONE
        beaten = await groups.beat(served.member_id, served.generation, group="served")
        assert beaten.error is ErrorCode.NONE


async def test_the_search_for_room_is_rate_limited(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All groups are scanned at most once per second, for any number of refused joins."""
    looks = 0

    def has_stalled(_work: LoggedEngine, _now_ms: int) -> bool:
        nonlocal looks
        looks += 1
        return False

    monkeypatch.setattr(LoggedEngine, "has_stalled", has_stalled)
    async with hosted_groups(max_groups=1) as groups:
        await groups.native("n")
        for _ in range(10):
            with pytest.raises(GroupRefused):
                await groups.native("n", group="late")
        assert looks == 2  # one at each group, that which is refused included


async def test_groups_with_members_are_loaded_at_the_start(
    autojump_clock: MockClock,
) -> None:
    """After a restart, members that died time out a full session later, and the others remain
    members. Quiet groups stay in the log."""
    async with hosted_groups() as before:
        joined = await before.native("alive")
        await before.native("dead")
        await before.native("gone", group="quiet")
        await before.native("gone", -1, group="quiet")
        log = before.log
    async with hosted_groups(log=log) as groups:
        await groups.table.resume()
        await wait_all_tasks_blocked()
        assert list(groups.running) == [GROUP]
        assert groups.table.drivers.is_live(GROUP)
        session_s = groups.config.consumer_session_timeout_ms / 1000
        await trio.sleep(session_s - 1)
        view = await groups.table.views.view(GROUP)
        assert view is not None
        assert {member.member_id for member in view[0].members} == {"alive", "dead"}
        beaten = await groups.native("alive", joined.member_epoch)
        assert beaten.error is ErrorCode.NONE
        beaten = await groups.native("alive", joined.member_epoch)
        # DEV D67: it must revoke partitions, and has not yet stated what it owns.
        assert beaten.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        await trio.sleep(2)
        view = await groups.table.views.view(GROUP)
        assert view is not None
        assert [member.member_id for member in view[0].members] == ["alive"]


def delay_reads(log: ScriptedLog, monkeypatch: pytest.MonkeyPatch) -> trio.Event:
    """Let no record be read until the event is set."""
    real, may_read = log.read, trio.Event()

    async def read(group_id: str) -> Sequence[DurableRecord]:
        if not may_read.is_set():
            raise StateLogError("it takes its time")
        return await real(group_id)

    monkeypatch.setattr(log, "read", read)
    return may_read


async def test_the_group_of_a_request_is_loaded_before_others(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gateway serves before it has loaded thousands of groups."""
    async with hosted_groups() as before:
        for number in range(3):
            joined = await before.native("n", group=f"g{number}")
        log = before.log
    is_asked = delay_reads(log, monkeypatch)
    async with hosted_groups(log=log) as groups:
        with capture_logs() as lines:
            await groups.nursery.start(groups.table.resume)
            await wait_all_tasks_blocked()
            assert not groups.running
            is_asked.set()
            beaten = await groups.native("n", joined.member_epoch, group="g2")
            assert beaten.error in (ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            assert groups.running == ("g2",)
            await trio.sleep(2 * RESUME_RETRY_S)
        assert sorted(groups.running) == ["g0", "g1", "g2"]
        assert [line["groups"] for line in lines if line["event"] == "groups_resumed"] == [3]


async def test_groups_whose_shard_is_another_processs_meanwhile_are_not_loaded() -> None:
    """A table that comes while a shard is opened ends no gateway."""
    async with hosted_groups() as before:
        await before.native("n", group="g0")
        log = before.log
    async with hosted_groups(log=log) as groups:
        groups.table.drivers.owns = lambda _group_id: False
        await groups.table.resume()
        assert not groups.running
        assert not groups.table.drivers.unresumed


async def test_an_adoption_in_the_log_counts_before_it_is_loaded(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cluster must not answer for the group meanwhile."""
    group = ClassicGroupValue(protocol_type="consumer", generation=3, protocol="range", leader="m")
    log = ScriptedLog()
    await log.append(GROUP, [AdoptionRecord(value=AdoptionState(group=group))])
    await log.append("other", [GroupConfigs(overrides={"consumer.session.timeout.ms": 50_000})])
    delay_reads(log, monkeypatch)
    async with hosted_groups(log=log) as groups:
        await groups.nursery.start(groups.table.resume)
        assert not groups.running
        assert groups.table.drivers.is_moving(GROUP)
        assert not groups.table.drivers.is_moving("other")


async def test_adopted_groups_are_known_from_the_start(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cluster must not answer for a group that has not been read, and may have members."""
    group = ClassicGroupMetadata(
        value=ClassicGroupValue(protocol_type=None, generation=3, protocol=None, leader=None)
    )
    log = ScriptedLog()
    await log.append("adopted", [group])
    await log.append("by-setting", [group, ServedBySetting(is_so=True)])
    await log.append("released", [ReleaseRecord(value=ReleaseState())])
    await log.append("configs", [GroupConfigs(overrides={"consumer.session.timeout.ms": 50_000})])
    is_asked = delay_reads(log, monkeypatch)
    async with hosted_groups(log=log) as groups:
        await groups.nursery.start(groups.table.resume)
        names = ("adopted", "by-setting", "released", "configs")
        assert [name for name in names if groups.table.drivers.is_adopted(name)] == [*names[:3]]
        is_asked.set()
        await trio.sleep(2 * RESUME_RETRY_S)
        assert [name for name in names if groups.table.drivers.is_adopted(name)] == ["adopted"]


@pytest.mark.parametrize("is_under_way", [True, False])
async def test_only_a_release_that_is_over_leaves_the_group_to_the_cluster(
    autojump_clock: MockClock, *, is_under_way: bool
) -> None:
    """Until then the next process takes over its anchor: the killed one's still holds the group."""
    group = ClassicGroupValue(protocol_type="consumer", generation=3, protocol="range", leader="m")
    log = ScriptedLog()
    release = ReleaseState(group=group) if is_under_way else ReleaseState()
    await log.append(GROUP, [ReleaseRecord(value=release)])
    async with hosted_groups(log=log, max_groups=1) as groups:
        groups.cluster.failure = UpstreamError("not now")
        await groups.nursery.start(groups.table.resume)
        await wait_all_tasks_blocked()
        assert groups.table.drivers.driver(GROUP).group.routing.is_released is not is_under_way


async def test_a_group_that_is_being_adopted_is_loaded_beyond_the_limit(
    autojump_clock: MockClock,
) -> None:
    """Unloaded, its members' requests would go to the cluster."""
    group = ClassicGroupValue(protocol_type="consumer", generation=3, protocol="range", leader="m")
    log = ScriptedLog()
    await log.append(GROUP, [AdoptionRecord(value=AdoptionState(group=group))])
    async with hosted_groups(log=log, max_groups=0) as groups:
        await groups.nursery.start(groups.table.resume)
        await wait_all_tasks_blocked()
        assert groups.table.drivers.is_moving(GROUP)
        assert groups.table.drivers.driver(GROUP).group.move.situation is GroupSituation.HELD


async def test_a_log_that_is_lost_during_the_start_is_waited_for(
    autojump_clock: MockClock,
) -> None:
    """Two gateways start at the same time. The later one fences the other, which regains the log a
    moment later, so neither has to end."""
    async with hosted_groups() as before:
        await before.native("n")
        log = before.log
    log.is_unreadable = True
    async with hosted_groups(log=log) as groups:
        with capture_logs() as lines:
            groups.nursery.start_soon(groups.table.resume)
            await trio.sleep(10 * RESUME_RETRY_S)
            assert groups.running == ()
            log.is_unreadable = False
            await trio.sleep(RESUME_RETRY_S)
            await wait_all_tasks_blocked()
        assert groups.table.drivers.is_live(GROUP)
    assert {line["event"] for line in lines} >= {"resume_delayed", "groups_resumed"}


async def test_an_unreadable_group_is_refused_and_others_are_served(
    autojump_clock: MockClock,
) -> None:
    """One log line names its unreadable record."""
    async with hosted_groups() as before:
        await before.native("m", group="damaged")
        await before.native("n")
        log = before.log
    log.records.unreadable["damaged"] = "the record at offset 7 cannot be read"
    async with hosted_groups(log=log) as groups:
        with capture_logs() as lines:
            await groups.table.resume()
        await wait_all_tasks_blocked()
        assert groups.table.drivers.is_live(GROUP)
        (line,) = [line for line in lines if line["event"] == "group_unreadable"]
        assert (line["group_id"], line["reason"]) == (
            "damaged",
            "the record at offset 7 cannot be read",
        )
        refused = await groups.native("m", group="damaged")
        assert refused.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert await groups.table.views.group_ids() == (GROUP,)
        assert await groups.table.views.groups_with_configs() == ()
        with pytest.raises(StateLogUnreadable):
            await log.read("damaged")


async def test_groups_beyond_the_limit_are_not_loaded(autojump_clock: MockClock) -> None:
    """The limit was lowered. The others are served, and the log has the number of those left
    out."""
    async with hosted_groups() as before:
        for number in range(3):
            await before.native("n", group=f"g{number}")
        log = before.log
    async with hosted_groups(log=log, max_groups=2) as groups:
        with capture_logs() as lines:
            await groups.table.resume()
        assert len(groups.running) == 2
        assert [line["groups"] for line in lines if line["event"] == "groups_left_out"] == [1]
