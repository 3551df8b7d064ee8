"""Consumers that are killed during a roll."""

from pathlib import Path

import pytest

from tests.support.clients import Client
from tests.support.group_stage import RATE, open_group

CLASSIC = Client(library="librdkafka", assignor="range")
COOPERATIVE = Client(library="librdkafka", assignor="cooperative-sticky")
NATIVE = Client(library="librdkafka", protocol="consumer")

# The dead consumer committed every second, and its last report may have been lost.
AGAIN_MAX = 3 * RATE


@pytest.mark.parametrize("classic", [CLASSIC, COOPERATIVE], ids=["eager", "cooperative"])
async def test_a_classic_member_is_killed_during_the_conversion(
    classic: Client, tmp_path: Path
) -> None:
    """Its session expires in the consumer group, and the others get its share."""
    async with open_group(tmp_path) as group:
        for name in ("a", "b", "c"):
            await group.join(name, classic)
        await group.wait_until_settled("classic")
        await group.progress()
        await group.leave("a")
        await group.join("a", NATIVE)
        await group.gateway.until_event("group_converted")
        await group.kill("b")
        await group.wait_until_settled("consumer")
        await group.progress()
        await group.join("b", NATIVE)
        await group.wait_until_settled("consumer")
        await group.end()
        assert group.conversions() == ["classic->consumer"]
        assert group.ledger.delivered_again() <= AGAIN_MAX


async def test_the_only_native_member_of_a_mixed_group_is_killed(tmp_path: Path) -> None:
    """After its session has expired, the group is classic again, and the others notice nothing
    more."""
    async with open_group(tmp_path) as group:
        for name in ("a", "b"):
            await group.join(name, CLASSIC)
        await group.join("native", NATIVE)
        await group.wait_until_settled("consumer")
        await group.progress()
        await group.kill("native")
        await group.wait_until_settled("classic")
        await group.progress()
        await group.end()
        assert group.conversions()[-1] == "consumer->classic"
        assert group.ledger.delivered_again() <= AGAIN_MAX
