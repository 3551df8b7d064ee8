"""A member whose session has expired, and that does not know it yet."""

from pathlib import Path

import pytest

from tests.support.clients import Client
from tests.support.group_stage import RATE, GroupStage, open_group

CLASSIC = Client(library="librdkafka", assignor="range")
NATIVE = Client(library="librdkafka", protocol="consumer")
AGAIN_MAX = 3 * RATE


async def outlive_session(group: GroupStage) -> None:
    """Pause a member until it is fenced and others have its partitions, then let it return."""
    await group.wait_until_settled("consumer")
    await group.progress()
    group.members["paused"].child.pause()
    await group.gateway.until_event("member_fenced")
    await group.progress(2 * RATE)
    group.members["paused"].child.resume()
    await group.wait_until_settled("consumer")
    await group.end()


@pytest.mark.parametrize("paused", [CLASSIC, NATIVE], ids=lambda client: client.protocol)
async def test_a_paused_member_of_a_mixed_group_is_fenced_and_returns(
    paused: Client, tmp_path: Path
) -> None:
    """Its partitions go to others. It gives them up as lost, without committing over the new
    owners."""
    async with open_group(tmp_path) as group:
        await group.join("a", CLASSIC)
        await group.join("b", NATIVE)
        await group.join("paused", paused)
        await outlive_session(group)
        assert len(group.gateway.events("member_fenced")) == 1
        assert group.ledger.held_after_fencing()
        assert group.ledger.delivered_again() <= AGAIN_MAX, group.troubles


async def test_the_only_native_member_returns_from_a_pause(tmp_path: Path) -> None:
    """The group is classic by then, and converts again, so the first consumer of a roll survives a
    closed laptop. (Kafka's GROUP_ID_NOT_FOUND would end it.)"""
    async with open_group(tmp_path) as group:
        await group.join("a", CLASSIC)
        await group.join("paused", NATIVE)
        await outlive_session(group)
        assert group.ledger.delivered_again() <= AGAIN_MAX, group.troubles
