"""The last native member leaves (rule 6; scenarios 49 to 59)."""

from unittest.mock import ANY

from kafka_codecs.error_codes import ErrorCode
from tests.support.differential.deviations import UNKNOWN_NATIVE, Deviation, Unlike
from tests.support.differential.duel import TOLD, Duel, Owned
from tests.support.differential.profiles import DOWNGRADE, MAIN, TIGHT
from tests.support.differential.script import script

ALL_FOO: Owned = {"foo": (0, 1, 2)}


async def settled_mixed_group(duel: Duel) -> None:
    """A has its share as a classic member, N as a native one, and both have settled."""
    await duel.enter({"A": ALL_FOO})
    await duel.native("N", 0)
    await duel.join("A")
    await duel.sync("A")
    await duel.full("N")


@script(MAIN, DOWNGRADE)
async def the_last_native_member_leaves(duel: Duel) -> None:
    if duel.profile is DOWNGRADE:
        await duel.native("N", 0)
        await duel.join("A", "A")
        await duel.sync("A")
        await duel.native("N", owned=ALL_FOO)
        await duel.native("N", owned={"foo": (2,)})
        await duel.join("A")
        await duel.sync("A")
    else:
        await settled_mixed_group(duel)
    await duel.native("N", -1)
    await duel.list()
    await duel.describe_classic()
    await duel.beat("A", error=ErrorCode.REBALANCE_IN_PROGRESS)
    await duel.sync("A", error=ErrorCode.REBALANCE_IN_PROGRESS)
    await duel.commit("A", {"foo": {0: 4}}, error=0)
    await duel.native("N", 2, unlike=UNKNOWN_NATIVE)
    await duel.native("N", -1)
    await duel.join("A")
    await duel.sync("A", {"A": ALL_FOO})
    await duel.beat("A")
    await duel.native("N", 0)
    await duel.beat("A")
    await duel.list()


@script()
async def back_and_forth(duel: Duel) -> None:
    await settled_mixed_group(duel)
    for _ in range(3):
        await duel.native("N", -1)
        await duel.join("A")
        await duel.sync("A", {"A": ALL_FOO})
        await duel.native("N", 0)
        await duel.beat("A", error=ErrorCode.REBALANCE_IN_PROGRESS)
        await duel.join("A")
        await duel.sync("A")
        await duel.full("N")
        await duel.describe()
    await duel.commit("A", {"foo": {0: 4}})
    await duel.leave("A")
    await duel.full("N")
    await duel.describe()


@script()
async def a_batch_removes_the_native_members_and_some_classic_ones(duel: Duel) -> None:
    await duel.enter({"A": ALL_FOO, "B": {}})
    await duel.native("N", 0)
    await duel.native("M", 0)
    await duel.leave("N", "B", "M", "nobody")
    await duel.list()
    await duel.join("A")
    await duel.sync("A", {"A": ALL_FOO})
    await duel.describe_classic()


@script()
async def all_members_are_removed_at_once(duel: Duel) -> None:
    await settled_mixed_group(duel)
    await duel.leave("A", "N")
    await duel.list()
    await duel.describe()
    await duel.join("B")
    await duel.list()
    await duel.join("B")
    await duel.sync("B", {"B": ALL_FOO})
    await duel.describe_classic()


@script(DOWNGRADE)
async def no_way_back_up(duel: Duel) -> None:
    await duel.native("N", 0)
    await duel.join("A", "A")
    await duel.native("N", -1)
    await duel.join("A")
    await duel.sync("A", {"A": ALL_FOO})
    await duel.native("N", 0, error=ErrorCode.GROUP_ID_NOT_FOUND)
    await duel.native("N", 0, instance="i1", error=ErrorCode.GROUP_ID_NOT_FOUND)
    await duel.beat("A", error=0)


@script(DOWNGRADE)
async def too_many_for_a_classic_group(duel: Duel) -> None:
    await duel.native("N", 0)
    await duel.join("A", "A")
    await duel.join("B", "B")
    await duel.native("N", -1)
    aligned = Unlike(
        deviation=Deviation.TARGET_BY_ITSELF, kafka={"groups": ANY}, gateway={"groups": ANY}
    )
    await duel.describe(unlike=aligned)


@script(TIGHT)
async def the_sessions_of_the_native_members_end(duel: Duel) -> None:
    await duel.native("N", 0)
    await duel.join("A", "A", topics=["bar"])
    await duel.sync("A")
    await duel.sleep(4)
    await duel.list()
    lags = Unlike.error(Deviation.LAGGARD, kafka=22, gateway=27)
    await duel.beat("A", unlike=lags)


@script(TIGHT)
async def too_many_for_a_consumer_group(duel: Duel) -> None:
    for who in "ABC":
        await duel.join(who, version=3)
    for who in "ABC":
        await duel.answers(who)
    for who in "ABC":
        await duel.sync(who, {"A": ALL_FOO, "B": {}, "C": {}})
    await duel.native("N", 0, error=ErrorCode.GROUP_ID_NOT_FOUND)
    await duel.beat("A", error=0)
    await duel.join("D", version=3, error=ErrorCode.GROUP_MAX_SIZE_REACHED)
    await duel.join("D", error=ErrorCode.GROUP_MAX_SIZE_REACHED)
    await duel.join("D", instance="i1", error=ErrorCode.GROUP_MAX_SIZE_REACHED)
    await duel.join("D", "made-up", error=ErrorCode.GROUP_MAX_SIZE_REACHED)
    await duel.leave("C")
    await duel.beat("A", error=ErrorCode.REBALANCE_IN_PROGRESS)


@script()
async def members_of_several_protocols_come_back(duel: Duel) -> None:
    await duel.native("N", 0)
    await duel.join("A", "A", protocol="range")
    await duel.sync("A")
    await duel.native("N", owned=TOLD)
    await duel.native("N", -1)
    await duel.join("B", protocol="sticky", error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    await duel.join("B", version=3)
    await duel.join("A")
    await duel.list()
