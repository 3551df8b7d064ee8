"""Requests that no client sends, and unusual states."""

from unittest.mock import ANY

from kafka_codecs.error_codes import ErrorCode
from tests.support.differential.both_sides import TOLD, BothSides, Owned
from tests.support.differential.deviations import UNKNOWN_NATIVE, Deviation, Unlike
from tests.support.differential.profiles import MAIN, UPGRADE
from tests.support.differential.script import script
from tests.support.group_values import embedded_assignment, subscription

ALL_FOO: Owned = {"foo": (0, 1, 2)}


@script()
async def empty_lists_and_missing_fields(both: BothSides) -> None:
    await both.enter({"A": ALL_FOO})
    await both.leave()
    await both.leave(("", ""), ("", None))
    await both.sync("A", {}, protocol="", protocol_type="")
    await both.sync("A", {}, instance="")
    await both.beat("A", instance="")
    await both.join("A", instance="")
    await both.commit("A", {}, instance="")
    await both.fetch(of={"foo": []})
    await both.delete_offsets({"bar": []})
    await both.native("N", 0)
    await both.leave()
    await both.leave(("", ""))
    await both.sync("A", instance="")
    await both.beat("A", instance="")


@script()
async def an_empty_instance_id(both: BothSides) -> None:
    await both.join("A", instance="")
    await both.join("A", instance="")
    await both.describe_classic()


@script()
async def a_native_member_with_blank_fields(both: BothSides) -> None:
    await both.native("N", 0)
    await both.native("N", instance="")
    await both.native("N", rack="")
    await both.native("N", assignor="")
    await both.native("N", topics=[""])
    await both.native("N", -1, instance="")
    await both.native("N", -1, topics=["bar"], owned={"foo": (0,)}, assignor="unheard-of")
    await both.native("N", -1, assignor="range", rack="r")


@script()
async def a_full_group_of_names(both: BothSides) -> None:
    long = "m" * 200
    await both.native(long, 0, instance="i" * 200, rack="r" * 200)
    await both.describe()
    await both.native(long, -2, instance="i" * 200)


@script()
async def leaders_that_assign_nonsense(both: BothSides) -> None:
    await both.join("A", version=3)
    await both.sync("A", {"A": {"foo": (0, 0, 7), "nowhere": (1,)}, "nobody": ALL_FOO})
    await both.describe_classic()
    await both.native("N", 0, topics=["bar"])
    await both.describe()


@script()
async def assignments_of_other_versions(both: BothSides) -> None:
    newer = b"\x00\x09" + embedded_assignment(ALL_FOO)[2:] + b"more"
    await both.join("A", version=3, metadata=b"\x00\x07" + subscription(["foo"], version=3)[2:])
    await both.sync("A", {"A": newer})
    await both.native("N", 0)
    await both.describe()
    await both.beat("A")
    await both.join("A", metadata=b"\x00\x07" + subscription(["foo"], version=3)[2:] + b"!")
    await both.sync("A")


@script()
async def user_data_in_a_subscription_is_ignored(both: BothSides) -> None:
    metadata = b"\x00\x00" + b"\x00\x00\x00\x01\x00\x03foo" + b"\x00\x00\x00\x02hi"
    await both.join("A", version=3, metadata=metadata)
    await both.sync("A", {"A": ALL_FOO})
    await both.native("N", 0)
    await both.join("A", metadata=metadata)
    await both.sync("A")


@script(MAIN, UPGRADE)
async def a_classic_member_turns_native_under_its_own_id(both: BothSides) -> None:
    await both.enter({"A": ALL_FOO})
    await both.native("A", 0)
    await both.describe()
    await both.native("A", owned=TOLD)
    await both.beat("A")
    await both.join("A")
    converts = Unlike(
        deviation=Deviation.TARGET_BY_ITSELF, kafka={"groups": (ANY,)}, gateway={"groups": (ANY,)}
    )
    await both.list(unlike=converts if both.profile is MAIN else None)


@script()
async def a_heartbeat_of_the_other_protocol_changes_nothing(both: BothSides) -> None:
    await both.enter({"A": ALL_FOO})
    await both.native("A", 1, unlike=UNKNOWN_NATIVE)
    await both.native("A", -1, error=ErrorCode.GROUP_ID_NOT_FOUND)
    await both.beat("A", error=0)
    await both.native("N", 0)
    await both.native("A", 1)
    await both.describe()
    await both.beat("N", member_id="N")


@script()
async def a_classic_member_speaks_natively_at_its_epoch(both: BothSides) -> None:
    await both.enter({"A": ALL_FOO})
    await both.native("N", 0)
    await both.native("A", 1, owned=ALL_FOO)
    await both.native("A", 1, owned={"foo": (0, 1)})
    await both.describe()
    await both.native("N", -1)
    await both.describe()
    await both.list()


@script()
async def a_member_that_must_revoke_leaves_temporarily(both: BothSides) -> None:
    await both.native("M", 0, instance="i1")
    await both.native("N", 0)
    await both.native("M", owned=TOLD)
    await both.native("M", -2, instance="i1")
    await both.describe()
    await both.native("N")
    await both.native("M2", 0, instance="i1")
    await both.native("M2", owned=TOLD)
    await both.native("N")
    await both.describe()


@script()
async def all_members_change_the_subscription_at_once(both: BothSides) -> None:
    await both.native("M", 0)
    await both.native("N", 0)
    await both.native("M", topics=["six"], owned=ALL_FOO)
    await both.native("N", topics=["six"])
    await both.native("M", owned={})
    await both.native("N", owned={})
    await both.native("M", topics=["foo", "six"], owned=TOLD)
    await both.native("N", topics=["foo"], owned=TOLD)
    await both.native("M", owned=TOLD)
    await both.native("M", owned={})
    await both.native("N", owned={})
    await both.describe()


@script()
async def three_of_each_kind(both: BothSides) -> None:
    await both.enter(
        {"A": {"six": (0, 1)}, "B": {"six": (2, 3)}, "C": {"six": (4, 5)}}, topics=["six"]
    )
    for who in "XYZ":
        await both.native(who, 0, topics=["six"])
    for _ in range(2):
        for who in "ABC":
            await both.beat(who)
            await both.join(who, topics=["six"])
            await both.sync(who)
        for who in "XYZ":
            await both.native(who, owned=TOLD)
    await both.describe()
    await both.leave("A", "Y")
    for who in "BC":
        await both.beat(who)
    await both.native("X")
    await both.describe()
    await both.leave("X", "Z")
    await both.list()
    await both.join("B", topics=["six"])
    await both.list()
