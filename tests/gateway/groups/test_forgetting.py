"""The gateway deletes stored groups and configs that are no longer used."""

from dataclasses import replace
from typing import Any

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock, wait_all_tasks_blocked

from coordinator.interface.events import (
    ClaimReceived,
    ConfigChange,
    ConfigOperation,
    ConfigsReceived,
)
from gateway.cluster.errors import UpstreamError
from gateway.groups import forgetting as module
from gateway.groups.forgetting import UNUSED_MS_MAX, Forgetting
from gateway.quotas.quota_cache import LONG_NAME_CHARS
from gateway.quotas.quota_key import QuotaKey
from gateway.quotas.shares import ShareRule
from gateway.requests import config_apis
from gateway.requests.config_apis import ConfigApis
from kafka_codecs.apis import ApiKey
from kafka_codecs.describe_configs import ConfigResourceType
from kafka_codecs.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.configs import SESSION, SET
from tests.support.hosted_groups import (
    QUIET_S,
    HostedGroups,
    ScriptedLog,
    hosted_groups,
    lone_request,
)


def forgetting(groups: HostedGroups) -> Forgetting:
    """The forgetting of these groups."""
    return Forgetting(groups.table, groups.cluster_reader)


def cluster_knows(groups: HostedGroups, **states: str) -> None:
    """Make the cluster report these states, and Dead for all other groups."""

    def describe(asked: DescribeGroupsRequest) -> DescribeGroupsResponse:
        return DescribeGroupsResponse(
            groups=tuple(
                DescribedGroup(group_id=group, group_state=states.get(group, "Dead"))
                for group in asked.groups
            )
        )

    groups.cluster.spoken = {ApiKey.DESCRIBE_GROUPS: (0, 5)}
    groups.cluster.answers[DescribeGroupsRequest] = describe


async def come_and_go(groups: HostedGroups, group: str = "orders") -> None:
    """A member joins and leaves."""
    await groups.native("n", group=group)
    await groups.native("n", -1, group=group)


async def set_config(groups: HostedGroups, group: str, value: str = "50000") -> None:
    """Override one config of a group that may not exist."""
    change = ConfigChange(name=SESSION, operation=ConfigOperation.SET, value=value)
    reply = await groups.ask(
        lambda token, _: ConfigsReceived(token=token, changes=(change,)), group=group
    )
    assert reply.error is ErrorCode.NONE


async def alter_config(configs: ConfigApis, group: str, client_host: str = "127.0.0.1") -> int:
    """The error code of a config change."""
    message = IncrementalAlterConfigsRequest(
        resources=(
            AlterConfigsResource(
                resource_type=ConfigResourceType.GROUP,
                resource_name=group,
                configs=(AlterableConfig(name=SESSION, config_operation=SET, value="50000"),),
            ),
        ),
        validate_only=False,
    )
    answer: Any = await configs.answer(
        replace(lone_request(message, 1), owner=QuotaKey(client_host)), message
    )
    (response,) = answer.responses
    return int(response.error_code)


async def test_an_empty_group_is_forgotten_after_the_cluster_forgot_it(
    autojump_clock: MockClock,
) -> None:
    """The group vanishes from lists and the log. Groups with offsets or members stay."""
    async with hosted_groups() as groups:
        for group in ("gone", "has-offsets"):
            await come_and_go(groups, group)
        await groups.native("n", group="live")
        await trio.sleep(QUIET_S)
        cluster_knows(groups, **{"has-offsets": "Empty"})
        with capture_logs() as lines:
            await forgetting(groups).delete_unused()
        await trio.sleep(QUIET_S)
        assert set(await groups.table.views.group_ids()) == {"has-offsets", "live"}
        assert "gone" not in await groups.log.group_ids()
        assert ("groups_forgotten", 1) in [(line["event"], line.get("groups")) for line in lines]
        assert len(groups.cluster.asked) == 1


async def test_a_group_stays_while_the_cluster_is_silent(autojump_clock: MockClock) -> None:
    """A missing answer proves nothing."""
    async with hosted_groups() as groups:
        await come_and_go(groups)
        await trio.sleep(QUIET_S)
        cluster_knows(groups)
        groups.cluster.failure = UpstreamError("nobody listens")
        await forgetting(groups).delete_unused()
        groups.cluster.failure = None
        groups.cluster.answers[DescribeGroupsRequest] = lambda asked: DescribeGroupsResponse(
            groups=tuple(
                DescribedGroup(
                    group_id=group,
                    group_state="Dead",
                    error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                )
                for group in asked.groups
            )
        )
        await forgetting(groups).delete_unused()
        groups.cluster.spoken = {}
        await forgetting(groups).delete_unused()
        assert len(await groups.table.views.group_ids()) == 1


