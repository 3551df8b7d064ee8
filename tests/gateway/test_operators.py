"""What operators get of a whole gateway."""

from functools import partial
from pathlib import Path

import pytest
import trio

from gateway.board import lag_watch
from gateway.board.steps import Steps
from gateway.board.views import Events, GatewayLine, GroupList, GroupPage
from gateway.control.client import fetch_view, give
from gateway.control.control_socket import NoControlSocket
from gateway.control.messages import (
    AdoptCommand,
    DescribeGateway,
    DescribeGroup,
    LatestEvents,
    ListGroups,
    PauseCommand,
)
from gateway.events.event import GatewayEvent
from gateway.events.group_events import ClientFlapped
from gateway.hosting.states import AnchorPhase
from gateway.operators import OperatorsConfig
from kafka_codecs.api_keys import ApiKey
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.header import RequestHeader
from kafka_codecs.join_group import JoinGroupResponse
from tests.support.fake_broker import answer
from tests.support.gateway import whole_gateway
from tests.support.group_client import group_client
from tests.support.guarded_broker import GuardedBroker, native_join
from tests.support.mock_cluster import running_mock_cluster
from tests.support.offset_stage import offset_stage
from tests.support.until import until, until_answered
from tests.support.wire import Wire


async def test_operators_see_groups_gateway_and_commands(tmp_path: Path) -> None:
    """At the control socket, until the gateway stops."""
    config = OperatorsConfig(control_folder=tmp_path)
    async with (
        running_mock_cluster(1) as upstream,
        whole_gateway(upstream.bootstrap, operators=config) as gateway,
        group_client(gateway.address, "readers") as client,
    ):
        with trio.fail_after(20):
            await client.join()
            line = (await fetch_view(tmp_path, ListGroups(), GroupList)).groups[0]
            page = await fetch_view(tmp_path, DescribeGroup(group_id="readers"), GroupPage)
            whole = await fetch_view(tmp_path, DescribeGateway(), GatewayLine)
            outcome = await give(tmp_path, AdoptCommand(group_id="readers", dry_run=True))
            events = await fetch_view(tmp_path, LatestEvents(group_id="readers"), Events)
            gateway.stop.set()
            await gateway.ended.wait()
            with pytest.raises(NoControlSocket):
                await fetch_view(tmp_path, ListGroups(), GroupList)
    assert (line.group_id, line.mode, line.type) == ("readers", "hosted", "classic")
    assert page.group_id == "readers"
    assert whole.readiness.is_ready
    assert whole.bootstrap == gateway.bootstrap_servers
    assert whole.connections >= 1
    assert not outcome.is_adopted
    assert '"command_given"' in events.events[-1].line


@pytest.mark.parametrize("joins", ["classic", "native"])
async def test_a_new_group_whose_anchor_is_refused_says_so(tmp_path: Path, joins: str) -> None:
    """The group has no member yet, because the first one waits for the anchor. A native one leaves
    no trace meanwhile."""
    broker = GuardedBroker()

    async def refuse(wire: Wire, header: RequestHeader, _body: bytes) -> None:
        refused = JoinGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        await answer(wire, header, refused)

    async def lines() -> GroupList:
        return await fetch_view(tmp_path, ListGroups(), GroupList)

    async def describe() -> GroupPage:
        return await fetch_view(tmp_path, DescribeGroup(group_id="g"), GroupPage)

    broker.handlers[ApiKey.JOIN_GROUP] = refuse
    operators = OperatorsConfig(control_folder=tmp_path)
    async with offset_stage(broker, operators=operators) as stage, trio.open_nursery() as nursery:
        native = partial(native_join, stage, "numbers")
        nursery.start_soon(native if joins == "native" else stage.client.join)
        reason = "held back: the anchor rejoins: its coordinator gave no usable answer"
        await until_answered(
            lines, lambda answer: [group.blocker for group in answer.groups] == [reason]
        )
        # Between its attempts, each of which begins with another JoinGroup.
        page = await until_answered(describe, lambda answer: answer.anchor == AnchorPhase.LOST)
        assert (page.blocker, page.members) == (reason, 0)
        nursery.cancel_scope.cancel()


async def test_a_group_that_becomes_worse_is_held_but_no_pause_is_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If that is wished. The event names the reason."""
    regressions: list[tuple[str, GatewayEvent]] = []
    monkeypatch.setattr(lag_watch, "MEASURE_INTERVAL_S", 0.05)
    monkeypatch.setattr(Steps, "judge", lambda *_: [regressions.pop()] if regressions else [])
    flapped = ("readers", ClientFlapped(client_id="c", switches=3, protocol="classic"))

    async def page() -> GroupPage:
        return await fetch_view(tmp_path, DescribeGroup(group_id="readers"), GroupPage)

    config = OperatorsConfig(control_folder=tmp_path, hold_on_regression=True)
    async with (
        running_mock_cluster(1) as upstream,
        whole_gateway(upstream.bootstrap, operators=config) as gateway,
        group_client(gateway.address, "readers") as client,
    ):
        with trio.fail_after(30):
            await client.join()
            regressions.append(flapped)
            await until_answered(page, lambda shown: shown.policy == "hold")
            events = await fetch_view(tmp_path, LatestEvents(group_id="readers"), Events)
            assert "hold_on_regression: client_flapped" in events.events[-1].line
            await give(tmp_path, PauseCommand(group_id="readers"))
            regressions.append(flapped)
            await until(lambda: not regressions)
            assert (await page()).policy == "pause"
