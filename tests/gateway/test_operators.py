"""What operators get of a whole gateway."""

from pathlib import Path

import pytest
import trio

from gateway.board.views import Events, GatewayLine, GroupPage, Groups
from gateway.control.client import give, look
from gateway.control.control_socket import NoControlSocket
from gateway.control.messages import (
    Adopt,
    DescribeGateway,
    DescribeGroup,
    LatestEvents,
    ListGroups,
)
from gateway.operators import OperatorsConfig
from tests.support.gateway import whole_gateway
from tests.support.group_client import group_client
from tests.support.mock_cluster import running_mock_cluster


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
            line = (await look(tmp_path, ListGroups(), Groups)).groups[0]
            page = await look(tmp_path, DescribeGroup(group_id="readers"), GroupPage)
            whole = await look(tmp_path, DescribeGateway(), GatewayLine)
            told = await give(tmp_path, Adopt(group_id="readers", dry_run=True))
            events = await look(tmp_path, LatestEvents(group_id="readers"), Events)
            gateway.stop.set()
            await gateway.ended.wait()
            with pytest.raises(NoControlSocket):
                await look(tmp_path, ListGroups(), Groups)
    assert (line.group_id, line.mode, line.type) == ("readers", "hosted", "classic")
    assert page.group_id == "readers"
    assert whole.readiness.is_ready
    assert whole.bootstrap == gateway.bootstrap_servers
    assert whole.connections >= 1
    assert not told.is_adopted
    assert '"command_given"' in events.events[-1].line
