"""Static members of both protocols, in every combination (KIP-345; rules 2.3, 3.3, 3.10, 5.3)."""

from kafka_codecs.error_codes import ErrorCode
from tests.support.differential.deviations import UNKNOWN_NATIVE, Deviation, Unlike
from tests.support.differential.duel import TOLD, Duel, Owned
from tests.support.differential.profiles import MAIN, TIGHT, UPGRADE
from tests.support.differential.script import script
from tests.support.group_values import subscription

ALL_FOO: Owned = {"foo": (0, 1, 2)}
RANGE = ("range", subscription(["foo"]))
ROUND_ROBIN = ("roundrobin", subscription(["foo"]))


@script()
async def a_classic_leader_restarts(duel: Duel) -> None:
    for version in (5, 6, 7, 8, 9):
        who = f"v{version}"
        await duel.join(who, instance="i1", version=version)
        await duel.sync(who, {who: ALL_FOO}, instance="i1")
        await duel.describe_classic()


@script()
async def a_classic_follower_restarts(duel: Duel) -> None:
    await duel.join("A", instance="i1", version=5)
    await duel.join("B", instance="i2", version=5)
    await duel.join("A", instance="i1")
    await duel.sync("B", instance="i2")
    await duel.sync("A", {"A": {"foo": [0]}, "B": {"foo": [1, 2]}}, instance="i1")
    for version in (5, 8, 9):
        await duel.join(f"B{version}", instance="i2", version=version)
        await duel.sync(f"B{version}", instance="i2")
    await duel.beat("B", instance="i2", error=ErrorCode.FENCED_INSTANCE_ID)
    await duel.beat("B", error=ErrorCode.UNKNOWN_MEMBER_ID)
    await duel.sync("B", instance="i2", error=ErrorCode.FENCED_INSTANCE_ID)
    await duel.join("B", "B", instance="i2")
    await duel.commit("B", {"foo": {0: 1}}, instance="i2", error=ErrorCode.FENCED_INSTANCE_ID)
    await duel.commit("B9", {"foo": {0: 1}}, instance="i2")
    await duel.leave(("B", "i2"), ("", "i3"), ("nobody", None))
    await duel.leave(("", "i2"))
    await duel.beat("B9", instance="i2")
    await duel.describe_classic()


@script()
async def restarts_with_other_topics(duel: Duel) -> None:
    await duel.join("A", instance="i1", version=5)
    await duel.sync("A", {"A": ALL_FOO}, instance="i1")
    rebalances = Unlike(
        deviation=Deviation.RESUBSCRIBED,
        kafka={"generation_id": 1, "skip_assignment": True},
        gateway={"generation_id": 2, "skip_assignment": False},
    )
    await duel.join("A2", instance="i1", topics=["bar"], unlike=rebalances)


@script()
async def restarts_with_another_protocol(duel: Duel) -> None:
    await duel.join("A", instance="i1", version=5)
    await duel.sync("A", {"A": ALL_FOO}, instance="i1")
    await duel.join("A2", instance="i1", protocol="roundrobin")
    await duel.sync("A2", {"A2": ALL_FOO}, instance="i1", protocol="roundrobin")
    await duel.describe_classic()


@script()
async def restarts_while_the_group_rebalances(duel: Duel) -> None:
    await duel.join("A", instance="i1", version=5)
    await duel.sync("A", {"A": ALL_FOO}, instance="i1")
    await duel.join("B", instance="i2", version=5)
    assert duel.is_parked("B")
    await duel.join("B2", instance="i2")
    assert not duel.is_parked("B")
    await duel.join("A2", instance="i1")
    await duel.sync("A2", instance="i1")
    await duel.sync("B2", instance="i2")
    await duel.join("A3", instance="i1")
    await duel.join("B3", instance="i2")
    await duel.sync("A3", {"A3": ALL_FOO}, instance="i1")
    await duel.sync("B3", {"A3": ALL_FOO}, instance="i2")
    await duel.describe_classic()


