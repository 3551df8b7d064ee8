"""The gateway of the demo."""

from functools import partial
from pathlib import Path

import pytest
import trio

from coordinator.interface.config import GroupConfig
from gateway.demo.gateway import run_demo_gateway
from gateway.events.event import Envelope
from tests.support.group_client import group_client
from tests.support.mock_cluster import running_mock_cluster


async def test_the_demos_gateway_reports_a_listener_and_ends_when_cancelled(
    tmp_path: Path,
) -> None:
    """The system chooses its ports."""
    events: list[Envelope] = []
    async with running_mock_cluster(3) as upstream, trio.open_nursery() as nursery:
        bootstrap: str = await nursery.start(
            partial(run_demo_gateway, state_dir=tmp_path),
            upstream.bootstrap_servers,
            GroupConfig(),
            events.append,
        )
        host, _, port = bootstrap.rpartition(":")
        async with group_client((host, int(port)), "g") as client:
            assert (await client.native("n")).error_code == 0
        names = [envelope.event for envelope in events]
        assert names[0] == "gateway_started"
        assert {"group_created", "member_joined"} <= set(names)
        nursery.cancel_scope.cancel()
    with pytest.raises(OSError, match="all attempts to connect"):
        await trio.open_tcp_stream(host, int(port))
