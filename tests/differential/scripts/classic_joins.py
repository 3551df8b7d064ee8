"""JoinGroup and SyncGroup of a classic group: versions, ids, states, protocols (rules 2.2 to
2.6)."""

from collections.abc import Mapping
from typing import Any
from unittest.mock import ANY

from kafka_codecs.error_codes import ErrorCode
from tests.support.differential.both_sides import TOLD, WAITS, BothSides, Owned
from tests.support.differential.deviations import UNKNOWN_NATIVE, Deviation, Unlike
from tests.support.differential.profiles import MAIN, TIGHT
from tests.support.differential.script import script
from tests.support.group_values import subscription

ALL_FOO: Owned = {"foo": (0, 1, 2)}
HALVES: Mapping[str, Owned] = {"A": {"foo": (0, 1)}, "B": {"foo": (2,)}}
RANGE = ("range", subscription(["foo"]))
ROUND_ROBIN = ("roundrobin", subscription(["foo"]))
STICKY = ("sticky", subscription(["foo"]))


@script()
async def every_version_of_join_enters_a_new_group(both: BothSides) -> None:
    for version in range(10):
        who = f"v{version}"
        answer = await both.join(who, version=version)
        if answer is not None and answer["error_code"]:
            await both.join(who, version=version)
        await both.sync(who, {who: ALL_FOO}, version=min(version, 5))
        await both.beat(who, version=min(version, 4))
        await both.describe_classic()
        await both.leave(who, version=min(version, 5))


@script()
async def old_versions_join_without_a_second_round(both: BothSides) -> None:
    await both.join("A", version=3)
    await both.join("B", version=2)
    assert both.is_parked("B")
    await both.beat("A", version=1, error=ErrorCode.REBALANCE_IN_PROGRESS)
    await both.join("A", version=3)
    await both.sync("B", version=1)
    await both.sync("A", HALVES, version=2)
    await both.beat("A", version=0)
    await both.beat("B", version=0)
    await both.leave("B", version=1)
    await both.beat("A")
    await both.describe_classic(version=0)


@script()
async def requests_to_a_group_that_is_not_there(both: BothSides) -> None:
    await both.beat("A", generation=1)
    await both.beat("A", generation=1, instance="i1")
    await both.sync("A", generation=1)
    await both.sync("A", generation=1, protocol=None)
    await both.sync("A", generation=1, protocol_type=None, protocol=None, version=4)
    await both.leave("A")
    await both.leave("A", version=1)
    await both.leave(("", "i1"), ("A", "i1"))
    await both.leave()
    await both.join("A", "made-up")
    await both.join("A", "made-up", instance="i1")
    await both.native("N", 3, unlike=UNKNOWN_NATIVE)
    await both.native("N", -1)
    await both.native("N", -2, instance="i1")
    await both.describe_classic()
    await both.describe_classic(version=5)
    await both.describe()
    await both.delete_group()
    await both.delete_offsets({"foo": [0]})
    await both.fetch()
    await both.fetch(of={"foo": [0, 7], "nowhere": [1]})
    for version in range(1, 10):
        await both.fetch(of={"foo": [0]}, version=version)
    await both.fetch("A", {"foo": [0]}, member_id="A", epoch=1)
    await both.commit("A", {"foo": {0: 1}}, epoch=1)
    await both.commit("A", {"foo": {0: 1}}, epoch=1, version=8)
    await both.commit("A", {"foo": {0: 1}}, epoch=0, member_id="")
    await both.list()


@script()
async def session_timeouts_at_their_bounds(both: BothSides) -> None:
    for timeout in (499, 1_800_001, 0, -1, 2**31 - 1, -(2**31)):
        await both.join("A", session_timeout_ms=timeout, error=ErrorCode.INVALID_SESSION_TIMEOUT)
        await both.join(
            "A", "made-up", session_timeout_ms=timeout, error=ErrorCode.INVALID_SESSION_TIMEOUT
        )
        await both.join(
            "A", "", session_timeout_ms=timeout, version=5, error=ErrorCode.INVALID_SESSION_TIMEOUT
        )
    for who, timeout in (("B", 500), ("C", 1_800_000)):
        await both.join(who, session_timeout_ms=timeout, error=ErrorCode.MEMBER_ID_REQUIRED)
    await both.list()


@script()
async def rebalance_timeouts_of_any_size(both: BothSides) -> None:
    for number, timeout in enumerate((-1, 0, 1, 2**31 - 1, -(2**31))):
        who = f"m{number}"
        await both.join(who, rebalance_timeout_ms=timeout)
        await both.join(who, rebalance_timeout_ms=timeout)
        await both.leave(who)


