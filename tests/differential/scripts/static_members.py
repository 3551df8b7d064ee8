"""Static members of both protocols, in every combination (KIP-345; rules 2.3, 3.3, 3.10, 5.3)."""

from kafka_codecs.error_codes import ErrorCode
from tests.support.differential.both_sides import TOLD, BothSides, Owned
from tests.support.differential.deviations import Deviation, Unlike
from tests.support.differential.profiles import MAIN, TIGHT, UPGRADE
from tests.support.differential.script import script
from tests.support.group_values import subscription

ALL_FOO: Owned = {"foo": (0, 1, 2)}
RANGE = ("range", subscription(["foo"]))
ROUND_ROBIN = ("roundrobin", subscription(["foo"]))


@script()
async def a_classic_leader_restarts(both: BothSides) -> None:
    for version in (5, 6, 7, 8, 9):
        who = f"v{version}"
        await both.join(who, instance="i1", version=version)
        await both.sync(who, {who: ALL_FOO}, instance="i1")
        await both.describe_classic()


@script()
async def a_classic_follower_restarts(both: BothSides) -> None:
    await both.join("A", instance="i1", version=5)
    await both.join("B", instance="i2", version=5)
    await both.join("A", instance="i1")
    await both.sync("B", instance="i2")
    await both.sync("A", {"A": {"foo": [0]}, "B": {"foo": [1, 2]}}, instance="i1")
    for version in (5, 8, 9):
        await both.join(f"B{version}", instance="i2", version=version)
        await both.sync(f"B{version}", instance="i2")
    await both.beat("B", instance="i2", error=ErrorCode.FENCED_INSTANCE_ID)
    await both.beat("B", error=ErrorCode.UNKNOWN_MEMBER_ID)
    await both.sync("B", instance="i2", error=ErrorCode.FENCED_INSTANCE_ID)
    await both.join("B", "B", instance="i2")
    await both.commit("B", {"foo": {0: 1}}, instance="i2", error=ErrorCode.FENCED_INSTANCE_ID)
    await both.commit("B9", {"foo": {0: 1}}, instance="i2")
    await both.leave(("B", "i2"), ("", "i3"), ("nobody", None))
    await both.leave(("", "i2"))
    await both.beat("B9", instance="i2")
    await both.describe_classic()


@script()
async def restarts_with_other_topics(both: BothSides) -> None:
    await both.join("A", instance="i1", version=5)
    await both.sync("A", {"A": ALL_FOO}, instance="i1")
    rebalances = Unlike(
        deviation=Deviation.RESUBSCRIBED,
        kafka={"generation_id": 1, "skip_assignment": True},
        gateway={"generation_id": 2, "skip_assignment": False},
    )
    await both.join("A2", instance="i1", topics=["bar"], unlike=rebalances)


@script()
async def restarts_with_another_protocol(both: BothSides) -> None:
    await both.join("A", instance="i1", version=5)
    await both.sync("A", {"A": ALL_FOO}, instance="i1")
    await both.join("A2", instance="i1", protocol="roundrobin")
    await both.sync("A2", {"A2": ALL_FOO}, instance="i1", protocol="roundrobin")
    await both.describe_classic()


@script()
async def restarts_while_the_group_rebalances(both: BothSides) -> None:
    await both.join("A", instance="i1", version=5)
    await both.sync("A", {"A": ALL_FOO}, instance="i1")
    await both.join("B", instance="i2", version=5)
    assert both.is_parked("B")
    await both.join("B2", instance="i2")
    assert not both.is_parked("B")
    await both.join("A2", instance="i1")
    await both.sync("A2", instance="i1")
    await both.sync("B2", instance="i2")
    await both.join("A3", instance="i1")
    await both.join("B3", instance="i2")
    await both.sync("A3", {"A3": ALL_FOO}, instance="i1")
    await both.sync("B3", {"A3": ALL_FOO}, instance="i2")
    await both.describe_classic()


