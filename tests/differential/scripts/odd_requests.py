"""Requests that no client sends, and unusual states."""

from unittest.mock import ANY

from kafka_codecs.error_codes import ErrorCode
from tests.support.differential.deviations import UNKNOWN_NATIVE, Deviation, Unlike
from tests.support.differential.duel import TOLD, Duel, Owned
from tests.support.differential.profiles import MAIN, UPGRADE
from tests.support.differential.script import script
from tests.support.group_values import embedded_assignment, subscription

ALL_FOO: Owned = {"foo": (0, 1, 2)}


@script()
async def empty_lists_and_missing_fields(duel: Duel) -> None:
    await duel.enter({"A": ALL_FOO})
    await duel.leave()
    await duel.leave(("", ""), ("", None))
    await duel.sync("A", {}, protocol="", protocol_type="")
    await duel.sync("A", {}, instance="")
    await duel.beat("A", instance="")
    await duel.join("A", instance="")
    await duel.commit("A", {}, instance="")
    await duel.fetch(of={"foo": []})
    await duel.delete_offsets({"bar": []})
    await duel.native("N", 0)
    await duel.leave()
    await duel.leave(("", ""))
    await duel.sync("A", instance="")
    await duel.beat("A", instance="")


@script()
async def an_empty_instance_id(duel: Duel) -> None:
    await duel.join("A", instance="")
    await duel.join("A", instance="")
    await duel.describe_classic()


@script()
async def a_native_member_with_blank_fields(duel: Duel) -> None:
    await duel.native("N", 0)
    await duel.native("N", instance="")
    await duel.native("N", rack="")
    await duel.native("N", assignor="")
    await duel.native("N", topics=[""])
    await duel.native("N", -1, instance="")
    await duel.native("N", -1, topics=["bar"], owned={"foo": (0,)}, assignor="unheard-of")
    await duel.native("N", -1, assignor="range", rack="r")


@script()
async def a_full_group_of_names(duel: Duel) -> None:
    long = "m" * 200
    await duel.native(long, 0, instance="i" * 200, rack="r" * 200)
    await duel.describe()
    await duel.native(long, -2, instance="i" * 200)


@script()
async def leaders_that_assign_nonsense(duel: Duel) -> None:
    await duel.join("A", version=3)
    await duel.sync("A", {"A": {"foo": (0, 0, 7), "nowhere": (1,)}, "nobody": ALL_FOO})
    await duel.describe_classic()
    await duel.native("N", 0, topics=["bar"])
    await duel.describe()


@script()
async def assignments_of_other_versions(duel: Duel) -> None:
    newer = b"\x00\x09" + embedded_assignment(ALL_FOO)[2:] + b"more"
    await duel.join("A", version=3, metadata=b"\x00\x07" + subscription(["foo"], version=3)[2:])
    await duel.sync("A", {"A": newer})
    await duel.native("N", 0)
    await duel.describe()
    await duel.beat("A")
    await duel.join("A", metadata=b"\x00\x07" + subscription(["foo"], version=3)[2:] + b"!")
    await duel.sync("A")


@script()
async def user_data_in_a_subscription_is_ignored(duel: Duel) -> None:
    metadata = b"\x00\x00" + b"\x00\x00\x00\x01\x00\x03foo" + b"\x00\x00\x00\x02hi"
    await duel.join("A", version=3, metadata=metadata)
    await duel.sync("A", {"A": ALL_FOO})
    await duel.native("N", 0)
    await duel.join("A", metadata=metadata)
    await duel.sync("A")


@script(MAIN, UPGRADE)
async def a_classic_member_turns_native_under_its_own_id(duel: Duel) -> None:
    await duel.enter({"A": ALL_FOO})
    await duel.native("A", 0)
    await duel.describe()
    await duel.native("A", owned=TOLD)
    await duel.beat("A")
    await duel.join("A")
    converts = Unlike(
        deviation=Deviation.TARGET_BY_ITSELF, kafka={"groups": (ANY,)}, gateway={"groups": (ANY,)}
    )
    await duel.list(unlike=converts if duel.profile is MAIN else None)


@script()
async def a_heartbeat_of_the_other_protocol_changes_nothing(duel: Duel) -> None:
    await duel.enter({"A": ALL_FOO})
    await duel.native("A", 1, unlike=UNKNOWN_NATIVE)
    await duel.native("A", -1, error=ErrorCode.GROUP_ID_NOT_FOUND)
    await duel.beat("A", error=0)
    await duel.native("N", 0)
    await duel.native("A", 1)
    await duel.describe()
    await duel.beat("N", member_id="N")


@script()
async def a_classic_member_speaks_natively_at_its_epoch(duel: Duel) -> None:
    await duel.enter({"A": ALL_FOO})
    await duel.native("N", 0)
    await duel.native("A", 1, owned=ALL_FOO)
    await duel.native("A", 1, owned={"foo": (0, 1)})
    await duel.describe()
    await duel.native("N", -1)
    await duel.describe()
    await duel.list()


@script()
async def a_member_that_must_revoke_leaves_temporarily(duel: Duel) -> None:
    await duel.native("M", 0, instance="i1")
    await duel.native("N", 0)
    await duel.native("M", owned=TOLD)
    await duel.native("M", -2, instance="i1")
    await duel.describe()
    await duel.native("N")
    await duel.native("M2", 0, instance="i1")
    await duel.native("M2", owned=TOLD)
    await duel.native("N")
    await duel.describe()


@script()
async def all_members_change_the_subscription_at_once(duel: Duel) -> None:
    await duel.native("M", 0)
    await duel.native("N", 0)
    await duel.native("M", topics=["six"], owned=ALL_FOO)
    await duel.native("N", topics=["six"])
    await duel.native("M", owned={})
    await duel.native("N", owned={})
    await duel.native("M", topics=["foo", "six"], owned=TOLD)
    await duel.native("N", topics=["foo"], owned=TOLD)
    await duel.native("M", owned={})
    await duel.native("N", owned={})
    await duel.describe()


@script()
async def three_of_each_kind(duel: Duel) -> None:
    await duel.enter(
        {"A": {"six": (0, 1)}, "B": {"six": (2, 3)}, "C": {"six": (4, 5)}}, topics=["six"]
    )
    for who in "XYZ":
        await duel.native(who, 0, topics=["six"])
    for _ in range(2):
        for who in "ABC":
            await duel.beat(who)
            await duel.join(who, topics=["six"])
            await duel.sync(who)
        for who in "XYZ":
            await duel.native(who, owned=TOLD)
    await duel.describe()
    await duel.leave("A", "Y")
    for who in "BC":
        await duel.beat(who)
    await duel.native("X")
    await duel.describe()
    await duel.leave("X", "Z")
    await duel.list()
    await duel.join("B", topics=["six"])
    await duel.list()