@script()
async def a_join_needs_a_protocol_and_a_type(both: BothSides) -> None:
    await both.join("A", protocols=[], error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    await both.join("A", protocols=[], version=3, error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    await both.join("A", protocol_type="", error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    await both.join("A", protocol_type="", version=0, error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    created = Unlike(
        deviation=Deviation.NOTHING_CREATED,
        kafka={"groups": (ANY,)},
        gateway={"groups": ()},
    )
    await both.list(unlike=created)
    await both.enter({"A": ALL_FOO})
    await both.join("B", protocols=[], error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    await both.join("B", protocol_type="other", error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    await both.join("B", protocol="other", error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    await both.join("B", "A", protocol="other")
    await both.join("A", protocol="other")
    await both.sync("A", {"A": ALL_FOO}, protocol="other")
    await both.beat("A")


@script()
async def a_refused_join_of_an_empty_consumer_group(both: BothSides) -> None:
    await both.native("N", 0)
    await both.native("N", -1)
    await both.join("A", "made-up", error=ErrorCode.UNKNOWN_MEMBER_ID)
    await both.join("A", protocols=[], error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    # Kafka shows the leftovers only after another group has written a record.
    await both.native("N", 0, unlike=Unlike.epoch("member_epoch", kafka=2, gateway=4))


@script()
async def an_empty_group_of_another_type_may_be_reused(both: BothSides) -> None:
    await both.enter({"A": ALL_FOO})
    await both.leave("A")
    await both.describe_classic()
    await both.join("B", protocol="other")
    await both.join("B", protocol="other")
    await both.sync("B", {"B": ALL_FOO}, protocol="other")
    await both.describe_classic()


@script()
async def the_protocol_with_most_votes_wins(both: BothSides) -> None:
    await both.join("A", protocols=[RANGE, ROUND_ROBIN], version=3)
    await both.sync("A", {"A": ALL_FOO})
    await both.join("B", protocols=[ROUND_ROBIN, RANGE], version=3)
    await both.join("C", protocols=[ROUND_ROBIN, STICKY, RANGE], version=3)
    await both.join("A", protocols=[RANGE, ROUND_ROBIN])
    for who in "BCA":
        await both.sync(who, {"A": ALL_FOO}, protocol="roundrobin")
    await both.describe_classic()
    await both.join("D", protocols=[STICKY], error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    await both.join("D", protocols=[STICKY, RANGE], version=3)
    await both.beat("A")
    for who in "ABC":
        await both.join(who, protocols=[RANGE, ROUND_ROBIN])
    await both.sync("D", protocol="roundrobin")
    await both.sync("D", protocol="range")
    await both.sync("A", {"D": ALL_FOO}, protocol="range")
    await both.sync("B")
    await both.sync("C", version=3)
    await both.describe_classic()


@script()
async def a_join_may_be_repeated_in_every_state(both: BothSides) -> None:
    await both.join("A")
    await both.join("A")
    await both.join("A")
    await both.join("A", topics=["bar"])
    await both.sync("A", {"A": {"bar": [0]}})
    await both.sync("A")
    await both.join("B")
    await both.join("B")
    await both.beat("A", error=ErrorCode.REBALANCE_IN_PROGRESS)
    await both.sync("A", error=ErrorCode.REBALANCE_IN_PROGRESS)
    await both.join("A", topics=["bar"])
    await both.join("B")
    await both.join("A", topics=["bar"])
    await both.sync("B")
    assert both.is_parked("B")
    await both.sync("A", HALVES)
    await both.join("B")
    await both.join("B", topics=["bar"])
    assert both.is_parked("B")
    await both.join("A")
    await both.sync("A", HALVES)
    await both.sync("B")
    await both.sync("B", HALVES)


@script()
async def wrong_generations_and_ids(both: BothSides) -> None:
    await both.enter({"A": ALL_FOO})
    for generation in (0, 2, -1, -2, 2**31 - 1, -(2**31)):
        await both.beat("A", generation=generation)
        await both.sync("A", generation=generation)
        await both.commit("A", {"foo": {0: 1}}, epoch=generation)
    await both.beat("A", member_id="other")
    await both.beat("A", member_id="")
    await both.beat("A", instance="i1")
    await both.sync("A", member_id="other")
    await both.sync("A", member_id="")
    await both.sync("A", instance="i1")
    await both.sync("A", protocol="other")
    await both.sync("A", protocol_type="other")
    await both.sync("A", protocol_type=None)
    await both.sync("A", protocol=None)
    await both.sync("A", version=4)
    await both.join("A", "other")
    await both.join("A", instance="i1")
    await both.join("A", "other", instance="i1")
    await both.leave("other", ("A", "i1"), ("", "i1"), ("", None), "A")
    await both.beat("A")


@script()
async def a_sync_without_its_leaders(both: BothSides) -> None:
    await both.join("A", version=3)
    await both.join("B", version=3)
    await both.join("A")
    await both.sync("B", {"A": ALL_FOO, "B": ALL_FOO})
    assert both.is_parked("B")
    await both.beat("A", error=0)
    await both.beat("B", error=0)
    await both.commit("A", {"foo": {0: 1}}, error=ErrorCode.REBALANCE_IN_PROGRESS)
    overwritten = Unlike(deviation=Deviation.OVERWRITTEN, kafka=WAITS, gateway={"error_code": 27})
    both.will_differ("B", overwritten)
    await both.sync("B")
    await both.sync("A", {"A": ALL_FOO})
    await both.beat("B", error=0)
    await both.sync("B")
    await both.describe_classic()


@script()
async def a_pending_id_blocks_the_join_phase(both: BothSides) -> None:
    await both.enter({"A": ALL_FOO})
    await both.join("B", error=ErrorCode.MEMBER_ID_REQUIRED)
    await both.join("A", topics=["bar"])
    assert both.is_parked("A")
    await both.describe_classic()
    await both.beat("B", generation=1)
    await both.sync("B", generation=1)
    await both.commit("B", {"foo": {0: 1}}, epoch=1)
    await both.leave("B")
    assert not both.is_parked("A")
    await both.sync("A", {"A": ALL_FOO})
    await both.join("B")
    await both.join("C", error=ErrorCode.MEMBER_ID_REQUIRED)
    stumbles = Unlike.error(Deviation.INTERNAL_ERROR, kafka=-1, gateway=25)
    await both.join("C", instance="i1", unlike=stumbles)
    await both.join("C")
    await both.describe_classic()


@script()
async def a_group_of_pending_ids_only(both: BothSides) -> None:
    await both.join("A", error=ErrorCode.MEMBER_ID_REQUIRED)
    await both.join("B", error=ErrorCode.MEMBER_ID_REQUIRED)
    await both.list()
    await both.describe_classic()
    await both.join("B", "A")
    await both.leave("B", "B")
    await both.join("B")
    await both.native("N", 0)
    await both.list()


@script()
async def the_group_empties_out_of_pending_ids_for_a_native_member(both: BothSides) -> None:
    await both.join("A", error=ErrorCode.MEMBER_ID_REQUIRED)
    await both.native("N", 0)
    await both.list()
    await both.join("A")
    await both.sync("A")
    await both.describe()


@script()
async def leaving_in_every_shape(both: BothSides) -> None:
    for version in range(6):
        who = f"v{version}"
        await both.join(who, version=3)
        await both.sync(who, {who: ALL_FOO})
        await both.leave(who, version=version)
        await both.leave(who, version=version)
        await both.leave("nobody", version=version)
        await both.leave("", version=version)
    await both.enter({"A": ALL_FOO})
    await both.leave()
    await both.leave("A", "A", "A")
    await both.describe_classic()


@script()
async def leaving_while_the_others_wait(both: BothSides) -> None:
    await both.enter({"A": ALL_FOO, "B": {}})
    await both.join("B", topics=["bar"])
    await both.join("C", error=ErrorCode.MEMBER_ID_REQUIRED)
    await both.leave("A")
    assert both.is_parked("B")
    await both.leave("C")
    assert not both.parked
    await both.beat("B")
    await both.sync("B")
    await both.join("B")
    await both.sync("B", {"B": ALL_FOO})
    await both.leave("B")
    await both.list()


@script()
async def a_member_with_a_parked_join_leaves(both: BothSides) -> None:
    await both.enter({"A": ALL_FOO})
    await both.join("B", version=3)
    await both.leave("unknown", "A")
    for who in "AB":
        await both.beat(who)
    await both.describe_classic()


@script()
async def connect_and_other_types_are_groups_too(both: BothSides) -> None:
    how: dict[str, Any] = {"protocol_type": "connect", "metadata": b"\x00\x01anything"}
    await both.join("A", **how)
    await both.join("A", **how)
    await both.sync("A", {"A": b"at all"}, protocol_type="connect")
    await both.beat("A")
    await both.join("B", error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    await both.native("N", 0, error=ErrorCode.GROUP_ID_NOT_FOUND)
    await both.describe_classic()
    await both.describe()
    await both.list()
    await both.commit("A", {"foo": {0: 1}})
    await both.delete_offsets({"foo": [0]})
    await both.delete_group()
    await both.leave("A")
    await both.delete_group()


@script()
async def metadata_that_is_no_subscription(both: BothSides) -> None:
    for number, metadata in enumerate((b"", b"\x00", b"\xff\xff")):
        who = f"m{number}"
        await both.join(who, metadata=metadata)
        await both.join(who, metadata=metadata)
        await both.sync(who, {who: metadata})
        await both.delete_offsets({"foo": [0]})
        await both.describe_classic()
        await both.native("N", 0, error=ErrorCode.GROUP_ID_NOT_FOUND)
        await both.leave(who)


@script()
async def another_client_uses_a_members_id(both: BothSides) -> None:
    await both.enter({"A": ALL_FOO})
    await both.join("Z", "A")
    await both.sync("Z", {"A": ALL_FOO}, member_id="A")
    await both.describe_classic()
    await both.native("N", 0)
    await both.describe()
    await both.join("Y", "A")
    await both.describe()
    await both.native("X", 0, member_id="A")
    await both.describe()


@script()
async def ids_in_other_alphabets(both: BothSides) -> None:
    await both.join("ä-ö-ü", instance="größe-Ω-😀", version=5)
    await both.sync("ä-ö-ü", {"ä-ö-ü": ALL_FOO}, instance="größe-Ω-😀")
    await both.describe_classic()
    await both.native("Ñ", 0, instance="größe-Ω-😀")
    await both.describe()
    await both.beat("ä-ö-ü", instance="größe-Ω-😀")


@script()
async def cooperative_members_own_what_they_had(both: BothSides) -> None:
    how: dict[str, Any] = {"protocol": "cooperative-sticky"}
    await both.enter({"A": ALL_FOO, "B": {}}, **how)
    await both.join("A", owned=TOLD, generation=2, embedded_version=3, **how)
    await both.join("B", owned=TOLD, **how)
    await both.sync("A", HALVES, protocol="cooperative-sticky")
    await both.sync("B", protocol="cooperative-sticky")
    await both.describe_classic()


@script(TIGHT)
async def the_first_rebalance_waits_for_more(both: BothSides) -> None:
    await both.join("A", version=3)
    assert both.is_parked("A")
    await both.join("B", version=3)
    await both.join("C", version=4, error=ErrorCode.MEMBER_ID_REQUIRED)
    await both.describe_classic()
    await both.answers("A")
    await both.answers("B")
    await both.sync("A", HALVES)
    await both.sync("B", HALVES)
    await both.join("C")
    await both.beat("A")
    await both.join("A")
    await both.join("B")
    await both.sync("C")


@script(TIGHT)
async def silent_classic_members_expire(both: BothSides) -> None:
    await both.join("A", version=3, session_timeout_ms=1_200)
    await both.answers("A")
    await both.sync("A", {"A": ALL_FOO})
    await both.sleep(0.8)
    await both.beat("A", error=0)
    await both.sleep(0.8)
    await both.beat("A", error=0)
    await both.sleep(1.6)
    await both.beat("A", error=ErrorCode.UNKNOWN_MEMBER_ID)
    await both.describe_classic()
    await both.list()


@script(MAIN)
async def a_member_that_does_not_sync_is_removed(both: BothSides) -> None:
    await both.join("A", version=3, rebalance_timeout_ms=1_500)
    await both.join("B", version=3, rebalance_timeout_ms=1_500)
    await both.join("A", rebalance_timeout_ms=1_500)
    await both.sync("B")
    await both.sleep(2.2)
    await both.describe_classic()
    await both.beat("A")
    await both.beat("B")
    await both.join("B", rebalance_timeout_ms=1_500)
    await both.sync("B", {"B": ALL_FOO})


@script(MAIN)
async def a_member_that_does_not_rejoin_is_removed(both: BothSides) -> None:
    await both.enter({"A": ALL_FOO, "B": {}}, rebalance_timeout_ms=1_500)
    await both.join("A", topics=["bar"], rebalance_timeout_ms=1_500)
    assert both.is_parked("A")
    await both.beat("B", error=ErrorCode.REBALANCE_IN_PROGRESS)
    await both.answers("A")
    await both.beat("B", error=ErrorCode.UNKNOWN_MEMBER_ID)
    await both.sync("A", {"A": ALL_FOO})
    await both.describe_classic()


@script(MAIN)
async def a_static_member_that_does_not_rejoin_stays(both: BothSides) -> None:
    await both.join("A", version=5, instance="i1", rebalance_timeout_ms=1_500)
    await both.sync("A", {"A": ALL_FOO}, instance="i1")
    await both.join("B", version=3, rebalance_timeout_ms=1_500)
    assert both.is_parked("B")
    await both.answers("B")
    await both.describe_classic()
    await both.beat("A", instance="i1")
    await both.sync("B", {"B": ALL_FOO, "A": {}})
    await both.beat("A", instance="i1", generation=2)


@script(MAIN)
async def an_id_that_is_never_used_expires(both: BothSides) -> None:
    await both.enter({"A": ALL_FOO})
    await both.join("B", error=ErrorCode.MEMBER_ID_REQUIRED, session_timeout_ms=1_200)
    await both.join("A", topics=["bar"])
    assert both.is_parked("A")
    await both.answers("A")
    await both.join("B", error=ErrorCode.UNKNOWN_MEMBER_ID)
