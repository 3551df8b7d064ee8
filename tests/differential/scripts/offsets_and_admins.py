"""Offsets of groups of both kinds, and requests of admin tools (rules 2.9, 3.14, 3.15)."""

from unittest.mock import ANY

from kafka_codecs.error_codes import ErrorCode
from tests.support.differential.both_sides import TOLD, BothSides, Owned
from tests.support.differential.deviations import Deviation, Unlike
from tests.support.differential.profiles import PROFILES
from tests.support.differential.script import script

ALL_FOO: Owned = {"foo": (0, 1, 2)}


@script()
async def commits_of_a_classic_member(both: BothSides) -> None:
    await both.enter({"A": ALL_FOO})
    for version in range(2, 10):
        await both.commit("A", {"foo": {0: version}}, version=version)
        await both.fetch(of={"foo": [0, 1]}, version=version)
    await both.commit("A", {"foo": {0: 1}}, epoch=0)
    await both.commit("A", {"foo": {0: 1}}, epoch=2, version=8)
    await both.commit("A", {"foo": {0: 1}}, epoch=-1)
    await both.commit("A", {"foo": {0: 1}}, epoch=-1, member_id="")
    await both.commit("A", {"foo": {0: 1}}, member_id="")
    await both.commit("A", {"foo": {0: 1}}, member_id="other")
    await both.commit("A", {"foo": {0: 1}}, instance="i1")
    await both.commit("A", {"foo": {0: 1}}, epoch=-1, member_id="", instance="i1")
    await both.commit("A", {"foo": {0: -5}})
    await both.commit("A", {"foo": {7: 5}, "nowhere": {0: 5}})
    await both.commit("A", {"foo": {0: 5}}, metadata=None)
    await both.commit("A", {"foo": {0: 5}}, metadata="m" * 4097)
    await both.commit("A", {"foo": {0: 5}}, metadata="größe 😀")
    await both.commit("A", {})
    await both.fetch()
    await both.fetch(of={})
    await both.join("A", topics=["bar"])
    await both.commit("A", {"foo": {0: 6}})
    await both.commit("A", {"foo": {0: 6}}, epoch=1)


@script()
async def commits_while_the_others_join(both: BothSides) -> None:
    await both.enter({"A": ALL_FOO})
    await both.join("B", version=3)
    await both.commit("A", {"foo": {0: 5}}, error=0)
    await both.commit("B", {"foo": {0: 5}}, epoch=1)
    await both.join("A")
    await both.commit("A", {"foo": {0: 6}}, error=ErrorCode.REBALANCE_IN_PROGRESS)
    await both.commit("B", {"foo": {0: 6}}, error=ErrorCode.REBALANCE_IN_PROGRESS)
    await both.sync("A", {"A": {"foo": [0]}, "B": {"foo": [1, 2]}})
    await both.sync("B")
    await both.commit("B", {"foo": {0: 7}})
    await both.fetch()


@script()
async def commits_of_native_members(both: BothSides) -> None:
    await both.native("N", 0)
    for version in range(2, 10):
        await both.commit("N", {"foo": {0: version}}, version=version)
    for epoch in (-2, -1, 0, 1, 3, 2**31 - 1):
        await both.commit("N", {"foo": {0: 1}}, epoch=epoch)
    await both.commit("N", {"foo": {0: 1}}, member_id="")
    await both.commit("N", {"foo": {0: 1}}, epoch=-1, member_id="")
    await both.commit("N", {"foo": {0: 1}}, member_id="nobody")
    await both.commit("N", {"foo": {0: 1}}, instance="i1")
    await both.commit("N", {"bar": {0: 1}, "nowhere": {0: 1}, "foo": {9: 1}})
    await both.native("N", -1)
    await both.commit("N", {"foo": {0: 9}}, epoch=2)
    await both.commit("N", {"foo": {0: 9}}, epoch=-1)
    await both.commit("N", {"foo": {0: 9}}, epoch=-1, member_id="")
    await both.fetch()


