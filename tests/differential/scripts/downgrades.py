"""The last native member leaves (rule 6; scenarios 49 to 59)."""

from unittest.mock import ANY

from kafka_codecs.error_codes import ErrorCode
from tests.support.differential.both_sides import TOLD, BothSides, Owned
from tests.support.differential.deviations import UNKNOWN_NATIVE, Deviation, Unlike
from tests.support.differential.profiles import DOWNGRADE, MAIN, TIGHT
from tests.support.differential.script import script

ALL_FOO: Owned = {"foo": (0, 1, 2)}


async def settled_mixed_group(both: BothSides) -> None:
    """A has its share as a classic member, N as a native one, and both have settled."""
    await both.enter({"A": ALL_FOO})
    await both.native("N", 0)
    await both.join("A")
    await both.sync("A")
    await both.full("N")


@script(MAIN, DOWNGRADE)
async def the_last_native_member_leaves(both: BothSides) -> None:
    if both.profile is DOWNGRADE:
        await both.native("N", 0)
        await both.join("A", "A")
        await both.sync("A")
        await both.native("N", owned=ALL_FOO)
        await both.native("N", owned={"foo": (2,)})
        await both.join("A")
        await both.sync("A")
    else:
        await settled_mixed_group(both)
    await both.native("N", -1)
    await both.list()
    await both.describe_classic()
    await both.beat("A", error=ErrorCode.REBALANCE_IN_PROGRESS)
    await both.sync("A", error=ErrorCode.REBALANCE_IN_PROGRESS)
    await both.commit("A", {"foo": {0: 4}}, error=0)
    await both.native("N", 2, unlike=UNKNOWN_NATIVE)
    await both.native("N", -1)
    await both.join("A")
    await both.sync("A", {"A": ALL_FOO})
    await both.beat("A")
    await both.native("N", 0)
    await both.beat("A")
    await both.list()


@script()
async def back_and_forth(both: BothSides) -> None:
    await settled_mixed_group(both)
    for _ in range(3):
        await both.native("N", -1)
        await both.join("A")
        await both.sync("A", {"A": ALL_FOO})
        await both.native("N", 0)
        await both.beat("A", error=ErrorCode.REBALANCE_IN_PROGRESS)
        await both.join("A")
        await both.sync("A")
        await both.full("N")
        await both.describe()
    await both.commit("A", {"foo": {0: 4}})
    await both.leave("A")
    await both.full("N")
    await both.describe()


@script()
async def a_batch_removes_the_native_members_and_some_classic_ones(both: BothSides) -> None:
    await both.enter({"A": ALL_FOO, "B": {}})
    await both.native("N", 0)
    await both.native("M", 0)
    await both.leave("N", "B", "M", "nobody")
    await both.list()
    await both.join("A")
    await both.sync("A", {"A": ALL_FOO})
    await both.describe_classic()


@script()
async def all_members_are_removed_at_once(both: BothSides) -> None:
    await settled_mixed_group(both)
    await both.leave("A", "N")
    await both.list()
    await both.describe(unlike=Unlike.empty_group(group_epoch=3, assignment_epoch=2))
    await both.join("B")
    await both.list()
    await both.join("B", unlike=Unlike.epoch("generation_id", kafka=1, gateway=4))
    await both.sync("B", {"B": ALL_FOO})
    await both.describe_classic()


@script(DOWNGRADE)
async def no_way_back_up(both: BothSides) -> None:
    await both.native("N", 0)
    await both.join("A", "A")
    await both.native("N", -1)
    await both.join("A")
    await both.sync("A", {"A": ALL_FOO})
    await both.native("N", 0, error=ErrorCode.GROUP_ID_NOT_FOUND)
    await both.native("N", 0, instance="i1", error=ErrorCode.GROUP_ID_NOT_FOUND)
    await both.beat("A", error=0)


@script(DOWNGRADE)
async def too_many_for_a_classic_group(both: BothSides) -> None:
    await both.native("N", 0)
    await both.join("A", "A")
    await both.join("B", "B")
    await both.native("N", -1)
    aligned = Unlike(
        deviation=Deviation.TARGET_BY_ITSELF, kafka={"groups": ANY}, gateway={"groups": ANY}
    )
    await both.describe(unlike=aligned)


@script(TIGHT)
async def the_sessions_of_the_native_members_end(both: BothSides) -> None:
    await both.native("N", 0)
    await both.join("A", "A", topics=["bar"])
    await both.sync("A")
    await both.sleep(4)
    await both.list()
    lags = Unlike.error(Deviation.LAGGARD, kafka=22, gateway=27)
    await both.beat("A", unlike=lags)


@script(TIGHT)
async def too_many_for_a_consumer_group(both: BothSides) -> None:
    for who in "ABC":
        await both.join(who, version=3)
    for who in "ABC":
        await both.answers(who)
    for who in "ABC":
        await both.sync(who, {"A": ALL_FOO, "B": {}, "C": {}})
    await both.native("N", 0, error=ErrorCode.GROUP_ID_NOT_FOUND)
    await both.beat("A", error=0)
    await both.join("D", version=3, error=ErrorCode.GROUP_MAX_SIZE_REACHED)
    await both.join("D", error=ErrorCode.GROUP_MAX_SIZE_REACHED)
    await both.join("D", instance="i1", error=ErrorCode.GROUP_MAX_SIZE_REACHED)
    await both.join("D", "made-up", error=ErrorCode.GROUP_MAX_SIZE_REACHED)
    await both.leave("C")
    await both.beat("A", error=ErrorCode.REBALANCE_IN_PROGRESS)


@script()
async def members_of_several_protocols_come_back(both: BothSides) -> None:
    await both.native("N", 0)
    await both.join("A", "A", protocol="range")
    await both.sync("A")
    await both.native("N", owned=TOLD)
    await both.native("N", -1)
    await both.join("B", protocol="sticky", error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    await both.join("B", version=3)
    await both.join("A")
    await both.list()
