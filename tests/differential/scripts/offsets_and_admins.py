"""Offsets of groups of both kinds, and requests of admin tools (rules 2.9, 3.14, 3.15)."""

from unittest.mock import ANY

from kafka_codecs.error_codes import ErrorCode
from tests.support.differential.deviations import Deviation, Unlike
from tests.support.differential.duel import TOLD, Duel, Owned
from tests.support.differential.profiles import PROFILES
from tests.support.differential.script import script

ALL_FOO: Owned = {"foo": (0, 1, 2)}


@script()
async def commits_of_a_classic_member(duel: Duel) -> None:
    await duel.enter({"A": ALL_FOO})
    for version in range(2, 10):
        await duel.commit("A", {"foo": {0: version}}, version=version)
        await duel.fetch(of={"foo": [0, 1]}, version=version)
    await duel.commit("A", {"foo": {0: 1}}, epoch=0)
    await duel.commit("A", {"foo": {0: 1}}, epoch=2, version=8)
    await duel.commit("A", {"foo": {0: 1}}, epoch=-1)
    await duel.commit("A", {"foo": {0: 1}}, epoch=-1, member_id="")
    await duel.commit("A", {"foo": {0: 1}}, member_id="")
    await duel.commit("A", {"foo": {0: 1}}, member_id="other")
    await duel.commit("A", {"foo": {0: 1}}, instance="i1")
    await duel.commit("A", {"foo": {0: 1}}, epoch=-1, member_id="", instance="i1")
    await duel.commit("A", {"foo": {0: -5}})
    await duel.commit("A", {"foo": {7: 5}, "nowhere": {0: 5}})
    await duel.commit("A", {"foo": {0: 5}}, metadata=None)
    await duel.commit("A", {"foo": {0: 5}}, metadata="m" * 4097)
    await duel.commit("A", {"foo": {0: 5}}, metadata="größe 😀")
    await duel.commit("A", {})
    await duel.fetch()
    await duel.fetch(of={})
    await duel.join("A", topics=["bar"])
    await duel.commit("A", {"foo": {0: 6}})
    await duel.commit("A", {"foo": {0: 6}}, epoch=1)


@script()
async def commits_while_the_others_join(duel: Duel) -> None:
    await duel.enter({"A": ALL_FOO})
    await duel.join("B", version=3)
    await duel.commit("A", {"foo": {0: 5}}, error=0)
    await duel.commit("B", {"foo": {0: 5}}, epoch=1)
    await duel.join("A")
    await duel.commit("A", {"foo": {0: 6}}, error=ErrorCode.REBALANCE_IN_PROGRESS)
    await duel.commit("B", {"foo": {0: 6}}, error=ErrorCode.REBALANCE_IN_PROGRESS)
    await duel.sync("A", {"A": {"foo": [0]}, "B": {"foo": [1, 2]}})
    await duel.sync("B")
    await duel.commit("B", {"foo": {0: 7}})
    await duel.fetch()


@script()
async def commits_of_native_members(duel: Duel) -> None:
    await duel.native("N", 0)
    for version in range(2, 10):
        await duel.commit("N", {"foo": {0: version}}, version=version)
    for epoch in (-2, -1, 0, 1, 3, 2**31 - 1):
        await duel.commit("N", {"foo": {0: 1}}, epoch=epoch)
    await duel.commit("N", {"foo": {0: 1}}, member_id="")
    await duel.commit("N", {"foo": {0: 1}}, epoch=-1, member_id="")
    await duel.commit("N", {"foo": {0: 1}}, member_id="nobody")
    await duel.commit("N", {"foo": {0: 1}}, instance="i1")
    await duel.commit("N", {"bar": {0: 1}, "nowhere": {0: 1}, "foo": {9: 1}})
    await duel.native("N", -1)
    await duel.commit("N", {"foo": {0: 9}}, epoch=2)
    await duel.commit("N", {"foo": {0: 9}}, epoch=-1)
    await duel.commit("N", {"foo": {0: 9}}, epoch=-1, member_id="")
    await duel.fetch()


