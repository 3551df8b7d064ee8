"""What the driver does for an adoption: waits for what is relayed, and asks the coordinator."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from coordinator.interface.topics import Topics
from gateway.events.group_events import GroupAdopted
from gateway.groups.coordinator_configs import LONGEST_SESSION
from gateway.groups.group_driver import GroupDriver
from gateway.groups.topics_image import TopicsImage
from gateway.hosting.adoptable import describe_lack_of_room
from gateway.hosting.adoption import HOLD_MAX_MS
from gateway.hosting.answers import GroupApi, RefusalReason
from gateway.hosting.calls import Call, Forwarded, refuse
from gateway.hosting.effects import EmitNow
from gateway.hosting.forwarded import WatchedGroups
from gateway.hosting.inputs import MoveRequested, TimerFired
from gateway.hosting.move import STILL_ENDING
from gateway.hosting.move_requests import AdoptionOutcome, AdoptRequest
from gateway.hosting.states import AdoptionStage
from kafka_codecs.apis import ApiKey
from kafka_codecs.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kafka_codecs.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.support.adoption import GROUP, cluster_description, watched_group
from tests.support.hosted_groups import HostedGroups, hosted_groups

VERSIONS: dict[int, tuple[int, int]] = {
    ApiKey.JOIN_GROUP: (0, 9),
    ApiKey.SYNC_GROUP: (0, 5),
    ApiKey.HEARTBEAT: (0, 4),
    ApiKey.LEAVE_GROUP: (0, 5),
    ApiKey.OFFSET_COMMIT: (2, 9),
    ApiKey.DESCRIBE_GROUPS: (0, 5),
}


@asynccontextmanager
async def live_group(
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[tuple[HostedGroups, GroupDriver]]:
    """A group in the cluster that can be adopted. Its coordinator has moved when it is asked for a
    heartbeat."""
    async with hosted_groups() as groups:
        groups.cluster.spoken = VERSIONS
        groups.cluster.answers |= {
            DescribeGroupsRequest: lambda _: DescribeGroupsResponse(
                groups=(cluster_description(),)
            ),
            HeartbeatRequest: lambda _: HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR),
            DescribeConfigsRequest: lambda _: DescribeConfigsResponse(results=()),
        }
        latest = {"heartbeat_ms": groups.table._clock.now_ms()}
        known = watched_group(latest, latest)
        monkeypatch.setattr(WatchedGroups, "group", lambda _self, _group_id: known)
        rules = replace(groups.table._rules, can_anchor=True)
        groups.table.drivers._rules = groups.table.orders._rules = rules
        yield groups, groups.table.drivers.driver(GROUP)


def beats(groups: HostedGroups) -> int:
    """How many heartbeats the coordinator got."""
    return sum(isinstance(message, HeartbeatRequest) for _node, message in groups.cluster.asked)


async def test_members_are_impersonated_once_everything_relayed_is_answered(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit under way would be refused later."""
    async with live_group(monkeypatch) as (groups, driver), trio.open_nursery() as nursery:
        call = Call(api=GroupApi.HEARTBEAT, is_at_coordinator=True)
        assert isinstance(await driver.ask(call), Forwarded)
        outcomes: list[AdoptionOutcome] = []

        async def adopt() -> None:
            outcomes.append(await groups.table.orders.adopt(GROUP))

        with groups.table.drivers.relaying(GROUP, call):
            nursery.start_soon(adopt)
            await wait_all_tasks_blocked()
            stage = groups.table.drivers.driver(GROUP).group.move.stage
            assert stage is AdoptionStage.IMPERSONATING
            assert beats(groups) == 0
        await wait_all_tasks_blocked()
        assert beats(groups) == 2
        assert not outcomes[0].is_adopted