@script()
async def a_restart_that_changes_the_winning_protocol(both: BothSides) -> None:
    await both.join("A", instance="i1", version=5, protocols=[RANGE, ROUND_ROBIN])
    await both.sync("A", {"A": ALL_FOO}, instance="i1")
    await both.join("B", instance="i2", version=5, protocols=[RANGE, ROUND_ROBIN])
    await both.join("A", instance="i1", protocols=[RANGE, ROUND_ROBIN])
    await both.sync("A", {"A": ALL_FOO}, instance="i1")
    await both.sync("B", instance="i2")
    await both.join("B2", instance="i2", protocols=[ROUND_ROBIN], error=None)
    await both.beat("A", instance="i1")
    await both.join("A", instance="i1", protocols=[RANGE, ROUND_ROBIN])
    await both.sync("A", {"A": ALL_FOO}, instance="i1", protocol="roundrobin")
    await both.sync("B2", instance="i2", protocol="roundrobin")
    await both.describe_classic()


@script()
async def a_static_member_leaves_by_its_id_without_instance(both: BothSides) -> None:
    await both.join("A", instance="i1", version=5)
    await both.sync("A", {"A": ALL_FOO}, instance="i1")
    await both.beat("A")
    await both.join("A")
    await both.describe_classic()
    await both.sync("A", {"A": ALL_FOO})
    await both.leave("A", version=2)
    await both.describe_classic()


@script()
async def a_native_instance_is_in_use(both: BothSides) -> None:
    await both.native("N", 0, instance="i1")
    await both.native("N2", 0, instance="i1", error=ErrorCode.UNRELEASED_INSTANCE_ID)
    rejoined = Unlike(
        deviation=Deviation.REJOINED_INSTANCE,
        kafka={"error_code": ErrorCode.UNRELEASED_INSTANCE_ID},
        gateway={"error_code": ErrorCode.NONE},
    )
    await both.native("N", 0, instance="i1", unlike=rejoined)
    await both.native("N", 0)
    await both.native("N2", 2, instance="i1", error=ErrorCode.FENCED_INSTANCE_ID)
    await both.native("N2", 2, error=ErrorCode.UNKNOWN_MEMBER_ID)
    await both.native("N", 2, instance="i2", error=ErrorCode.UNKNOWN_MEMBER_ID)
    await both.native("N2", -1, instance="i1", error=ErrorCode.FENCED_INSTANCE_ID)
    await both.native("N2", -2, instance="i1", error=ErrorCode.FENCED_INSTANCE_ID)
    await both.native("N", -2, instance="i2", error=ErrorCode.UNKNOWN_MEMBER_ID)
    await both.native("N", -2, error=ErrorCode.INVALID_REQUEST)
    await both.native("N", -2, instance="i1", error=0)
    await both.native("N", 2)
    await both.native("N", 2, instance="i1")
    await both.native("N", -2, instance="i1")
    await both.describe()
    await both.native("N2", 0, instance="i1", error=0)
    await both.native("N", instance="i1", error=ErrorCode.FENCED_INSTANCE_ID)
    await both.describe()


@script()
async def a_native_member_comes_back(both: BothSides) -> None:
    await both.native("M", 0, instance="i0")
    await both.native("N", 0, instance="i1")
    await both.full("M")
    await both.full("N")
    await both.native("M", -2, instance="i0")
    await both.native("M2", 0, instance="i0")
    await both.describe()
    await both.native("N")
    await both.native("M2", -2, instance="i0")
    await both.native("M3", 0, instance="i0", topics=["foo", "bar"])
    await both.full("N")
    await both.full("M3", topics=["foo", "bar"])
    await both.describe()
    await both.native("M3", -1, instance="i0")
    await both.native("N", -1)
    await both.describe(unlike=Unlike.empty_group(group_epoch=6, assignment_epoch=4))


@script()
async def leaving_temporarily_and_permanently(both: BothSides) -> None:
    await both.native("M", 0, instance="i0")
    await both.native("N", 0, instance="i1")
    await both.native("M", -2, instance="i0")
    await both.native("M", -1, instance="i0")
    await both.full("N")
    await both.native("N", -2, instance="i1")
    await both.leave(("", "i1"))
    await both.describe(unlike=Unlike.empty_group(group_epoch=5, assignment_epoch=4))