@script()
async def commits_of_an_older_epoch(duel: Duel) -> None:
    await duel.native("M", 0, topics=["six"])
    await duel.native("N", 0, topics=["six"])
    await duel.native("M", owned={"six": range(6)})
    await duel.commit("M", {"six": {0: 1, 5: 1}})
    await duel.native("M", owned={"six": range(3)})
    await duel.commit("M", {"six": {0: 2}}, epoch=2)
    await duel.commit("M", {"six": {0: 2, 5: 2}}, epoch=2)
    await duel.commit("M", {"six": {5: 2}}, epoch=2)
    await duel.commit("M", {"six": {0: 2}}, epoch=1)
    await duel.native("N")
    await duel.native("N", topics=["six", "foo"])
    await duel.commit("N", {"six": {3: 1}}, epoch=3)
    await duel.commit("N", {"foo": {0: 1}}, epoch=3)
    await duel.commit("N", {"foo": {0: 1}, "six": {3: 2}}, epoch=3)
    await duel.commit("N", {"foo": {0: 1}, "six": {3: 2}})
    await duel.commit("N", {"nowhere": {0: 1}}, epoch=3)
    await duel.commit("N", {}, epoch=3)
    await duel.fetch()


@script()
async def commits_of_classic_members_in_a_consumer_group(duel: Duel) -> None:
    await duel.enter({"A": ALL_FOO})
    await duel.native("N", 0)
    for version in range(2, 10):
        await duel.commit("A", {"foo": {0: version}}, version=version)
    for epoch in (-2, -1, 0, 2):
        await duel.commit("A", {"foo": {0: 1}}, epoch=epoch)
    await duel.join("A")
    await duel.commit("A", {"foo": {0: 10}}, epoch=1)
    await duel.commit("A", {"foo": {2: 10}}, epoch=1)
    await duel.commit("A", {"foo": {2: 10}})
    await duel.native("N", owned={})
    await duel.commit("N", {"foo": {2: 11}}, epoch=1)
    await duel.commit("N", {"foo": {2: 11}})
    await duel.fetch()


@script()
async def fetches_that_name_a_member(duel: Duel) -> None:
    await duel.native("N", 0)
    await duel.commit("N", {"foo": {0: 1}})
    of: Owned = {"foo": [0]}
    await duel.fetch("N", of, member_id="N", epoch=2)
    for epoch in (-2, -1, 0, 1, 3):
        await duel.fetch("N", of, member_id="N", epoch=epoch)
        await duel.fetch("N", of, member_id="nobody", epoch=epoch)
        await duel.fetch("N", of, member_id="", epoch=epoch)
        if epoch < 0:
            await duel.fetch("N", of, epoch=epoch)
    stumbles = Unlike(
        deviation=Deviation.INTERNAL_ERROR, kafka={"groups": ANY}, gateway={"groups": ANY}
    )
    await duel.fetch("N", of, epoch=0, unlike=stumbles)
    await duel.fetch("N", member_id="N", epoch=1)
    await duel.fetch("N", of, member_id="N", epoch=2, require_stable=True)
    await duel.join("A", "A")
    await duel.fetch("A", of, member_id="A", epoch=3)
    await duel.fetch("A", of, member_id="A", epoch=2)
    await duel.fetch("A", of, require_stable=True)


@script()
async def fetches_from_a_classic_group_look_at_no_member(duel: Duel) -> None:
    await duel.enter({"A": ALL_FOO})
    await duel.commit("A", {"foo": {0: 1}})
    for epoch in (-1, 0, 1, 7):
        await duel.fetch("A", {"foo": [0]}, member_id="A", epoch=epoch)
        await duel.fetch("A", {"foo": [0]}, member_id="nobody", epoch=epoch)


@script()
async def deleting_offsets(duel: Duel) -> None:
    await duel.commit("nobody", {"foo": {0: 1}, "bar": {0: 1}}, member_id="", epoch=-1)
    await duel.delete_offsets({"foo": [0, 1, 9], "nowhere": [0]})
    await duel.fetch()
    await duel.enter({"A": ALL_FOO})
    await duel.delete_offsets(
        {"foo": [0], "bar": [0, 9], "nowhere": [0]},
        unlike=Unlike.deletions({"foo": {0: 86}, "bar": {0: 0, 9: 3}, "nowhere": {0: 3}}),
    )
    await duel.native("N", 0, topics=["zar"])
    await duel.delete_offsets(
        {"foo": [0], "zar": [0], "bar": [0, 9], "nowhere": [0]},
        unlike=Unlike.deletions(
            {"foo": {0: 86}, "zar": {0: 86}, "bar": {0: 0, 9: 3}, "nowhere": {0: 3}}
        ),
    )
    await duel.delete_offsets({})


@script()
async def deleting_offsets_of_a_group_that_never_committed(duel: Duel) -> None:
    await duel.native("N", 0)
    await duel.delete_offsets(
        {"foo": [0], "zar": [0, 9], "nowhere": [0]},
        unlike=Unlike.deletions({"foo": {0: 86}, "zar": {0: 0, 9: 3}, "nowhere": {0: 3}}),
    )
    await duel.delete_offsets({"zar": [0]}, unlike=Unlike.deletions({"zar": {0: 0}}))
    await duel.native("N", -1)
    await duel.delete_offsets({"foo": [0], "nowhere": [0]})
    await duel.join("A")
    await duel.delete_offsets({"foo": [0], "nowhere": [0]})