@script()
async def a_restart_that_changes_the_winning_protocol(duel: Duel) -> None:
    await duel.join("A", instance="i1", version=5, protocols=[RANGE, ROUND_ROBIN])
    await duel.sync("A", {"A": ALL_FOO}, instance="i1")
    await duel.join("B", instance="i2", version=5, protocols=[RANGE, ROUND_ROBIN])
    await duel.join("A", instance="i1", protocols=[RANGE, ROUND_ROBIN])
    await duel.sync("A", {"A": ALL_FOO}, instance="i1")
    await duel.sync("B", instance="i2")
    await duel.join("B2", instance="i2", protocols=[ROUND_ROBIN], error=None)
    await duel.beat("A", instance="i1")
    await duel.join("A", instance="i1", protocols=[RANGE, ROUND_ROBIN])
    await duel.sync("A", {"A": ALL_FOO}, instance="i1", protocol="roundrobin")
    await duel.sync("B2", instance="i2", protocol="roundrobin")
    await duel.describe_classic()


@script()
async def a_static_member_leaves_by_its_id_without_instance(duel: Duel) -> None:
    await duel.join("A", instance="i1", version=5)
    await duel.sync("A", {"A": ALL_FOO}, instance="i1")
    await duel.beat("A")
    await duel.join("A")
    await duel.describe_classic()
    await duel.sync("A", {"A": ALL_FOO})
    await duel.leave("A", version=2)
    await duel.describe_classic()


@script()
async def a_native_instance_is_in_use(duel: Duel) -> None:
    await duel.native("N", 0, instance="i1")
    await duel.native("N2", 0, instance="i1", error=ErrorCode.UNRELEASED_INSTANCE_ID)
    await duel.native("N", 0, instance="i1", error=ErrorCode.UNRELEASED_INSTANCE_ID)
    await duel.native("N", 0)
    await duel.native("N2", 2, instance="i1", error=ErrorCode.FENCED_INSTANCE_ID)
    await duel.native("N2", 2, error=ErrorCode.UNKNOWN_MEMBER_ID)
    await duel.native("N", 2, instance="i2", error=ErrorCode.UNKNOWN_MEMBER_ID)
    await duel.native("N2", -1, instance="i1", error=ErrorCode.FENCED_INSTANCE_ID)
    await duel.native("N2", -2, instance="i1", error=ErrorCode.FENCED_INSTANCE_ID)
    await duel.native("N", -2, instance="i2", error=ErrorCode.UNKNOWN_MEMBER_ID)
    await duel.native("N", -2, error=ErrorCode.INVALID_REQUEST)
    await duel.native("N", -2, instance="i1", error=0)
    await duel.native("N", 2)
    await duel.native("N", 2, instance="i1")
    await duel.native("N", -2, instance="i1")
    await duel.describe()
    await duel.native("N2", 0, instance="i1", error=0)
    await duel.native("N", instance="i1", error=ErrorCode.FENCED_INSTANCE_ID)
    await duel.describe()


@script()
async def a_native_member_comes_back(duel: Duel) -> None:
    await duel.native("M", 0, instance="i0")
    await duel.native("N", 0, instance="i1")
    await duel.full("M")
    await duel.full("N")
    await duel.native("M", -2, instance="i0")
    await duel.native("M2", 0, instance="i0")
    await duel.describe()
    await duel.native("N")
    await duel.native("M2", -2, instance="i0")
    await duel.native("M3", 0, instance="i0", topics=["foo", "bar"])
    await duel.full("N")
    await duel.full("M3", topics=["foo", "bar"])
    await duel.describe()
    await duel.native("M3", -1, instance="i0")
    await duel.native("N", -1)
    await duel.describe()


@script()
async def leaving_temporarily_and_permanently(duel: Duel) -> None:
    await duel.native("M", 0, instance="i0")
    await duel.native("N", 0, instance="i1")
    await duel.native("M", -2, instance="i0")
    await duel.native("M", -1, instance="i0")
    await duel.full("N")
    await duel.native("N", -2, instance="i1")
    await duel.leave(("", "i1"))
    await duel.describe()


@script()
async def a_member_takes_over_another_instance(duel: Duel) -> None:
    await duel.native("M", 0, instance="i0")
    await duel.native("N", 0, instance="i1")
    await duel.native("M", -2, instance="i0")
    unlike = Unlike(
        deviation=Deviation.CHANGED_INSTANCE, kafka={"member_epoch": 3}, gateway={"member_epoch": 4}
    )
    await duel.native("N", 0, instance="i0", unlike=unlike)


