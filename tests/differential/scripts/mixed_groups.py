"""Classic requests to a consumer group (rule 5; scenarios 19 to 48)."""

from typing import Any

from kafka_codecs.error_codes import ErrorCode
from tests.support.differential.both_sides import TOLD, BothSides, Owned
from tests.support.differential.deviations import UNKNOWN_NATIVE, Deviation, Unlike
from tests.support.differential.profiles import DISABLED, DOWNGRADE, MAIN, UPGRADE
from tests.support.differential.script import script
from tests.support.group_values import subscription

ALL_FOO: Owned = {"foo": (0, 1, 2)}
RANGE = ("range", subscription(["foo"]))
ROUND_ROBIN = ("roundrobin", subscription(["foo"]))


@script(MAIN, UPGRADE)
async def every_version_of_join_enters_a_consumer_group(both: BothSides) -> None:
    await both.native("N", 0)
    for version in range(10):
        who = f"v{version}"
        answer = await both.join(who, version=version, topics=["six"])
        if answer["error_code"]:
            await both.join(who, version=version, topics=["six"])
        await both.sync(who, version=min(version, 5))
        await both.beat(who, version=min(version, 4))
        await both.leave(who, version=min(version, 5))


@script()
async def every_embedded_version(both: BothSides) -> None:
    await both.native("N", 0)
    for version in range(4):
        who = f"e{version}"
        await both.join(who, who, version=3, topics=["six"], embedded_version=version)
        await both.sync(who)
        await both.describe()
        await both.join(who, topics=["six"], embedded_version=version, owned=TOLD)
        await both.sync(who)
        await both.leave(who)


@script()
async def an_eager_member_joins_and_rejoins(both: BothSides) -> None:
    await both.native("N", 0)
    await both.join("never-used", error=ErrorCode.MEMBER_ID_REQUIRED)
    await both.join("A", "A")
    await both.sync("A")
    await both.sync("A")
    await both.beat("A")
    await both.native("N", owned=ALL_FOO)
    await both.beat("A")
    await both.native("N", owned={"foo": (1, 2)})
    await both.native("N", owned={"foo": (2,)})
    await both.beat("A")
    await both.sync("A")
    await both.join("A")
    await both.sync("A")
    await both.beat("A")
    await both.describe()


@script()
async def a_cooperative_member_gives_up(both: BothSides) -> None:
    how: dict[str, Any] = {"protocol": "cooperative-sticky"}
    await both.join("A", **how)
    await both.join("A", **how)
    await both.sync("A", {"A": ALL_FOO}, **how)
    await both.native("N", 0)
    await both.beat("A", error=ErrorCode.REBALANCE_IN_PROGRESS)
    await both.join("A", owned=TOLD, **how)
    await both.sync("A", **how)
    await both.beat("A", error=ErrorCode.REBALANCE_IN_PROGRESS)
    await both.join("A", owned=ALL_FOO, **how)
    await both.sync("A", **how)
    await both.join("A", owned=TOLD, generation=1, embedded_version=3, **how)
    await both.sync("A", **how)
    await both.beat("A")
    await both.native("N")
    await both.describe()


@script()
async def sync_and_beat_with_everything_wrong(both: BothSides) -> None:
    await both.native("N", 0)
    await both.join("A", "A", version=3)
    for generation in (0, 2, 4, -1, -3, 2**31 - 1):
        await both.sync("A", generation=generation)
        await both.beat("A", generation=generation)
    await both.sync("A", member_id="nobody")
    await both.sync("A", member_id="")
    await both.sync("A", member_id="N")
    await both.sync("N", member_id="N", generation=2)
    await both.beat("A", member_id="nobody")
    await both.beat("A", member_id="")
    await both.beat("N", member_id="N")
    await both.sync("A", protocol="other")
    await both.sync("A", protocol_type="other")
    await both.sync("A", protocol=None)
    await both.sync("A", protocol_type=None)
    await both.sync("A", version=4)
    await both.sync("A", instance="i1")
    await both.beat("A", instance="i1")
    await both.sync("A", {"A": ALL_FOO, "N": b"garbage"})
    await both.beat("A")