@script()
async def offsets_of_topics_of_a_joining_member(duel: Duel) -> None:
    await duel.enter({"A": ALL_FOO})
    await duel.join("B", version=3, topics=["bar"])
    await duel.delete_offsets(
        {"foo": [0], "bar": [0]}, unlike=Unlike.deletions({"foo": {0: 86}, "bar": {0: 0}})
    )
    await duel.join("A", topics=["zar"])
    await duel.delete_offsets(
        {"foo": [0], "bar": [0], "zar": [0]},
        unlike=Unlike.deletions({"foo": {0: 0}, "bar": {0: 86}, "zar": {0: 86}}),
    )
    await duel.leave("A", "B")
    await duel.join("C")
    await duel.delete_offsets({"foo": [0], "bar": [0]})


@script()
async def deleting_groups(duel: Duel) -> None:
    await duel.enter({"A": ALL_FOO})
    await duel.commit("A", {"foo": {0: 1}})
    for version in range(3):
        await duel.delete_group(version=version)
    await duel.leave("A")
    await duel.delete_group()
    await duel.delete_group()
    await duel.fetch()
    await duel.native("N", 0)
    await duel.commit("N", {"foo": {0: 1}})
    await duel.delete_group()
    await duel.native("N", -1)
    await duel.delete_group(version=0)
    await duel.fetch()
    await duel.describe()
    await duel.join("B")
    await duel.delete_group()
    await duel.list()
    await duel.join("B", "B")


@script()
async def listing_with_filters(duel: Duel) -> None:
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
    await duel.enter({"A": ALL_FOO})
    for states, types in filters:
        await duel.list(states=states, types=types)
    await duel.native("N", 0)
    for states, types in filters:
        await duel.list(states=states, types=types)
    for version in range(6):
        await duel.list(version=version)
    await duel.join("A")
    await duel.native("N", -1)
    for states, types in filters:
        await duel.list(states=states, types=types)
    await duel.list(states=["PreparingRebalance", "COMPLETINGREBALANCE"], version=4)


@script()
async def describing_a_classic_group(duel: Duel) -> None:
    await duel.join("A", error=ErrorCode.MEMBER_ID_REQUIRED)
    for version in range(7):
        await duel.describe_classic(version=version)
    await duel.join("A", rack="r1", embedded_version=3)
    await duel.describe_classic()
    await duel.sync("A", {"A": ALL_FOO})
    for version in range(7):
        await duel.describe_classic(version=version)
    for version in range(2):
        await duel.describe(version=version)


@script()
async def describing_a_mixed_group(duel: Duel) -> None:
    await duel.join("A", version=5, instance="i1", rack="r1", embedded_version=3)
    await duel.sync("A", {"A": ALL_FOO}, instance="i1")
    await duel.native("N", 0, instance="i2", rack="r2", topics=["foo", "nowhere"])
    await duel.native("M", 0, topics=[])
    for version in range(2):
        await duel.describe(version=version)
    await duel.join("A", instance="i1", owned=TOLD, rack="", embedded_version=3)
    await duel.describe()
    await duel.join("A", instance="i1", owned={})
    await duel.native("N")
    await duel.describe()


@script(*PROFILES)
async def an_empty_group_id(duel: Duel) -> None:
    """The empty group id has offsets but no members. One broker is its coordinator, and there both
    sides share the group."""
    for side in duel.sides:
        side.group = ""
    for version in range(2, 10):
        await duel.commit("A", {"foo": {0: version}}, member_id="", epoch=-1, version=version)
    for version in range(1, 10):
        await duel.fetch(of={"foo": (0, 1)}, version=version)
        await duel.fetch(version=max(version, 2))
    for version in (8, 9):
        await duel.commit("A", {"foo": {0: 1}}, member_id="A", epoch=1, version=version)
        await duel.commit("A", {"foo": {0: 1}}, member_id="A", epoch=-1, version=version)
    await duel.fetch("A", {"foo": (0,)}, member_id="A", epoch=1)
    await duel.describe_classic()
    await duel.describe()
    await duel.delete_offsets({"foo": (0,)})
    await duel.join("A", error=ErrorCode.INVALID_GROUP_ID)
    await duel.sync("A", member_id="A", generation=1)
    await duel.beat("A", member_id="A", generation=1)
    await duel.leave("A")
    await duel.native("N", 0, error=ErrorCode.INVALID_REQUEST)
