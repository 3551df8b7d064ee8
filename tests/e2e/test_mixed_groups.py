"""Groups of real clients of many libraries, through the conversion and back.

What holds after each step is checked by `GroupStage.settled` (every partition owned, by the member
that the gateway says), what holds for the whole run by `GroupStage.end` (nothing lost, nothing
owned twice, all committed in the cluster itself).
"""

from pathlib import Path
from typing import get_args

import pytest

from gateway.demo.group_view import Protocol
from tests.support.clients import Client, Library
from tests.support.group_stage import RATE, GroupStage, open_group

NATIVE = Client(library="librdkafka", protocol="consumer")
NATIVE_IN_NODE = Client(library="platformatic", protocol="consumer")
THERE_AND_BACK = ["generic->consumer", "consumer->generic"]

# A Node client goes on with what it has fetched while it already joins again, so a few records may
# come twice; all of them would if offsets were not resumed.
AGAIN_MAX = RATE


def named(client: object) -> str:
    """The name of a test parameter."""
    return f"{client.library}-{client.assignor}" if isinstance(client, Client) else str(client)


async def settle(group: GroupStage, protocol: Protocol) -> None:
    """Wait until the group is settled, of this kind, and its members consume."""
    await group.settled(protocol)
    await group.progress()


@pytest.mark.parametrize(
    ("client", "again_max"),
    [
        (Client(library="librdkafka", assignor="range"), 0),
        (Client(library="librdkafka", assignor="cooperative-sticky"), 0),
        (Client(library="kafka-python", assignor="range"), 0),
        (Client(library="kafka-python", assignor="cooperative-sticky"), 0),
        (Client(library="aiokafka", assignor="roundrobin"), 0),
        (Client(library="kafkajs", assignor="RoundRobinAssigner"), AGAIN_MAX),
        (Client(library="platformatic", assignor="roundrobin"), AGAIN_MAX),
    ],
    ids=named,
)
async def test_a_group_of_one_library_converts_and_comes_back(
    client: Client, again_max: int, tmp_path: Path
) -> None:
    """A native member joins two classic ones (generic -> consumer) and leaves again."""
    async with open_group(tmp_path) as group:
        await group.join("a", client)
        await group.join("b", client)
        await settle(group, "classic")
        await group.join("native", NATIVE)
        await settle(group, "consumer")
        await group.leave("native")
        await settle(group, "classic")
        await group.end()
        assert group.conversions() == THERE_AND_BACK
        assert group.ledger.delivered_again() <= again_max, group.troubles


async def test_five_libraries_share_one_group(tmp_path: Path) -> None:
    """With an assignor's name in common; each goes and comes while the group is mixed."""
    libraries = get_args(Library)
    assert len(libraries) == 5
    async with open_group(tmp_path) as group:
        for library in libraries:
            await group.join(library, Client(library=library, assignor="roundrobin"))
        await settle(group, "classic")
        await group.join("native", NATIVE)
        await settle(group, "consumer")
        for library in libraries:
            await group.leave(library)
            await settle(group, "consumer")
            await group.join(library, Client(library=library, assignor="roundrobin"))
            await settle(group, "consumer")
        await group.leave("native")
        await settle(group, "classic")
        await group.end()
        assert group.conversions() == THERE_AND_BACK
        assert group.ledger.delivered_again() <= AGAIN_MAX, group.troubles


@pytest.mark.parametrize(
    ("library", "assignor"),
    [("librdkafka", "range"), ("kafka-python", "range"), ("platformatic", "roundrobin")],
)
async def test_a_native_member_of_another_library_converts_the_group(
    library: Library, assignor: str, tmp_path: Path
) -> None:
    """@platformatic/kafka speaks KIP-848 with code that is not librdkafka's."""
    async with open_group(tmp_path) as group:
        await group.join("a", Client(library=library, assignor=assignor))
        await settle(group, "classic")
        await group.join("native", NATIVE_IN_NODE)
        await settle(group, "consumer")
        await group.join("other-native", NATIVE)
        await settle(group, "consumer")
        await group.leave("native")
        await settle(group, "consumer")
        await group.leave("other-native")
        await settle(group, "classic")
        await group.end()
        assert group.conversions() == THERE_AND_BACK
        assert group.ledger.delivered_again() <= AGAIN_MAX, group.troubles