async def test_a_gateway_that_restarts_daily_forgets(autojump_clock: MockClock) -> None:
    """A gateway checks soon after its start."""
    async with hosted_groups() as groups:
        await come_and_go(groups)
        cluster_knows(groups)
        groups.nursery.start_soon(forgetting(groups).run)
        await trio.sleep(60 * 60)
        assert await groups.table.views.group_ids() == ()


async def test_the_check_repeats(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check continues after the log could not be read."""
    monkeypatch.setattr(module, "FIRST_LOOK_S", (60.0, 60.0))
    monkeypatch.setattr(module, "LOOK_INTERVAL_S", 60.0)
    async with hosted_groups() as groups:
        await come_and_go(groups)
        cluster_knows(groups)
        groups.nursery.start_soon(forgetting(groups).run)
        groups.log.is_unreadable = True
        await trio.sleep(61)
        groups.log.is_unreadable = False
        assert len(await groups.table.views.group_ids()) == 1
        await trio.sleep(60)
        await wait_all_tasks_blocked()
        assert await groups.log.group_ids() == ()


@pytest.mark.parametrize("away", ["cluster", "coordinator", "log"])
async def test_a_look_during_an_outage_is_repeated_soon_after_it(
    away: str, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question without an answer does not count as looked at."""
    monkeypatch.setattr(module, "FIRST_LOOK_S", (60.0, 60.0))
    async with hosted_groups() as groups:
        await come_and_go(groups)
        cluster_knows(groups)
        describe = groups.cluster.answers[DescribeGroupsRequest]
        groups.nursery.start_soon(forgetting(groups).run)
        match away:
            case "cluster":
                groups.cluster.failure = UpstreamError("nobody listens")
            case "coordinator":
                groups.cluster.answers[DescribeGroupsRequest] = lambda asked: replace(
                    describe(asked),
                    groups=tuple(
                        replace(group, error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
                        for group in describe(asked).groups
                    ),
                )
            case _:
                groups.log.is_failing = True
        await trio.sleep(61)
        groups.cluster.failure = None
        groups.cluster.answers[DescribeGroupsRequest] = describe
        groups.log.is_failing = False
        assert len(await groups.table.views.group_ids()) == 1
        await trio.sleep(module.COUNT_INTERVAL_S + 1)
        assert await groups.table.views.group_ids() == ()


async def test_a_group_that_the_gateway_may_not_describe_causes_no_further_look(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is an answer, too: the cluster will not say more in ten minutes."""
    monkeypatch.setattr(module, "FIRST_LOOK_S", (60.0, 60.0))
    async with hosted_groups() as groups:
        await come_and_go(groups)
        cluster_knows(groups)
        groups.cluster.answers[DescribeGroupsRequest] = lambda asked: DescribeGroupsResponse(
            groups=tuple(
                DescribedGroup(group_id=name, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
                for name in asked.groups
            )
        )
        groups.nursery.start_soon(forgetting(groups).run)
        await trio.sleep(61 + 2 * module.COUNT_INTERVAL_S)
        assert len(groups.cluster.asked) == 1


async def test_many_new_groups_are_forgotten_on_the_same_day(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client may begin and leave groups all day. Those with offsets do not count again."""
    monkeypatch.setattr(module, "FIRST_LOOK_S", (60.0, 60.0))
    monkeypatch.setattr(module, "NEW_GROUPS_MAX", 3)
    async with hosted_groups() as groups:
        await come_and_go(groups, "has-offsets")
        cluster_knows(groups, **{"has-offsets": "Empty"})
        groups.nursery.start_soon(forgetting(groups).run)
        await trio.sleep(61)
        for group in "abc":
            assert len(await groups.table.views.group_ids()) == 1 + "abc".index(group)
            await trio.sleep(2 * module.COUNT_INTERVAL_S)
            await come_and_go(groups, group)
        await trio.sleep(module.COUNT_INTERVAL_S)
        assert await groups.table.views.group_ids() == ("has-offsets",)


async def test_groups_with_long_names_are_forgotten_earlier(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long name counts as many groups, and no longer once its group is gone."""
    monkeypatch.setattr(module, "FIRST_LOOK_S", (60.0, 60.0))
    monkeypatch.setattr(module, "NEW_GROUPS_MAX", 3)
    async with hosted_groups() as groups:
        cluster_knows(groups)
        groups.nursery.start_soon(forgetting(groups).run)
        await trio.sleep(61)
        for group in ("a" * 2 * LONG_NAME_CHARS, "b" * 2 * LONG_NAME_CHARS):
            await come_and_go(groups, group)
            assert await groups.table.views.group_ids() == (group,)
            await trio.sleep(2 * module.COUNT_INTERVAL_S)
            assert await groups.table.views.group_ids() == ()


async def test_configs_without_a_group_are_forgotten_after_a_while(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An admin may set them before the first member joins. Configs of a group that is in use stay,
    even if only the cluster knows the group."""
    monkeypatch.setattr(module, "UNUSED_MS_MAX", 20_000)
    async with hosted_groups() as groups:
        for group in ("unused", "used", "in-the-cluster"):
            await set_config(groups, group)
        await groups.native("n", group="used")
        await trio.sleep(QUIET_S)
        cluster_knows(groups, **{"in-the-cluster": "Empty"})
        for _ in range(10):
            await forgetting(groups).delete_unused()
        assert set(await groups.table.views.configs_alone()) == {"unused", "in-the-cluster"}
        await trio.sleep(20)
        await forgetting(groups).delete_unused()
        assert set(await groups.table.views.configs_alone()) == {"in-the-cluster"}
        await trio.sleep(QUIET_S)
        assert set(await groups.table.views.groups_with_configs()) == {"used", "in-the-cluster"}


async def test_an_adopted_group_is_forgotten_after_a_while(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator may adopt it before its first member joins."""
    monkeypatch.setattr(module, "UNUSED_MS_MAX", 20_000)
    async with hosted_groups() as groups:
        await groups.table.drivers.ask("adopted", lambda token, _: ClaimReceived(token=token))
        assert groups.table.drivers.is_adopted("adopted")
        await trio.sleep(QUIET_S)
        cluster_knows(groups)
        await forgetting(groups).delete_unused()
        assert groups.table.drivers.is_adopted("adopted")
        await trio.sleep(20)
        await forgetting(groups).delete_unused()
        await trio.sleep(QUIET_S)
        assert await groups.table.views.group_ids() == ()
        assert not groups.table.drivers.is_adopted("adopted")


async def test_the_age_of_configs_survives_restarts(autojump_clock: MockClock) -> None:
    """The age counts from the last change of the group or its configs, by any process."""
    log = ScriptedLog()
    async with hosted_groups(log=log) as groups:
        await set_config(groups, "old")
        await set_config(groups, "changed")
        await trio.sleep(QUIET_S)
    for group in ("old", "changed"):
        last = log.last_events(group)
        assert last is not None
        await log.append(group, [replace(last, at_ms=last.at_ms - UNUSED_MS_MAX)])
    async with hosted_groups(log=log) as groups:
        cluster_knows(groups)
        await groups.table.resume()
        await set_config(groups, "changed", "51000")
        await trio.sleep(QUIET_S)
        await forgetting(groups).delete_unused()
        assert set(await log.configs_alone()) == {"changed"}


async def test_configs_of_nonexistent_groups_are_limited(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Configs of existing groups do not count, and stored ones can be changed."""
    monkeypatch.setattr(config_apis, "CONFIGS_ALONE_MAX", 1)
    async with hosted_groups() as groups:
        configs = ConfigApis(groups.table, ShareRule())
        await groups.native("n", group="live")
        codes = [
            await alter_config(configs, group)
            for group in ("live", "first", "second", "first", "live")
        ]
        assert codes == [0, 0, ErrorCode.INVALID_REQUEST, 0, 0]


async def test_configs_of_one_client_leave_room_for_others(autojump_clock: MockClock) -> None:
    """A client may set configs of groups that do not exist."""
    async with hosted_groups() as groups:
        configs = ConfigApis(groups.table, ShareRule(per_address=1))
        codes = [await alter_config(configs, group) for group in ("first", "second", "first")]
        assert codes == [0, ErrorCode.INVALID_REQUEST, 0]
        assert await alter_config(configs, "second", "10.0.0.2") == 0
