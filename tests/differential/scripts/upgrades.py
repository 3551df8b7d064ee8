"""A native member joins a classic group (rule 4; scenarios 1 to 18)."""

from unittest.mock import ANY

from kafka_codecs.error_codes import ErrorCode
from tests.support.differential.both_sides import BothSides, Owned
from tests.support.differential.deviations import Deviation, Unlike
from tests.support.differential.profiles import DISABLED, DOWNGRADE, MAIN, UPGRADE
from tests.support.differential.script import script
from tests.support.group_values import embedded_assignment, subscription

ALL_FOO: Owned = {"foo": (0, 1, 2)}


@script(MAIN)
async def stable_group_of_one_upgrades(both: BothSides) -> None:
    await both.enter({"A": ALL_FOO})
    await both.commit("A", {"foo": {0: 5}})
    await both.native("N", 0)
    await both.list()
    await both.beat("A", generation=2)
    await both.beat("A", error=ErrorCode.REBALANCE_IN_PROGRESS)
    await both.sync("A", error=ErrorCode.REBALANCE_IN_PROGRESS)
    await both.join("A")
    await both.sync("A")
    await both.beat("A")
    await both.full("N")
    await both.describe()
    await both.list()
    await both.fetch()


@script()
async def members_that_own_nothing_get_their_share_at_once(both: BothSides) -> None:
    await both.join("A")
    await both.join("A")
    await both.native("N", 0)
    await both.describe()
    await both.sync("A", error=ErrorCode.REBALANCE_IN_PROGRESS)
    await both.beat("A")
    await both.join("A")
    await both.sync("A")


@script()
async def parked_joins_are_asked_to_rejoin(both: BothSides) -> None:
    await both.enter({"A": ALL_FOO, "B": {}})
    await both.join("C")
    await both.join("C")
    assert both.is_parked("C")
    await both.native("N", 0)
    assert not both.is_parked("C")
    await both.describe()
    for who in "ABC":
        await both.beat(who)
        await both.join(who)
        await both.sync(who)


@script(UPGRADE, DOWNGRADE, DISABLED)
async def policies_and_groups_with_members(both: BothSides) -> None:
    await both.enter({"A": ALL_FOO})
    await both.native("N", 0)
    await both.beat("A")
    await both.join("A")
    await both.sync("A", {"A": ALL_FOO})
    await both.native("N", -1)
    if both.profile is UPGRADE:
        unlike = Unlike.error(Deviation.TARGET_BY_ITSELF, kafka=0, gateway=27)
        await both.beat("A", unlike=unlike)
    else:
        await both.beat("A", error=0)
        await both.list()


@script(MAIN, UPGRADE, DOWNGRADE, DISABLED)
async def an_empty_group_always_changes_kind(both: BothSides) -> None:
    await both.enter({"A": ALL_FOO})
    await both.commit("A", {"foo": {1: 7}})
    await both.leave("A")
    await both.list()
    await both.native("N", 0, unlike=Unlike.epoch("member_epoch", kafka=2, gateway=3))
    await both.fetch()
    await both.list()
    await both.native("N", -1)
    goes_on = Unlike(
        deviation=Deviation.EPOCHS_GO_ON, kafka={"groups": ANY}, gateway={"groups": ANY}
    )
    await both.describe(unlike=goes_on)
    await both.list()
    await both.join("A", "A")
    await both.join("B")
    await both.join("B", unlike=Unlike.epoch("generation_id", kafka=1, gateway=5))
    await both.sync("B", {"B": ALL_FOO})
    await both.fetch()
    await both.list()


@script(MAIN, UPGRADE, DOWNGRADE, DISABLED)
async def a_group_of_offsets_only_becomes_a_consumer_group(both: BothSides) -> None:
    await both.commit("nobody", {"foo": {0: 3}, "bar": {1: 4}}, member_id="", epoch=-1)
    await both.list()
    await both.native("N", 0)
    await both.fetch(of={"foo": (0, 1), "bar": (1,)})
    await both.describe()


@script()
async def custom_user_data_refuses_the_upgrade(both: BothSides) -> None:
    await both.join("A")
    await both.join("A")
    await both.sync("A", {"A": embedded_assignment(ALL_FOO, user_data=b"x")})
    await both.native("N", 0, error=ErrorCode.GROUP_ID_NOT_FOUND)
    await both.beat("A", error=0)
    await both.join("A")
    await both.sync("A", {"A": embedded_assignment(ALL_FOO, user_data=b"")})
    await both.native("N", 0, error=0)


@script()
async def malformed_assignment_refuses_the_upgrade(both: BothSides) -> None:
    await both.join("A")
    await both.join("A")
    for garbage in (b"\x00", b"\xff\xff\x00\x00", b"\x00\x01\x00\x00"):
        await both.sync("A", {"A": garbage})
        await both.native("N", 0, error=ErrorCode.GROUP_ID_NOT_FOUND)
        await both.beat("A", error=0)
        await both.join("A")
    await both.sync("A", {"A": b"\x00\x01\x00\x00\x00\x05"})
    refused = Unlike.error(Deviation.MALFORMED_BYTES, kafka=-1, gateway=69)
    await both.native("N", 0, unlike=refused)
    await both.beat("A", error=0)


@script()
async def a_subscription_without_its_last_field(both: BothSides) -> None:
    short = b"\x00\x01" + subscription(["foo"], version=0)[2:]
    await both.join("A", metadata=short)
    await both.join("A", metadata=short)
    await both.sync("A", {"A": ALL_FOO})
    refused = Unlike.error(Deviation.SHORT_SUBSCRIPTION, kafka=69, gateway=0)
    await both.native("N", 0, unlike=refused)


@script()
async def static_member_becomes_native_without_a_rebalance(both: BothSides) -> None:
    await both.enter({"A": ALL_FOO}, instance="i1")
    await both.native("N", 0, instance="i1")
    await both.describe()
    await both.beat("A", instance="i1")
    await both.beat("A")
    await both.native("N")
    await both.native("N", -2, instance="i1")
    await both.native("N2", 0, instance="i1")
    await both.describe()
    await both.join("C", instance="i1")
    await both.sync("C", instance="i1")
    await both.beat("C", instance="i1")
    await both.native("N2", unlike=Unlike.error(Deviation.OUTLIVED, kafka=69, gateway=82))