@script()
async def a_member_takes_over_another_instance(both: BothSides) -> None:
    await both.native("M", 0, instance="i0")
    await both.native("N", 0, instance="i1")
    await both.native("M", -2, instance="i0")
    unlike = Unlike(
        deviation=Deviation.CHANGED_INSTANCE, kafka={"member_epoch": 3}, gateway={"member_epoch": 4}
    )
    await both.native("N", 0, instance="i0", unlike=unlike)


@script()
async def an_instance_comes_and_goes(both: BothSides) -> None:
    await both.native("N", 0)
    await both.native("N", 0, instance="i1")
    await both.describe()
    await both.native("N", instance="i1")
    await both.native("N", 0)
    await both.describe()
    await both.native("N", instance="i2")
    await both.native("M", 0, instance="i1")


@script(MAIN, UPGRADE)
async def classic_and_native_by_turns(both: BothSides) -> None:
    await both.join("A", instance="i1", version=5)
    await both.sync("A", {"A": ALL_FOO}, instance="i1")
    await both.native("N1", 0, instance="i1")
    await both.native("N0", 0, instance="i0")
    await both.native("N1", owned=TOLD)
    await both.full("N1")
    await both.join("B", instance="i1")
    await both.sync("B", instance="i1")
    await both.native("N1", instance="i1")
    await both.native("N1", unlike=Unlike.error(Deviation.OUTLIVED, kafka=25, gateway=82))
    await both.beat("B", instance="i1")
    await both.native("N2", 0, instance="i1")
    await both.describe()
    await both.beat("B", instance="i1", error=ErrorCode.FENCED_INSTANCE_ID)
    await both.join("C", instance="i1")
    await both.join("C", instance="i1")
    await both.sync("C", instance="i1")
    await both.join("D", instance="i0")
    await both.list()


@script()
async def the_last_native_instance_turns_classic_quietly(both: BothSides) -> None:
    await both.native("N", 0, instance="i1")
    await both.native("N")
    await both.join("A", instance="i1")
    await both.list()
    await both.sync("A", instance="i1")
    await both.beat("A", instance="i1")
    await both.describe_classic()
    fenced = Unlike.error(Deviation.OUTLIVED, kafka=69, gateway=82)
    await both.native("N", unlike=fenced)
    await both.native("N", instance="i1", unlike=fenced)
    await both.native("N2", 0, instance="i1")
    await both.native("N2")
    await both.describe()


@script()
async def the_last_native_instance_turns_classic_beside_others(both: BothSides) -> None:
    await both.join("A", instance="i1", version=5)
    await both.sync("A", {"A": ALL_FOO}, instance="i1")
    await both.native("N", 0, instance="i2")
    await both.beat("A", instance="i1")
    await both.join("A", instance="i1")
    await both.sync("A", instance="i1")
    await both.full("N")
    await both.describe()
    await both.join("B", instance="i2")
    await both.sync("B", instance="i2")
    await both.beat("A", instance="i1")
    await both.beat("B", instance="i2")
    await both.commit("A", {"foo": {0: 1}}, instance="i1")
    await both.list()


@script(TIGHT)
async def an_absent_static_member_expires(both: BothSides) -> None:
    await both.native("N", 0, instance="i1")
    await both.native("N", -2, instance="i1")
    await both.native("M", 0, instance="i1")
    await both.native("M", -2, instance="i1")
    await both.sleep(4)
    await both.describe(unlike=Unlike.empty_group(group_epoch=3, assignment_epoch=2))
    await both.native("M", 0, instance="i1")


@script()
async def a_static_join_with_an_id_to_a_consumer_group(both: BothSides) -> None:
    await both.native("N", 0)
    await both.join("A", "made-up", instance="i1", error=ErrorCode.UNKNOWN_MEMBER_ID)
    await both.join("A", instance="i1")
    await both.join("B", "made-up", instance="i1", error=ErrorCode.FENCED_INSTANCE_ID)
    await both.join("A", instance="i1")
    await both.join("A", topics=["foo", "bar"])
    await both.describe()
    await both.sync("A", instance="i1")
    await both.sync("A", instance="i2")
    await both.beat("A", instance="i2")
    await both.beat("A", member_id="other", instance="i1")
    await both.leave(("other", "i1"), ("A", "i2"), ("", "i1"), ("N", "i1"))
    await both.list()