@script()
async def commits_of_an_older_epoch(both: BothSides) -> None:
    await both.native("M", 0, topics=["six"])
    await both.native("N", 0, topics=["six"])
    await both.native("M", owned={"six": range(6)})
    await both.commit("M", {"six": {0: 1, 5: 1}})
    await both.native("M", owned={"six": range(3)})
    await both.commit("M", {"six": {0: 2}}, epoch=2)
    await both.commit("M", {"six": {0: 2, 5: 2}}, epoch=2)
    await both.commit("M", {"six": {5: 2}}, epoch=2)
    await both.commit("M", {"six": {0: 2}}, epoch=1)
    await both.native("N")
    await both.native("N", topics=["six", "foo"])
    await both.commit("N", {"six": {3: 1}}, epoch=3)
    await both.commit("N", {"foo": {0: 1}}, epoch=3)
    await both.commit("N", {"foo": {0: 1}, "six": {3: 2}}, epoch=3)
    await both.commit("N", {"foo": {0: 1}, "six": {3: 2}})
    await both.commit("N", {"nowhere": {0: 1}}, epoch=3)
    await both.commit("N", {}, epoch=3)
    stale = Unlike(deviation=Deviation.OLD_FETCH, kafka={"groups": ANY}, gateway={"groups": ANY})
    await both.fetch("M", {"six": [0]}, member_id="M", epoch=2, unlike=stale)
    await both.fetch("M", {"six": [0, 5]}, member_id="M", epoch=2)
    await both.fetch("M", member_id="M", epoch=2)
    await both.fetch("N", {"foo": [0], "six": [3]}, member_id="N", epoch=3)
    await both.fetch()


@script()
async def commits_of_classic_members_in_a_consumer_group(both: BothSides) -> None:
    await both.enter({"A": ALL_FOO})
    await both.native("N", 0)
    for version in range(2, 10):
        await both.commit("A", {"foo": {0: version}}, version=version)
    for epoch in (-2, -1, 0, 2):
        await both.commit("A", {"foo": {0: 1}}, epoch=epoch)
    await both.join("A")
    await both.commit("A", {"foo": {0: 10}}, epoch=1)
    await both.commit("A", {"foo": {2: 10}}, epoch=1)
    await both.commit("A", {"foo": {2: 10}})
    await both.native("N", owned={})
    await both.commit("N", {"foo": {2: 11}}, epoch=1)
    await both.commit("N", {"foo": {2: 11}})
    await both.fetch()


@script()
async def fetches_that_name_a_member(both: BothSides) -> None:
    await both.native("N", 0)
    await both.commit("N", {"foo": {0: 1}})
    of: Owned = {"foo": [0]}
    await both.fetch("N", of, member_id="N", epoch=2)
    for epoch in (-2, -1, 0, 1, 3):
        await both.fetch("N", of, member_id="N", epoch=epoch)
        await both.fetch("N", of, member_id="nobody", epoch=epoch)
        await both.fetch("N", of, member_id="", epoch=epoch)
        if epoch < 0:
            await both.fetch("N", of, epoch=epoch)
    stumbles = Unlike(
        deviation=Deviation.INTERNAL_ERROR, kafka={"groups": ANY}, gateway={"groups": ANY}
    )
    await both.fetch("N", of, epoch=0, unlike=stumbles)
    await both.fetch("N", member_id="N", epoch=1)
    await both.fetch("N", of, member_id="N", epoch=2, require_stable=True)
    await both.join("A", "A")
    await both.fetch("A", of, member_id="A", epoch=3)
    await both.fetch("A", of, member_id="A", epoch=2)
    await both.fetch("A", of, require_stable=True)


@script()
async def fetches_from_a_classic_group_look_at_no_member(both: BothSides) -> None:
    await both.enter({"A": ALL_FOO})
    await both.commit("A", {"foo": {0: 1}})
    for epoch in (-1, 0, 1, 7):
        await both.fetch("A", {"foo": [0]}, member_id="A", epoch=epoch)
        await both.fetch("A", {"foo": [0]}, member_id="nobody", epoch=epoch)


@script()
async def deleting_offsets(both: BothSides) -> None:
    await both.commit("nobody", {"foo": {0: 1}, "bar": {0: 1}}, member_id="", epoch=-1)
    await both.delete_offsets({"foo": [0, 1, 9], "nowhere": [0]})
    await both.fetch()
    await both.enter({"A": ALL_FOO})
    await both.delete_offsets(
        {"foo": [0], "bar": [0, 9], "nowhere": [0]},
        unlike=Unlike.deletions({"foo": {0: 86}, "bar": {0: 0, 9: 3}, "nowhere": {0: 3}}),
    )
    await both.native("N", 0, topics=["zar"])
    await both.delete_offsets(
        {"foo": [0], "zar": [0], "bar": [0, 9], "nowhere": [0]},
        unlike=Unlike.deletions(
            {"foo": {0: 86}, "zar": {0: 86}, "bar": {0: 0, 9: 3}, "nowhere": {0: 3}}
        ),
    )
    await both.delete_offsets({})


@script()
async def deleting_offsets_of_a_group_that_never_committed(both: BothSides) -> None:
    await both.native("N", 0)
    await both.delete_offsets(
        {"foo": [0], "zar": [0, 9], "nowhere": [0]},
        unlike=Unlike.deletions({"foo": {0: 86}, "zar": {0: 0, 9: 3}, "nowhere": {0: 3}}),
    )
    await both.delete_offsets({"zar": [0]}, unlike=Unlike.deletions({"zar": {0: 0}}))
    await both.native("N", -1)
    await both.delete_offsets({"foo": [0], "nowhere": [0]})
    await both.join("A")
    await both.delete_offsets({"foo": [0], "nowhere": [0]})


