"""Classic requests to a consumer group (rule 5; scenarios 19 to 48)."""

from typing import Any

from kafka_codecs.error_codes import ErrorCode
from tests.support.differential.deviations import UNKNOWN_NATIVE, Deviation, Unlike
from tests.support.differential.duel import TOLD, Duel, Owned
from tests.support.differential.profiles import DISABLED, DOWNGRADE, MAIN, UPGRADE
from tests.support.differential.script import script
from tests.support.group_values import subscription

ALL_FOO: Owned = {"foo": (0, 1, 2)}
RANGE = ("range", subscription(["foo"]))
ROUND_ROBIN = ("roundrobin", subscription(["foo"]))


@script(MAIN, UPGRADE)
async def every_version_of_join_enters_a_consumer_group(duel: Duel) -> None:
    await duel.native("N", 0)
    for version in range(10):
        who = f"v{version}"
        answer = await duel.join(who, version=version, topics=["six"])
        if answer["error_code"]:
            await duel.join(who, version=version, topics=["six"])
        await duel.sync(who, version=min(version, 5))
        await duel.beat(who, version=min(version, 4))
        await duel.leave(who, version=min(version, 5))


@script()
async def every_embedded_version(duel: Duel) -> None:
    await duel.native("N", 0)
    for version in range(4):
        who = f"e{version}"
        await duel.join(who, who, version=3, topics=["six"], embedded_version=version)
        await duel.sync(who)
        await duel.describe()
        await duel.join(who, topics=["six"], embedded_version=version, owned=TOLD)
        await duel.sync(who)
        await duel.leave(who)


@script()
async def an_eager_member_joins_and_rejoins(duel: Duel) -> None:
    await duel.native("N", 0)
    await duel.join("never-used", error=ErrorCode.MEMBER_ID_REQUIRED)
    await duel.join("A", "A")
    await duel.sync("A")
    await duel.sync("A")
    await duel.beat("A")
    await duel.native("N", owned=ALL_FOO)
    await duel.beat("A")
    await duel.native("N", owned={"foo": (1, 2)})
    await duel.native("N", owned={"foo": (2,)})
    await duel.beat("A")
    await duel.sync("A")
    await duel.join("A")
    await duel.sync("A")
    await duel.beat("A")
    await duel.describe()


@script()
async def a_cooperative_member_gives_up(duel: Duel) -> None:
    how: dict[str, Any] = {"protocol": "cooperative-sticky"}
    await duel.join("A", **how)
    await duel.join("A", **how)
    await duel.sync("A", {"A": ALL_FOO}, **how)
    await duel.native("N", 0)
    await duel.beat("A", error=ErrorCode.REBALANCE_IN_PROGRESS)
    await duel.join("A", owned=TOLD, **how)
    await duel.sync("A", **how)
    await duel.beat("A", error=ErrorCode.REBALANCE_IN_PROGRESS)
    await duel.join("A", owned=ALL_FOO, **how)
    await duel.sync("A", **how)
    await duel.join("A", owned=TOLD, generation=1, embedded_version=3, **how)
    await duel.sync("A", **how)
    await duel.beat("A")
    await duel.native("N")
    await duel.describe()


@script()
async def sync_and_beat_with_everything_wrong(duel: Duel) -> None:
    await duel.native("N", 0)
    await duel.join("A", "A", version=3)
    for generation in (0, 2, 4, -1, -3, 2**31 - 1):
        await duel.sync("A", generation=generation)
        await duel.beat("A", generation=generation)
    await duel.sync("A", member_id="nobody")
    await duel.sync("A", member_id="")
    await duel.sync("A", member_id="N")
    await duel.sync("N", member_id="N", generation=2)
    await duel.beat("A", member_id="nobody")
    await duel.beat("A", member_id="")
    await duel.beat("N", member_id="N")
    await duel.sync("A", protocol="other")
    await duel.sync("A", protocol_type="other")
    await duel.sync("A", protocol=None)
    await duel.sync("A", protocol_type=None)
    await duel.sync("A", version=4)
    await duel.sync("A", instance="i1")
    await duel.beat("A", instance="i1")
    await duel.sync("A", {"A": ALL_FOO, "N": b"garbage"})
    await duel.beat("A")


