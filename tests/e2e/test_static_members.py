"""Members with a group.instance.id: whoever comes with it takes the place over."""

from pathlib import Path

from tests.support.clients import Client
from tests.support.group_stage import RATE, open_group

CLASSIC = Client(library="librdkafka", assignor="range")
NATIVE = Client(library="librdkafka", protocol="consumer")
STATIC = "--static"

# Each of the killed had consumed for a second or more since its last commit.
AGAIN_MAX = 6 * RATE


async def test_a_killed_static_member_is_replaced_at_once(
    tmp_path: Path,
) -> None:
    """Classic by classic, classic by native, native by classic: nobody waits for a session."""
    async with open_group(tmp_path) as group:
        for name in ("a", "b"):
            await group.join(name, CLASSIC, STATIC)
        await group.settled("classic")
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
            await group.settled("consumer" if kind == "consumer" else "classic")
        await group.end()
        assert group.conversions() == ["classic->consumer", "consumer->classic"]
        assert group.gateway.events("member_fenced") == []
        assert group.ledger.delivered_again() <= AGAIN_MAX
