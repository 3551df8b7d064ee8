"""Groups of real clients of many libraries, through the conversion and back.

What holds after each step is checked by `GroupStage.settled` (every partition owned, by the member
that the gateway says), what holds for the whole run by `GroupStage.end` (nothing lost, nothing
owned twice, all committed in the cluster itself).
"""

from pathlib import Path

import pytest

from gateway.demo.group_view import Protocol
from tests.support.clients import Client
from tests.support.group_stage import RATE, GroupStage, open_group

NATIVE = Client(library="librdkafka", protocol="consumer")
NATIVE_IN_NODE = Client(library="platformatic", protocol="consumer")
NATIVE_IN_JAVA = Client(library="java", protocol="consumer")
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
        (Client(library="java", assignor="range,cooperative-sticky"), 0),
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


@pytest.mark.usefixtures("node_clients")
async def test_five_libraries_share_one_group(tmp_path: Path) -> None:
    """They have one assignor's name in common; each goes and comes while the group is mixed."""
    clients = {
        "librdkafka": Client(library="librdkafka", assignor="range,roundrobin"),
        "kafka-python": Client(library="kafka-python", assignor="range,roundrobin"),
        "aiokafka": Client(library="aiokafka", assignor="roundrobin"),
        "kafkajs": Client(library="kafkajs", assignor="roundrobin"),
        "platformatic": Client(library="platformatic", assignor="roundrobin"),
    }
    async with open_group(tmp_path) as group:
        for name, client in clients.items():
            await group.join(name, client)
        await settle(group, "classic")
        await group.join("native", NATIVE)
        await settle(group, "consumer")
        for name, client in clients.items():
            await group.leave(name)
            await settle(group, "consumer")
            await group.join(name, client)
            await settle(group, "consumer")
        await group.leave("native")
        await settle(group, "classic")
        await group.end()
        assert group.conversions() == THERE_AND_BACK
        assert group.ledger.delivered_again() <= AGAIN_MAX, group.troubles


@pytest.mark.parametrize(
    ("native", "classic"),
    [
        (NATIVE_IN_NODE, Client(library="librdkafka", assignor="range")),
        (NATIVE_IN_NODE, Client(library="platformatic", assignor="roundrobin")),
        (NATIVE_IN_JAVA, Client(library="kafka-python", assignor="range")),
        (NATIVE_IN_JAVA, Client(library="java", assignor="cooperative-sticky")),
    ],
    ids=named,
)
async def test_a_native_member_of_another_library_converts_the_group(
    native: Client, classic: Client, tmp_path: Path
) -> None:
    """@platformatic/kafka and Java speak KIP-848 with code that is not librdkafka's."""
    async with open_group(tmp_path) as group:
        await group.join("a", classic)
        await settle(group, "classic")
        await group.join("native", native)
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


@pytest.mark.usefixtures("java_client")
async def test_a_roll_from_classic_to_native_and_back_in_one_library(tmp_path: Path) -> None:
    """The same service, restarted member by member with another setting, and then back.

    Scenario 71, with the tests above and test_static_members.py; with versions of today only.
    """
    classic = Client(library="java", assignor="cooperative-sticky")
    async with open_group(tmp_path) as group:
        for name in ("a", "b"):
            await group.join(name, classic)
        await settle(group, "classic")
        for client, kinds in (
            (NATIVE_IN_JAVA, ("consumer", "consumer")),
            (classic, ("consumer", "classic")),
        ):
            for name, kind in zip(("a", "b"), kinds, strict=True):
                await group.leave(name)
                await group.join(name, client)
                await settle(group, "consumer" if kind == "consumer" else "classic")
        await group.end()
        assert group.conversions() == THERE_AND_BACK
        assert group.ledger.delivered_again() == 0, group.troubles