@script()
async def an_instance_comes_and_goes(duel: Duel) -> None:
    await duel.native("N", 0)
    await duel.native("N", 0, instance="i1")
    await duel.describe()
    await duel.native("N", instance="i1")
    await duel.native("N", 0)
    await duel.describe()
    await duel.native("N", instance="i2")
    await duel.native("M", 0, instance="i1")


@script(MAIN, UPGRADE)
async def classic_and_native_by_turns(duel: Duel) -> None:
    await duel.join("A", instance="i1", version=5)
    await duel.sync("A", {"A": ALL_FOO}, instance="i1")
    await duel.native("N1", 0, instance="i1")
    await duel.native("N0", 0, instance="i0")
    await duel.native("N1", owned=TOLD)
    await duel.full("N1")
    await duel.join("B", instance="i1")
    await duel.sync("B", instance="i1")
    await duel.native("N1", instance="i1")
    await duel.native("N1")
    await duel.beat("B", instance="i1")
    await duel.native("N2", 0, instance="i1")
    await duel.describe()
    await duel.beat("B", instance="i1", error=ErrorCode.FENCED_INSTANCE_ID)
    await duel.join("C", instance="i1")
    await duel.join("C", instance="i1")
    await duel.sync("C", instance="i1")
    await duel.join("D", instance="i0")
    await duel.list()


@script()
async def the_last_native_instance_turns_classic_quietly(duel: Duel) -> None:
    await duel.native("N", 0, instance="i1")
    await duel.native("N")
    await duel.join("A", instance="i1")
    await duel.list()
    await duel.sync("A", instance="i1")
    await duel.beat("A", instance="i1")
    await duel.describe_classic()
    await duel.native("N", unlike=UNKNOWN_NATIVE)
    fenced = Unlike.error(Deviation.OUTLIVED, kafka=69, gateway=82)
    await duel.native("N", instance="i1", unlike=fenced)
    await duel.native("N2", 0, instance="i1")
    await duel.native("N2")
    await duel.describe()


@script()
async def the_last_native_instance_turns_classic_beside_others(duel: Duel) -> None:
    await duel.join("A", instance="i1", version=5)
    await duel.sync("A", {"A": ALL_FOO}, instance="i1")
    await duel.native("N", 0, instance="i2")
    await duel.beat("A", instance="i1")
    await duel.join("A", instance="i1")
    await duel.sync("A", instance="i1")
    await duel.full("N")
    await duel.describe()
    await duel.join("B", instance="i2")
    await duel.sync("B", instance="i2")
    await duel.beat("A", instance="i1")
    await duel.beat("B", instance="i2")
    await duel.commit("A", {"foo": {0: 1}}, instance="i1")
    await duel.list()


@script(TIGHT)
async def an_absent_static_member_expires(duel: Duel) -> None:
    await duel.native("N", 0, instance="i1")
    await duel.native("N", -2, instance="i1")
    await duel.native("M", 0, instance="i1")
    await duel.native("M", -2, instance="i1")
    await duel.sleep(4)
    await duel.describe()
    await duel.native("M", 0, instance="i1")


@script()
async def a_static_join_with_an_id_to_a_consumer_group(duel: Duel) -> None:
    await duel.native("N", 0)
    await duel.join("A", "made-up", instance="i1", error=ErrorCode.UNKNOWN_MEMBER_ID)
    await duel.join("A", instance="i1")
    await duel.join("B", "made-up", instance="i1", error=ErrorCode.FENCED_INSTANCE_ID)
    await duel.join("A", instance="i1")
    await duel.join("A", topics=["foo", "bar"])
    await duel.describe()
    await duel.sync("A", instance="i1")
    await duel.sync("A", instance="i2")
    await duel.beat("A", instance="i2")
    await duel.beat("A", member_id="other", instance="i1")
    await duel.leave(("other", "i1"), ("A", "i2"), ("", "i1"), ("N", "i1"))
    await duel.list()