@script()
async def joins_that_do_not_fit(duel: Duel) -> None:
    await duel.native("N", 0)
    await duel.join("A", protocol_type="connect", error=None)
    await duel.join("A", protocol_type="", error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    await duel.join("A", protocols=[], error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    malformed = Unlike.error(Deviation.MALFORMED_BYTES, kafka=-1, gateway=23)
    await duel.join("A", protocols=[("range", b"\x00")], version=3, unlike=malformed)
    await duel.join("A", "A", protocols=[RANGE, ROUND_ROBIN])
    await duel.join("A", protocols=[RANGE, ROUND_ROBIN])
    # Kafka would admit C, and C's own list would then not fit the group.
    twice = Unlike.error(Deviation.INTERNAL_ERROR, kafka=79, gateway=23)
    await duel.join("C", protocols=[RANGE, RANGE], unlike=twice)
    await duel.join("B", protocol="sticky", error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    await duel.join("B", protocol="sticky", version=3, error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    await duel.join("A", protocol="sticky", error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    await duel.join("A", protocols=[ROUND_ROBIN, RANGE])
    await duel.sync("A", protocol="range")
    await duel.sync("A", protocol="roundrobin")
    await duel.join("B", "B", protocols=[RANGE])
    await duel.join("A", protocols=[ROUND_ROBIN])
    await duel.describe()


@script()
async def session_timeouts_in_a_consumer_group(duel: Duel) -> None:
    await duel.native("N", 0)
    for timeout in (499, 1_800_001, 0, -1):
        await duel.join("A", session_timeout_ms=timeout, error=ErrorCode.INVALID_SESSION_TIMEOUT)
        await duel.join(
            "A", "N", session_timeout_ms=timeout, error=ErrorCode.INVALID_SESSION_TIMEOUT
        )
    for number, timeout in enumerate((500, 1_800_000)):
        await duel.join(
            f"B{number}", session_timeout_ms=timeout, error=ErrorCode.MEMBER_ID_REQUIRED
        )


@script(UPGRADE)
async def invented_and_foreign_member_ids(duel: Duel) -> None:
    await duel.native("N", 0)
    await duel.join("A", "made-up")
    await duel.describe()
    await duel.join("B", "made-up")
    await duel.sync("B", member_id="made-up")
    await duel.join("C", "N")
    await duel.describe()
    await duel.native("N")
    await duel.native("N", 0)
    await duel.describe()


@script()
async def a_native_member_joins_as_a_classic_one_under_its_id(duel: Duel) -> None:
    await duel.native("N", 0)
    await duel.native("M", 0)
    await duel.join("N", "N")
    await duel.sync("N")
    await duel.beat("N")
    await duel.describe()
    await duel.native("M", owned=TOLD)
    await duel.native("N", owned=TOLD)
    await duel.beat("N")
    await duel.describe()


@script()
async def subscriptions_of_classic_members(duel: Duel) -> None:
    await duel.native("N", 0)
    await duel.join("A", "A", version=3, topics=[])
    await duel.sync("A")
    await duel.join("A", topics=["nowhere"])
    await duel.sync("A")
    await duel.join("A", topics=["bar", "zar"])
    await duel.sync("A")
    await duel.join("A", topics=["zar"], owned={"bar": (0,), "zar": (0,)})
    await duel.sync("A")
    await duel.join("A", topics=["zar"], owned={"zar": (0,)}, rack="r1", embedded_version=3)
    await duel.sync("A")
    await duel.join("A", topics=[])
    await duel.sync("A")
    await duel.describe()


@script()
async def owned_partitions_that_do_not_exist(duel: Duel) -> None:
    await duel.native("N", 0)
    await duel.join("A", "A", version=3)
    await duel.join("A", owned={"nowhere": (0, 1), "foo": (7,), "bar": (0,)})
    await duel.sync("A")
    await duel.join("A", owned={"foo": (0, 1, 2)}, generation=17, embedded_version=2)
    await duel.sync("A")
    await duel.describe()


@script(DISABLED)
async def the_disabled_policy_keeps_classic_members_out(duel: Duel) -> None:
    await duel.native("N", 0, instance="i1")
    await duel.join("A", error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    await duel.join("A", "A", version=3, error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    await duel.join("A", instance="i1", error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    await duel.join("A", instance="i2", error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    await duel.join("A", "N", error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    await duel.join(
        "A", "N", instance="i1", session_timeout_ms=1, error=ErrorCode.INVALID_SESSION_TIMEOUT
    )
    await duel.native("N")
    await duel.native("N", -1)
    await duel.join("A")


@script()
async def a_batch_of_leavers(duel: Duel) -> None:
    await duel.native("N", 0)
    await duel.native("M", 0, instance="i1")
    await duel.join("A", "A", version=3)
    await duel.join("B", version=5, instance="i2")
    await duel.leave("nobody", ("", "i9"), ("A", "i2"), ("", None), ("B", "i1"))
    await duel.describe()
    await duel.leave("A", ("", "i2"), "nobody", ("", "i9"), ("N", "i1"), "N", "N", ("", "i2"))
    await duel.describe()
    await duel.leave(version=5)
    await duel.leave("", version=2)
    await duel.leave("M", version=1)
    await duel.list()


@script(MAIN, UPGRADE, DOWNGRADE)
async def admins_remove_the_native_members(duel: Duel) -> None:
    await duel.native("N", 0)
    await duel.native("M", 0)
    await duel.join("A", "A", version=3, topics=["bar"])
    await duel.sync("A")
    await duel.native("N", owned=TOLD)
    await duel.leave("N", "M")
    if duel.profile is UPGRADE:
        told = Unlike.error(Deviation.TARGET_BY_ITSELF, kafka=0, gateway=27)
        await duel.beat("A", unlike=told)
        return
    await duel.list()
    await duel.native("N", unlike=UNKNOWN_NATIVE)


@script()
async def join_and_sync_timers(duel: Duel) -> None:
    await duel.native("N", 0)
    await duel.join("A", "A", version=3, rebalance_timeout_ms=1_500)
    await duel.sleep(2.2)
    await duel.beat("A", error=ErrorCode.UNKNOWN_MEMBER_ID)
    await duel.join("B", "B", version=3, rebalance_timeout_ms=1_500)
    await duel.sync("B")
    await duel.native("N", topics=["foo", "bar"])
    await duel.beat("B")
    await duel.sleep(1)
    await duel.beat("B")
    await duel.sleep(1)
    await duel.beat("B")
    await duel.describe()


@script()
async def sessions_of_classic_members(duel: Duel) -> None:
    await duel.native("N", 0)
    await duel.join("A", "A", version=3, session_timeout_ms=1_200)
    await duel.sync("A")
    await duel.sleep(0.8)
    await duel.beat("A")
    await duel.sleep(0.8)
    await duel.beat("A")
    await duel.sleep(1.8)
    await duel.beat("A", error=ErrorCode.UNKNOWN_MEMBER_ID)
    await duel.describe()


@script()
async def a_timeout_of_nothing(duel: Duel) -> None:
    await duel.native("N", 0)
    for timeout in (0, -1):
        await duel.join(f"A{timeout}", f"A{timeout}", version=3, rebalance_timeout_ms=timeout)
        await duel.sleep(0.3)
        await duel.beat(f"A{timeout}")
        await duel.describe()