@script()
async def offsets_of_topics_of_a_joining_member(both: BothSides) -> None:
    await both.enter({"A": ALL_FOO})
    await both.join("B", version=3, topics=["bar"])
    await both.delete_offsets(
        {"foo": [0], "bar": [0]}, unlike=Unlike.deletions({"foo": {0: 86}, "bar": {0: 0}})
    )
    await both.join("A", topics=["zar"])
    await both.delete_offsets(
        {"foo": [0], "bar": [0], "zar": [0]},
        unlike=Unlike.deletions({"foo": {0: 0}, "bar": {0: 86}, "zar": {0: 86}}),
    )
    await both.leave("A", "B")
    await both.join("C")
    await both.delete_offsets({"foo": [0], "bar": [0]})


@script()
async def deleting_groups(both: BothSides) -> None:
    await both.enter({"A": ALL_FOO})
    await both.commit("A", {"foo": {0: 1}})
    for version in range(3):
        await both.delete_group(version=version)
    await both.leave("A")
    await both.delete_group()
    await both.delete_group()
    await both.fetch()
    await both.native("N", 0)
    await both.commit("N", {"foo": {0: 1}})
    await both.delete_group()
    await both.native("N", -1)
    await both.delete_group(version=0)
    await both.fetch()
    await both.describe()
    await both.join("B")
    await both.delete_group()
    await both.list()
    await both.join("B", "B")


@script()
async def listing_with_filters(both: BothSides) -> None:
    filters = (
        ((), ()),
        (("stable",), ()),
        (("Stable", "EMPTY"), ()),
        (("Assigning", "reconciling"), ()),
        (("nonsense",), ()),
        (("",), ()),
        ((), ("classic",)),
        ((), ("Consumer",)),
        ((), ("share", "unknown")),
        ((), ("",)),
        (("stable",), ("CLASSIC", "consumer")),
    )
    await both.enter({"A": ALL_FOO})
    for states, types in filters:
        await both.list(states=states, types=types)
    await both.native("N", 0)
    for states, types in filters:
        await both.list(states=states, types=types)
    for version in range(6):
        await both.list(version=version)
    await both.join("A")
    await both.native("N", -1)
    for states, types in filters:
        await both.list(states=states, types=types)
    await both.list(states=["PreparingRebalance", "COMPLETINGREBALANCE"], version=4)


@script()
async def describing_a_classic_group(both: BothSides) -> None:
    await both.join("A", error=ErrorCode.MEMBER_ID_REQUIRED)
    for version in range(7):
        await both.describe_classic(version=version)
    await both.join("A", rack="r1", embedded_version=3)
    await both.describe_classic()
    await both.sync("A", {"A": ALL_FOO})
    for version in range(7):
        await both.describe_classic(version=version)
    for version in range(2):
        await both.describe(version=version)


@script()
async def describing_a_mixed_group(both: BothSides) -> None:
    await both.join("A", version=5, instance="i1", rack="r1", embedded_version=3)
    await both.sync("A", {"A": ALL_FOO}, instance="i1")
    await both.native("N", 0, instance="i2", rack="r2", topics=["foo", "nowhere"])
    await both.native("M", 0, topics=[])
    for version in range(2):
        await both.describe(version=version)
    await both.join("A", instance="i1", owned=TOLD, rack="", embedded_version=3)
    await both.describe()
    await both.join("A", instance="i1", owned={})
    await both.native("N")
    await both.describe()


@script(*PROFILES)
async def an_empty_group_id(both: BothSides) -> None:
    """The empty group id has offsets but no members. One broker is its coordinator, and there both
    sides share the group."""
    for side in both.sides:
        side.group = ""
    for version in range(2, 10):
        await both.commit("A", {"foo": {0: version}}, member_id="", epoch=-1, version=version)
    for version in range(1, 10):
        await both.fetch(of={"foo": (0, 1)}, version=version)
        await both.fetch(version=max(version, 2))
    for version in (8, 9):
        await both.commit("A", {"foo": {0: 1}}, member_id="A", epoch=1, version=version)
        await both.commit("A", {"foo": {0: 1}}, member_id="A", epoch=-1, version=version)
    await both.fetch("A", {"foo": (0,)}, member_id="A", epoch=1)
    await both.describe_classic()
    await both.describe()
    await both.delete_offsets({"foo": (0,)})
    await both.join("A", error=ErrorCode.INVALID_GROUP_ID)
    await both.sync("A", member_id="A", generation=1)
    await both.beat("A", member_id="A", generation=1)
    await both.leave("A")
    await both.native("N", 0, error=ErrorCode.INVALID_REQUEST)
