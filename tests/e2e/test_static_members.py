"""Members with a group.instance.id are replaced by the next process with the same id."""

from pathlib import Path

from tests.support.clients import Client
from tests.support.group_stage import RATE, open_group

CLASSIC = Client(library="librdkafka", assignor="range")
NATIVE = Client(library="librdkafka", protocol="consumer")
STATIC = "--static"

# Each killed member had consumed for a second or more since its last commit.
AGAIN_MAX = 6 * RATE


async def test_a_killed_static_member_is_replaced_at_once(
    tmp_path: Path,
) -> None:
    """Classic by classic, classic by native, and native by classic, without waiting for a
    session."""
    async with open_group(tmp_path) as group:
        for name in ("a", "b"):
            await group.join(name, CLASSIC, STATIC)
        await group.wait_until_settled("classic")
        for name, client, kind in (
            ("a", CLASSIC, "classic"),
            ("a", NATIVE, "consumer"),
            ("b", NATIVE, "consumer"),
            ("a", CLASSIC, "consumer"),
            ("b", CLASSIC, "classic"),
        ):
            await group.progress()
            await group.kill(name)
            await group.join(name, client, STATIC)
            await group.wait_until_settled("consumer" if kind == "consumer" else "classic")
        await group.end()
        assert group.conversions() == ["classic->consumer", "consumer->classic"]
        assert group.gateway.events("member_fenced") == []
        assert group.ledger.delivered_again() <= AGAIN_MAX
