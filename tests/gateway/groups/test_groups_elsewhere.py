"""The groups of other machines in the list of a gateway."""

from collections.abc import Sequence

import pytest
import trio

from gateway.cluster.access import PLAIN_ACCESS
from gateway.fleet.seated_member import FLEET_CLIENT_ID, SeatedMember
from gateway.fleet.table import FleetTable, GatewayAddress, Seat
from gateway.groups import groups_elsewhere
from gateway.groups.groups_elsewhere import GroupElsewhere, GroupsElsewhere
from kafka_codecs.apis import ApiKey
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.list_groups import ListedGroup, ListGroupsResponse
from tests.support.fake_broker import KAFKA_3, FakeBroker, replying, running_fake_broker

OWN, OTHER, SAME_MACHINE = range(3)
LISTED = (
    ListedGroup(group_id="a", protocol_type="consumer", group_state="Stable", group_type="classic"),
    ListedGroup(group_id="b", protocol_type="consumer", group_state="Empty", group_type="consumer"),
    ListedGroup(group_id="c", protocol_type="consumer"),
)
AT_OTHER = "g1 at {}:1"


def table_beside(address: tuple[str, int], owners: Sequence[int]) -> FleetTable:
    """Two gateways here, and another one at this address."""
    host, port = address
    return FleetTable(
        generation=1,
        log_id="log",
        first_run=0,
        seats=tuple(
            Seat(
                name=f"g{slot}",
                member_id=f"g{slot}-id",
                stamp="0",
                slot=slot,
                address=GatewayAddress(host=host, port=slot if slot == OTHER else OWN),
                process=1 if slot == SAME_MACHINE else 0,
                node_ports={1: port},
            )
            for slot in (OWN, OTHER, SAME_MACHINE)
        ),
        owners=tuple(owners),
    )


def groups_beside(address: tuple[str, int]) -> tuple[SeatedMember, GroupsElsewhere]:
    """The view of a gateway that asks another one at this address, which has the only shard."""
    table = table_beside(address, (OTHER,))
    member = SeatedMember(slot=OWN, slots=2, shards=1, owners=[OTHER], table=table)
    return member, GroupsElsewhere(member, PLAIN_ACCESS, lambda: (1,))


def listing(error: ErrorCode = ErrorCode.NONE) -> FakeBroker:
    """Another gateway with three groups."""
    answer = ListGroupsResponse(error_code=error, groups=LISTED)
    return FakeBroker(
        versions={**KAFKA_3, ApiKey.LIST_GROUPS: (0, 5)},
        handlers={ApiKey.LIST_GROUPS: replying(lambda _request: answer)},
    )


async def test_groups_of_another_machine_are_listed_with_the_gateway_that_has_them() -> None:
    """The other one is asked as by a gateway, once for all looks of some seconds."""
    async with running_fake_broker(listing()) as gateway:
        _member, groups = groups_beside(gateway.address)
        at_other = AT_OTHER.format(gateway.address[0])
        for _ in range(2):
            assert await groups.list_groups() == {
                "a": GroupElsewhere(at_other, "classic", "Stable"),
                "b": GroupElsewhere(at_other, "consumer", "Empty"),
                "c": GroupElsewhere(at_other, None, ""),
            }
        assert groups.trouble_of(OTHER) == ""
        asked = [header for header in gateway.seen if header.api_key == ApiKey.LIST_GROUPS]
        assert [header.client_id for header in asked] == [FLEET_CLIENT_ID]


async def test_a_group_that_has_moved_is_no_longer_listed_as_its_last_gateways() -> None:
    """Wherever it is now."""
    async with running_fake_broker(listing()) as gateway:
        member, groups = groups_beside(gateway.address)
        assert await groups.list_groups()
        for owner in (OWN, SAME_MACHINE):
            member.learn_owners([owner])
            assert await groups.list_groups() == {}


async def test_a_gateway_that_cannot_be_asked_keeps_its_latest_list(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Operators are told why. One that refuses the list has none."""
    monkeypatch.setattr(groups_elsewhere, "FRESH_FOR_S", 0.0)
    async with running_fake_broker(listing()) as gateway:
        _member, groups = groups_beside(gateway.address)
        before = await groups.list_groups()
        assert before
    assert await groups.list_groups() == before
    assert "cannot connect" in groups.trouble_of(OTHER)
    async with running_fake_broker(listing(ErrorCode.COORDINATOR_NOT_AVAILABLE)) as gateway:
        _member, groups = groups_beside(gateway.address)
        assert await groups.list_groups() == {}
        assert groups.trouble_of(OTHER) == "it answers COORDINATOR_NOT_AVAILABLE"


async def test_a_silent_gateway_delays_a_look_for_a_moment_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its machine may be silent as a whole."""
    monkeypatch.setattr(groups_elsewhere, "WAIT_S", 0.05)

    async def stay_silent(*_request: object) -> None:
        await trio.sleep_forever()

    silent = FakeBroker(
        versions={**KAFKA_3, ApiKey.LIST_GROUPS: (0, 5)},
        handlers={ApiKey.LIST_GROUPS: stay_silent},
    )
    with trio.fail_after(10):
        async with running_fake_broker(silent) as gateway:
            _member, groups = groups_beside(gateway.address)
            assert await groups.list_groups() == {}
            assert groups.trouble_of(OTHER) == "no answer in 0.05 s"