@script()
async def joins_that_do_not_fit(both: BothSides) -> None:
    await both.native("N", 0)
    await both.join("A", protocol_type="connect", error=None)
    await both.join("A", protocol_type="", error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    await both.join("A", protocols=[], error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    malformed = Unlike.error(Deviation.MALFORMED_BYTES, kafka=-1, gateway=23)
    await both.join("A", protocols=[("range", b"\x00")], version=3, unlike=malformed)
    await both.join("A", "A", protocols=[RANGE, ROUND_ROBIN])
    await both.join("A", protocols=[RANGE, ROUND_ROBIN])
    # Kafka would admit C, and C's own list would then not fit the group.
    twice = Unlike.error(Deviation.INTERNAL_ERROR, kafka=79, gateway=23)
    await both.join("C", protocols=[RANGE, RANGE], unlike=twice)
    await both.join("B", protocol="sticky", error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    await both.join("B", protocol="sticky", version=3, error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    await both.join("A", protocol="sticky", error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    await both.join("A", protocols=[ROUND_ROBIN, RANGE])
    await both.sync("A", protocol="range")
    await both.sync("A", protocol="roundrobin")
    await both.join("B", "B", protocols=[RANGE])
    await both.join("A", protocols=[ROUND_ROBIN])
    await both.describe()


@script()
async def session_timeouts_in_a_consumer_group(both: BothSides) -> None:
    await both.native("N", 0)
    for timeout in (499, 1_800_001, 0, -1):
        await both.join("A", session_timeout_ms=timeout, error=ErrorCode.INVALID_SESSION_TIMEOUT)
        await both.join(
            "A", "N", session_timeout_ms=timeout, error=ErrorCode.INVALID_SESSION_TIMEOUT
        )
    for number, timeout in enumerate((500, 1_800_000)):
        await both.join(
            f"B{number}", session_timeout_ms=timeout, error=ErrorCode.MEMBER_ID_REQUIRED
        )


@script(UPGRADE)
async def invented_and_foreign_member_ids(both: BothSides) -> None:
    await both.native("N", 0)
    await both.join("A", "made-up")
    await both.describe()
    await both.join("B", "made-up")
    await both.sync("B", member_id="made-up")
    await both.join("C", "N")
    await both.describe()
    await both.native("N")
    await both.native("N", 0)
    await both.describe()


@script()
async def a_native_member_joins_as_a_classic_one_under_its_id(both: BothSides) -> None:
    await both.native("N", 0)
    await both.native("M", 0)
    await both.join("N", "N")
    await both.sync("N")
    await both.beat("N")
    await both.describe()
    await both.native("M", owned=TOLD)
    await both.native("N", owned=TOLD)
    await both.beat("N")
    await both.describe()


@script()
async def subscriptions_of_classic_members(both: BothSides) -> None:
    await both.native("N", 0)
    await both.join("A", "A", version=3, topics=[])
    await both.sync("A")
    await both.join("A", topics=["nowhere"])
    await both.sync("A")
    await both.join("A", topics=["bar", "zar"])
    await both.sync("A")
    await both.join("A", topics=["zar"], owned={"bar": (0,), "zar": (0,)})
    await both.sync("A")
    await both.join("A", topics=["zar"], owned={"zar": (0,)}, embedded_version=3)
    await both.sync("A")
    await both.join("A", topics=[])
    await both.sync("A")
    await both.describe()


@script()
async def another_rack_of_a_classic_member_bumps_the_epoch(both: BothSides) -> None:
    await both.native("N", 0)
    await both.join("A", "A", version=3, topics=["zar"], rack="r1", embedded_version=3)
    await both.sync("A")
    bumps = Unlike(
        deviation=Deviation.ANOTHER_RACK,
        kafka={"generation_id": 3},
        gateway={"generation_id": 4},
    )
    await both.join("A", topics=["zar"], rack="r2", embedded_version=3, owned=TOLD, unlike=bumps)


@script()
async def owned_partitions_that_do_not_exist(both: BothSides) -> None:
    await both.native("N", 0)
    await both.join("A", "A", version=3)
    await both.join("A", owned={"nowhere": (0, 1), "foo": (7,), "bar": (0,)})
    await both.sync("A")
    await both.join("A", owned={"foo": (0, 1, 2)}, generation=17, embedded_version=2)
    await both.sync("A")
    await both.describe()


@script(DISABLED)
async def the_disabled_policy_keeps_classic_members_out(both: BothSides) -> None:
    await both.native("N", 0, instance="i1")
    await both.join("A", error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    await both.join("A", "A", version=3, error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    await both.join("A", instance="i1", error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    await both.join("A", instance="i2", error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    await both.join("A", "N", error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    await both.join(
        "A", "N", instance="i1", session_timeout_ms=1, error=ErrorCode.INVALID_SESSION_TIMEOUT
    )
    await both.native("N")
    await both.native("N", -1)
    await both.join("A")


@script()
async def a_batch_of_leavers(both: BothSides) -> None:
    await both.native("N", 0)
    await both.native("M", 0, instance="i1")
    await both.join("A", "A", version=3)
    await both.join("B", version=5, instance="i2")
    await both.leave("nobody", ("", "i9"), ("A", "i2"), ("", None), ("B", "i1"))
    await both.describe()
    await both.leave("A", ("", "i2"), "nobody", ("", "i9"), ("N", "i1"), "N", "N", ("", "i2"))
    await both.describe()
    await both.leave(version=5)
    await both.leave("", version=2)
    await both.leave("M", version=1)
    await both.list()


@script(MAIN, UPGRADE, DOWNGRADE)
async def admins_remove_the_native_members(both: BothSides) -> None:
    await both.native("N", 0)
    await both.native("M", 0)
    await both.join("A", "A", version=3, topics=["bar"])
    await both.sync("A")
    await both.native("N", owned=TOLD)
    await both.leave("N", "M")
    if both.profile is UPGRADE:
        unlike = Unlike.error(Deviation.TARGET_BY_ITSELF, kafka=0, gateway=27)
        await both.beat("A", unlike=unlike)
        return
    await both.list()
    await both.native("N", unlike=UNKNOWN_NATIVE)


@script()
async def join_and_sync_timers(both: BothSides) -> None:
    await both.native("N", 0)
    await both.join("A", "A", version=3, rebalance_timeout_ms=1_500)
    await both.sleep(2.2)
    await both.beat("A", error=ErrorCode.UNKNOWN_MEMBER_ID)
    await both.join("B", "B", version=3, rebalance_timeout_ms=1_500)
    await both.sync("B")
    await both.native("N", topics=["foo", "bar"])
    await both.beat("B")
    await both.sleep(1)
    await both.beat("B")
    await both.sleep(1)
    await both.beat("B")
    await both.describe()


@script()
async def sessions_of_classic_members(both: BothSides) -> None:
    await both.native("N", 0)
    await both.join("A", "A", version=3, session_timeout_ms=1_200)
    await both.sync("A")
    await both.sleep(0.8)
    await both.beat("A")
    await both.sleep(0.8)
    await both.beat("A")
    await both.sleep(1.8)
    await both.beat("A", error=ErrorCode.UNKNOWN_MEMBER_ID)
    await both.describe()


@script()
async def a_timeout_of_nothing(both: BothSides) -> None:
    await both.native("N", 0)
    for timeout in (0, -1):
        await both.join(f"A{timeout}", f"A{timeout}", version=3, rebalance_timeout_ms=timeout)
        await both.sleep(0.3)
        await both.beat(f"A{timeout}")
        await both.describe()
