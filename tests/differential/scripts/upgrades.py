"""A native member joins a classic group (rule 4; scenarios 1 to 18)."""

from kafka_codecs.error_codes import ErrorCode
from tests.support.differential.deviations import UNKNOWN_NATIVE, Deviation, Unlike
from tests.support.differential.duel import Duel, Owned
from tests.support.differential.profiles import DISABLED, DOWNGRADE, MAIN, UPGRADE
from tests.support.differential.script import script
from tests.support.group_values import embedded_assignment, subscription

ALL_FOO: Owned = {"foo": (0, 1, 2)}


@script(MAIN)
async def stable_group_of_one_upgrades(duel: Duel) -> None:
    await duel.enter({"A": ALL_FOO})
    await duel.commit("A", {"foo": {0: 5}})
    await duel.native("N", 0)
    await duel.list()
    await duel.beat("A", generation=2)
    await duel.beat("A", error=ErrorCode.REBALANCE_IN_PROGRESS)
    await duel.sync("A", error=ErrorCode.REBALANCE_IN_PROGRESS)
    await duel.join("A")
    await duel.sync("A")
    await duel.beat("A")
    await duel.full("N")
    await duel.describe()
    await duel.list()
    await duel.fetch()


@script()
async def members_that_own_nothing_get_their_share_at_once(duel: Duel) -> None:
    await duel.join("A")
    await duel.join("A")
    await duel.native("N", 0)
    await duel.describe()
    await duel.sync("A", error=ErrorCode.REBALANCE_IN_PROGRESS)
    await duel.beat("A")
    await duel.join("A")
    await duel.sync("A")


@script()
async def parked_joins_are_asked_to_rejoin(duel: Duel) -> None:
    await duel.enter({"A": ALL_FOO, "B": {}})
    await duel.join("C")
    await duel.join("C")
    assert duel.is_parked("C")
    await duel.native("N", 0)
    assert not duel.is_parked("C")
    await duel.describe()
    for who in "ABC":
        await duel.beat(who)
        await duel.join(who)
        await duel.sync(who)


@script(UPGRADE, DOWNGRADE, DISABLED)
async def policies_and_groups_with_members(duel: Duel) -> None:
    await duel.enter({"A": ALL_FOO})
    await duel.native("N", 0)
    await duel.beat("A")
    await duel.join("A")
    await duel.sync("A", {"A": ALL_FOO})
    await duel.native("N", -1)
    if duel.profile is UPGRADE:
        told = Unlike.error(Deviation.TARGET_BY_ITSELF, kafka=0, gateway=27)
        await duel.beat("A", unlike=told)
    else:
        await duel.beat("A", error=0)
        await duel.list()


@script(MAIN, UPGRADE, DOWNGRADE, DISABLED)
async def an_empty_group_always_changes_kind(duel: Duel) -> None:
    await duel.enter({"A": ALL_FOO})
    await duel.commit("A", {"foo": {1: 7}})
    await duel.leave("A")
    await duel.list()
    await duel.native("N", 0)
    await duel.fetch()
    await duel.list()
    await duel.native("N", -1)
    await duel.describe()
    await duel.list()
    await duel.join("A", "A")
    await duel.join("B")
    await duel.join("B")
    await duel.sync("B", {"B": ALL_FOO})
    await duel.fetch()
    await duel.list()


@script(MAIN, UPGRADE, DOWNGRADE, DISABLED)
async def a_group_of_offsets_only_becomes_a_consumer_group(duel: Duel) -> None:
    await duel.commit("nobody", {"foo": {0: 3}, "bar": {1: 4}}, member_id="", epoch=-1)
    await duel.list()
    await duel.native("N", 0)
    await duel.fetch(of={"foo": (0, 1), "bar": (1,)})
    await duel.describe()


@script()
async def custom_user_data_refuses_the_upgrade(duel: Duel) -> None:
    await duel.join("A")
    await duel.join("A")
    await duel.sync("A", {"A": embedded_assignment(ALL_FOO, user_data=b"x")})
    await duel.native("N", 0, error=ErrorCode.GROUP_ID_NOT_FOUND)
    await duel.beat("A", error=0)
    await duel.join("A")
    await duel.sync("A", {"A": embedded_assignment(ALL_FOO, user_data=b"")})
    await duel.native("N", 0, error=0)


@script()
async def malformed_assignment_refuses_the_upgrade(duel: Duel) -> None:
    await duel.join("A")
    await duel.join("A")
    for garbage in (b"\x00", b"\xff\xff\x00\x00", b"\x00\x01\x00\x00"):
        await duel.sync("A", {"A": garbage})
        await duel.native("N", 0, error=ErrorCode.GROUP_ID_NOT_FOUND)
        await duel.beat("A", error=0)
        await duel.join("A")
    await duel.sync("A", {"A": b"\x00\x01\x00\x00\x00\x05"})
    refused = Unlike.error(Deviation.MALFORMED_BYTES, kafka=-1, gateway=69)
    await duel.native("N", 0, unlike=refused)
    await duel.beat("A", error=0)


@script()
async def a_subscription_without_its_last_field(duel: Duel) -> None:
    short = b"\x00\x01" + subscription(["foo"], version=0)[2:]
    await duel.join("A", metadata=short)
    await duel.join("A", metadata=short)
    await duel.sync("A", {"A": ALL_FOO})
    refused = Unlike.error(Deviation.SHORT_SUBSCRIPTION, kafka=69, gateway=0)
    await duel.native("N", 0, unlike=refused)


@script()
async def static_member_becomes_native_without_a_rebalance(duel: Duel) -> None:
    await duel.enter({"A": ALL_FOO}, instance="i1")
    await duel.native("N", 0, instance="i1")
    await duel.describe()
    await duel.beat("A", instance="i1")
    await duel.beat("A")
    await duel.native("N")
    await duel.native("N", -2, instance="i1")
    await duel.native("N2", 0, instance="i1")
    await duel.describe()
    await duel.join("C", instance="i1")
    await duel.sync("C", instance="i1")
    await duel.beat("C", instance="i1")
    await duel.native("N2", unlike=UNKNOWN_NATIVE)
