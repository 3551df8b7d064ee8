"""The parts of a group, as its calls and its move see them."""

from gateway.events.group_events import ReleaseStarted
from gateway.hosting.effects import EmitNow, Log
from gateway.hosting.group_parts import GroupParts
from tests.support.hosted_scene import HostedScene


def test_lines_keep_their_order_with_events() -> None:
    group = HostedScene().group
    parts = GroupParts(
        routing=group.routing,
        engine=group.engine,
        anchor=group.anchor,
        joined_on=group.joined_on,
        committed_on=group.committed_on,
    )
    parts.log("warning", "release_resumed", members=2)
    parts.emit(ReleaseStarted(members=2))
    assert parts.effects == [
        Log("warning", "release_resumed", {"members": 2}),
        EmitNow(ReleaseStarted(members=2)),
    ]