async def test_an_adoption_waits_for_calls_that_were_relayed_without_a_driver(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver comes while the cluster has such a call."""
    async with live_group(monkeypatch) as (groups, driver), trio.open_nursery() as nursery:
        groups.table.drivers._forget(driver)
        call = Call(api=GroupApi.COMMIT, is_at_coordinator=True)
        answer = await groups.table.router.answer_without_driver(GROUP, call)
        assert isinstance(answer, Forwarded)
        with groups.table.drivers.relaying(GROUP, call):
            assert groups.table.drivers.in_memory(GROUP) is None
            nursery.start_soon(groups.table.orders.adopt, GROUP)
            await wait_all_tasks_blocked()
            again = groups.table.drivers.driver(GROUP)
            assert again.group.move.stage is AdoptionStage.IMPERSONATING
            assert beats(groups) == 0
        await wait_all_tasks_blocked()
        assert beats(groups) == 2


async def test_a_driver_stays_while_the_cluster_has_a_call_that_its_adoption_waited_for(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forgotten, it would not know that its step is still under way. The next driver of the group
    would begin another adoption, and be dropped in the middle of it when that step ends."""
    async with live_group(monkeypatch) as (groups, _driver):
        drivers, call = groups.table.drivers, Call(api=GroupApi.HEARTBEAT, is_at_coordinator=True)
        assert isinstance(await drivers.driver(GROUP).ask(call), Forwarded)
        with drivers.relaying(GROUP, call):
            assert not (await groups.table.orders.adopt(GROUP)).is_adopted
            driver = drivers.in_memory(GROUP)
            assert driver is not None
            await trio.sleep(5)
            assert drivers.in_memory(GROUP) is driver
            assert (await groups.table.orders.adopt(GROUP)).reasons == (STILL_ENDING,)
        await wait_all_tasks_blocked()
        assert drivers.in_memory(GROUP) is None


async def test_a_forgotten_driver_takes_no_part_in_its_group_any_more(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is still on its way to it must not reach the group, which may have another driver."""
    async with live_group(monkeypatch) as (groups, driver):
        call = Call(api=GroupApi.HEARTBEAT, is_at_coordinator=True)
        assert isinstance(await driver.ask(call), Forwarded)
        drivers = groups.table.drivers
        assert drivers.in_memory(GROUP) is None
        successor = drivers.driver(GROUP)
        driver.feed(TimerFired())
        assert drivers.in_memory(GROUP) is successor
        late = await driver.ask(Call(api=GroupApi.HEARTBEAT, is_at_coordinator=True))
        assert late == refuse(RefusalReason.NOT_AT_COORDINATOR)


async def test_a_call_whose_client_has_gone_is_not_waited_for(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call was cancelled before it could be relayed."""
    async with live_group(monkeypatch) as (groups, driver):
        call = Call(api=GroupApi.HEARTBEAT, is_at_coordinator=True)
        assert driver.begin(call) is None
        with trio.move_on_after(0):
            await driver.finish(call)
        await groups.table.orders.adopt(GROUP)
        assert beats(groups) == 2


async def test_a_dry_run_begins_nothing(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No reason means that the group can be adopted."""
    async with live_group(monkeypatch) as (groups, driver):
        outcome = await groups.table.orders.adopt(GROUP, dry_run=True)
        assert (outcome.is_adopted, outcome.reasons) == (False, ())
        assert not driver.group.move.is_under_way


async def test_an_adoption_asks_for_the_longest_session_that_the_cluster_admits(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guard of a group needs more than the session of its members."""
    config = DescribeConfigsResourceResult(
        name=LONGEST_SESSION, value="10000", read_only=True, is_sensitive=False, synonyms=()
    )
    result = DescribeConfigsResult(resource_type=4, resource_name="1", configs=(config,))
    async with live_group(monkeypatch) as (groups, driver):
        groups.cluster.answers[DescribeConfigsRequest] = lambda _: DescribeConfigsResponse(
            results=(result,)
        )
        outcome = await groups.table.orders.adopt(GROUP)
        assert outcome.reasons == (describe_lack_of_room(20_000),)
        assert not driver.group.move.is_under_way


async def test_a_group_that_the_gateway_adopts_by_itself_has_no_operator_to_tell(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The group continues all the same: a bug would start it again."""
    async with live_group(monkeypatch) as (_groups, driver):
        starts: list[int] = []
        monkeypatch.setattr(driver.group, "start_again", starts.append)
        driver.feed(MoveRequested(AdoptRequest()))
        await wait_all_tasks_blocked()
        await trio.sleep(HOLD_MAX_MS / 1000)
        await wait_all_tasks_blocked()
        assert driver.group.move.stage is None
        assert starts == []


async def test_grants_of_an_adopted_group_end_though_no_request_has_named_its_topics(
    autojump_clock: MockClock,
) -> None:
    """Its members joined at the cluster: the gateway has seen their assignments, and no names."""
    async with hosted_groups() as groups:
        await groups.nursery.start(groups.table.resume)
        member_id = (await groups.lone_classic_member()).member_id
        driver = groups.driver()
        driver.work.topics = TopicsImage(driver.work.topics._cluster)  # noqa: SLF001, RUF100
        driver.group.engine.topics = Topics()
        driver.report(EmitNow(GroupAdopted(held_ms=1)))
        await groups.beat(member_id, 1)
        await wait_all_tasks_blocked()
        await groups.leave(member_id)
        (ended,) = groups.events_named("grant_ended")
    assert (ended["member_id"], ended["partitions"]) == (member_id, {"foo": [0, 1, 2]})
