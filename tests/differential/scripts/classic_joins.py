"""JoinGroup and SyncGroup of a classic group: versions, ids, states, protocols (rules 2.2 to
2.6)."""

from collections.abc import Mapping
from typing import Any
from unittest.mock import ANY

from kafka_codecs.error_codes import ErrorCode
from tests.support.differential.deviations import UNKNOWN_NATIVE, Deviation, Unlike
from tests.support.differential.duel import TOLD, WAITS, Duel, Owned
from tests.support.differential.profiles import MAIN, TIGHT
from tests.support.differential.script import script
from tests.support.group_values import subscription

ALL_FOO: Owned = {"foo": (0, 1, 2)}
HALVES: Mapping[str, Owned] = {"A": {"foo": (0, 1)}, "B": {"foo": (2,)}}
RANGE = ("range", subscription(["foo"]))
ROUND_ROBIN = ("roundrobin", subscription(["foo"]))
STICKY = ("sticky", subscription(["foo"]))


@script()
async def every_version_of_join_enters_a_new_group(duel: Duel) -> None:
    for version in range(10):
        who = f"v{version}"
        answer = await duel.join(who, version=version)
        if answer is not None and answer["error_code"]:
            await duel.join(who, version=version)
        await duel.sync(who, {who: ALL_FOO}, version=min(version, 5))
        await duel.beat(who, version=min(version, 4))
        await duel.describe_classic()
        await duel.leave(who, version=min(version, 5))


@script()
async def old_versions_join_without_a_second_round(duel: Duel) -> None:
    await duel.join("A", version=3)
    await duel.join("B", version=2)
    assert duel.is_parked("B")
    await duel.beat("A", version=1, error=ErrorCode.REBALANCE_IN_PROGRESS)
    await duel.join("A", version=3)
    await duel.sync("B", version=1)
    await duel.sync("A", HALVES, version=2)
    await duel.beat("A", version=0)
    await duel.beat("B", version=0)
    await duel.leave("B", version=1)
    await duel.beat("A")
    await duel.describe_classic(version=0)


@script()
async def requests_to_a_group_that_is_not_there(duel: Duel) -> None:
    await duel.beat("A", generation=1)
    await duel.beat("A", generation=1, instance="i1")
    await duel.sync("A", generation=1)
    await duel.sync("A", generation=1, protocol=None)
    await duel.sync("A", generation=1, protocol_type=None, protocol=None, version=4)
    await duel.leave("A")
    await duel.leave("A", version=1)
    await duel.leave(("", "i1"), ("A", "i1"))
    await duel.leave()
    await duel.join("A", "made-up")
    await duel.join("A", "made-up", instance="i1")
    await duel.native("N", 3, unlike=UNKNOWN_NATIVE)
    await duel.native("N", -1)
    await duel.native("N", -2, instance="i1")
    await duel.describe_classic()
    await duel.describe_classic(version=5)
    await duel.describe()
    await duel.delete_group()
    await duel.delete_offsets({"foo": [0]})
    await duel.fetch()
    await duel.fetch(of={"foo": [0, 7], "nowhere": [1]})
    for version in range(1, 10):
        await duel.fetch(of={"foo": [0]}, version=version)
    await duel.fetch("A", {"foo": [0]}, member_id="A", epoch=1)
    await duel.commit("A", {"foo": {0: 1}}, epoch=1)
    await duel.commit("A", {"foo": {0: 1}}, epoch=1, version=8)
    await duel.commit("A", {"foo": {0: 1}}, epoch=0, member_id="")
    await duel.list()


@script()
async def session_timeouts_at_their_bounds(duel: Duel) -> None:
    for timeout in (499, 1_800_001, 0, -1, 2**31 - 1, -(2**31)):
        await duel.join("A", session_timeout_ms=timeout, error=ErrorCode.INVALID_SESSION_TIMEOUT)
        await duel.join(
            "A", "made-up", session_timeout_ms=timeout, error=ErrorCode.INVALID_SESSION_TIMEOUT
        )
        await duel.join(
            "A", "", session_timeout_ms=timeout, version=5, error=ErrorCode.INVALID_SESSION_TIMEOUT
        )
    for who, timeout in (("B", 500), ("C", 1_800_000)):
        await duel.join(who, session_timeout_ms=timeout, error=ErrorCode.MEMBER_ID_REQUIRED)
    await duel.list()


@script()
async def rebalance_timeouts_of_any_size(duel: Duel) -> None:
    for number, timeout in enumerate((-1, 0, 1, 2**31 - 1, -(2**31))):
        who = f"m{number}"
        await duel.join(who, rebalance_timeout_ms=timeout)
        await duel.join(who, rebalance_timeout_ms=timeout)
        await duel.leave(who)


@script()
async def a_join_needs_a_protocol_and_a_type(duel: Duel) -> None:
    await duel.join("A", protocols=[], error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    await duel.join("A", protocols=[], version=3, error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    await duel.join("A", protocol_type="", error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    await duel.join("A", protocol_type="", version=0, error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    created = Unlike(
        deviation=Deviation.NOTHING_CREATED,
        kafka={"groups": (ANY,)},
        gateway={"groups": ()},
    )
    await duel.list(unlike=created)
    await duel.enter({"A": ALL_FOO})
    await duel.join("B", protocols=[], error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    await duel.join("B", protocol_type="other", error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    await duel.join("B", protocol="other", error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    await duel.join("B", "A", protocol="other")
    await duel.join("A", protocol="other")
    await duel.sync("A", {"A": ALL_FOO}, protocol="other")
    await duel.beat("A")


@script()
async def a_refused_join_of_an_empty_consumer_group(duel: Duel) -> None:
    await duel.native("N", 0)
    await duel.native("N", -1)
    await duel.join("A", "made-up", error=ErrorCode.UNKNOWN_MEMBER_ID)
    await duel.join("A", protocols=[], error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    # Kafka shows the leftovers only after another group has written a record.
    await duel.native("N", 0)


@script()
async def an_empty_group_of_another_type_may_be_reused(duel: Duel) -> None:
    await duel.enter({"A": ALL_FOO})
    await duel.leave("A")
    await duel.describe_classic()
    await duel.join("B", protocol="other")
    await duel.join("B", protocol="other")
    await duel.sync("B", {"B": ALL_FOO}, protocol="other")
    await duel.describe_classic()


@script()
async def the_protocol_with_most_votes_wins(duel: Duel) -> None:
    await duel.join("A", protocols=[RANGE, ROUND_ROBIN], version=3)
    await duel.sync("A", {"A": ALL_FOO})
    await duel.join("B", protocols=[ROUND_ROBIN, RANGE], version=3)
    await duel.join("C", protocols=[ROUND_ROBIN, STICKY, RANGE], version=3)
    await duel.join("A", protocols=[RANGE, ROUND_ROBIN])
    for who in "BCA":
        await duel.sync(who, {"A": ALL_FOO}, protocol="roundrobin")
    await duel.describe_classic()
    await duel.join("D", protocols=[STICKY], error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    await duel.join("D", protocols=[STICKY, RANGE], version=3)
    await duel.beat("A")
    for who in "ABC":
        await duel.join(who, protocols=[RANGE, ROUND_ROBIN])
    await duel.sync("D", protocol="roundrobin")
    await duel.sync("D", protocol="range")
    await duel.sync("A", {"D": ALL_FOO}, protocol="range")
    await duel.sync("B")
    await duel.sync("C", version=3)
    await duel.describe_classic()


@script()
async def a_join_may_be_repeated_in_every_state(duel: Duel) -> None:
    await duel.join("A")
    await duel.join("A")
    await duel.join("A")
    await duel.join("A", topics=["bar"])
    await duel.sync("A", {"A": {"bar": [0]}})
    await duel.sync("A")
    await duel.join("B")
    await duel.join("B")
    await duel.beat("A", error=ErrorCode.REBALANCE_IN_PROGRESS)
    await duel.sync("A", error=ErrorCode.REBALANCE_IN_PROGRESS)
    await duel.join("A", topics=["bar"])
    await duel.join("B")
    await duel.join("A", topics=["bar"])
    await duel.sync("B")
    assert duel.is_parked("B")
    await duel.sync("A", HALVES)
    await duel.join("B")
    await duel.join("B", topics=["bar"])
    assert duel.is_parked("B")
    await duel.join("A")
    await duel.sync("A", HALVES)
    await duel.sync("B")
    await duel.sync("B", HALVES)


@script()
async def wrong_generations_and_ids(duel: Duel) -> None:
    await duel.enter({"A": ALL_FOO})
    for generation in (0, 2, -1, -2, 2**31 - 1, -(2**31)):
        await duel.beat("A", generation=generation)
        await duel.sync("A", generation=generation)
        await duel.commit("A", {"foo": {0: 1}}, epoch=generation)
    await duel.beat("A", member_id="other")
    await duel.beat("A", member_id="")
    await duel.beat("A", instance="i1")
    await duel.sync("A", member_id="other")
    await duel.sync("A", member_id="")
    await duel.sync("A", instance="i1")
    await duel.sync("A", protocol="other")
    await duel.sync("A", protocol_type="other")
    await duel.sync("A", protocol_type=None)
    await duel.sync("A", protocol=None)
    await duel.sync("A", version=4)
    await duel.join("A", "other")
    await duel.join("A", instance="i1")
    await duel.join("A", "other", instance="i1")
    await duel.leave("other", ("A", "i1"), ("", "i1"), ("", None), "A")
    await duel.beat("A")


@script()
async def a_sync_without_its_leaders(duel: Duel) -> None:
    await duel.join("A", version=3)
    await duel.join("B", version=3)
    await duel.join("A")
    await duel.sync("B", {"A": ALL_FOO, "B": ALL_FOO})
    assert duel.is_parked("B")
    await duel.beat("A", error=0)
    await duel.beat("B", error=0)
    await duel.commit("A", {"foo": {0: 1}}, error=ErrorCode.REBALANCE_IN_PROGRESS)
    overwritten = Unlike(deviation=Deviation.OVERWRITTEN, kafka=WAITS, gateway={"error_code": 27})
    duel.will_differ("B", overwritten)
    await duel.sync("B")
    await duel.sync("A", {"A": ALL_FOO})
    await duel.beat("B", error=0)
    await duel.sync("B")
    await duel.describe_classic()


@script()
async def a_pending_id_blocks_the_join_phase(duel: Duel) -> None:
    await duel.enter({"A": ALL_FOO})
    await duel.join("B", error=ErrorCode.MEMBER_ID_REQUIRED)
    await duel.join("A", topics=["bar"])
    assert duel.is_parked("A")
    await duel.describe_classic()
    await duel.beat("B", generation=1)
    await duel.sync("B", generation=1)
    await duel.commit("B", {"foo": {0: 1}}, epoch=1)
    await duel.leave("B")
    assert not duel.is_parked("A")
    await duel.sync("A", {"A": ALL_FOO})
    await duel.join("B")
    await duel.join("C", error=ErrorCode.MEMBER_ID_REQUIRED)
    stumbles = Unlike.error(Deviation.INTERNAL_ERROR, kafka=-1, gateway=25)
    await duel.join("C", instance="i1", unlike=stumbles)
    await duel.join("C")
    await duel.describe_classic()


@script()
async def a_group_of_pending_ids_only(duel: Duel) -> None:
    await duel.join("A", error=ErrorCode.MEMBER_ID_REQUIRED)
    await duel.join("B", error=ErrorCode.MEMBER_ID_REQUIRED)
    await duel.list()
    await duel.describe_classic()
    await duel.join("B", "A")
    await duel.leave("B", "B")
    await duel.join("B")
    await duel.native("N", 0)
    await duel.list()


@script()
async def the_group_empties_out_of_pending_ids_for_a_native_member(duel: Duel) -> None:
    await duel.join("A", error=ErrorCode.MEMBER_ID_REQUIRED)
    await duel.native("N", 0)
    await duel.list()
    await duel.join("A")
    await duel.sync("A")
    await duel.describe()


@script()
async def leaving_in_every_shape(duel: Duel) -> None:
    for version in range(6):
        who = f"v{version}"
        await duel.join(who, version=3)
        await duel.sync(who, {who: ALL_FOO})
        await duel.leave(who, version=version)
        await duel.leave(who, version=version)
        await duel.leave("nobody", version=version)
        await duel.leave("", version=version)
    await duel.enter({"A": ALL_FOO})
    await duel.leave()
    await duel.leave("A", "A", "A")
    await duel.describe_classic()


@script()
async def leaving_while_the_others_wait(duel: Duel) -> None:
    await duel.enter({"A": ALL_FOO, "B": {}})
    await duel.join("B", topics=["bar"])
    await duel.join("C", error=ErrorCode.MEMBER_ID_REQUIRED)
    await duel.leave("A")
    assert duel.is_parked("B")
    await duel.leave("C")
    assert not duel.parked
    await duel.beat("B")
    await duel.sync("B")
    await duel.join("B")
    await duel.sync("B", {"B": ALL_FOO})
    await duel.leave("B")
    await duel.list()


@script()
async def a_member_with_a_parked_join_leaves(duel: Duel) -> None:
    await duel.enter({"A": ALL_FOO})
    await duel.join("B", version=3)
    await duel.leave("unknown", "A")
    for who in "AB":
        await duel.beat(who)
    await duel.describe_classic()


@script()
async def connect_and_other_types_are_groups_too(duel: Duel) -> None:
    how: dict[str, Any] = {"protocol_type": "connect", "metadata": b"\x00\x01anything"}
    await duel.join("A", **how)
    await duel.join("A", **how)
    await duel.sync("A", {"A": b"at all"}, protocol_type="connect")
    await duel.beat("A")
    await duel.join("B", error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    await duel.native("N", 0, error=ErrorCode.GROUP_ID_NOT_FOUND)
    await duel.describe_classic()
    await duel.describe()
    await duel.list()
    await duel.commit("A", {"foo": {0: 1}})
    await duel.delete_offsets({"foo": [0]})
    await duel.delete_group()
    await duel.leave("A")
    await duel.delete_group()


@script()
async def metadata_that_is_no_subscription(duel: Duel) -> None:
    for number, metadata in enumerate((b"", b"\x00", b"\xff\xff")):
        who = f"m{number}"
        await duel.join(who, metadata=metadata)
        await duel.join(who, metadata=metadata)
        await duel.sync(who, {who: metadata})
        await duel.delete_offsets({"foo": [0]})
        await duel.describe_classic()
        await duel.native("N", 0, error=ErrorCode.GROUP_ID_NOT_FOUND)
        await duel.leave(who)


@script()
async def another_client_uses_a_members_id(duel: Duel) -> None:
    await duel.enter({"A": ALL_FOO})
    await duel.join("Z", "A")
    await duel.sync("Z", {"A": ALL_FOO}, member_id="A")
    await duel.describe_classic()
    await duel.native("N", 0)
    await duel.describe()
    await duel.join("Y", "A")
    await duel.describe()
    await duel.native("X", 0, member_id="A")
    await duel.describe()


@script()
async def ids_in_other_alphabets(duel: Duel) -> None:
    await duel.join("ä-ö-ü", instance="größe-Ω-😀", version=5)
    await duel.sync("ä-ö-ü", {"ä-ö-ü": ALL_FOO}, instance="größe-Ω-😀")
    await duel.describe_classic()
    await duel.native("Ñ", 0, instance="größe-Ω-😀")
    await duel.describe()
    await duel.beat("ä-ö-ü", instance="größe-Ω-😀")


@script()
async def cooperative_members_own_what_they_had(duel: Duel) -> None:
    how: dict[str, Any] = {"protocol": "cooperative-sticky"}
    await duel.enter({"A": ALL_FOO, "B": {}}, **how)
    await duel.join("A", owned=TOLD, generation=2, embedded_version=3, **how)
    await duel.join("B", owned=TOLD, **how)
    await duel.sync("A", HALVES, protocol="cooperative-sticky")
    await duel.sync("B", protocol="cooperative-sticky")
    await duel.describe_classic()


@script(TIGHT)
async def the_first_rebalance_waits_for_more(duel: Duel) -> None:
    await duel.join("A", version=3)
    assert duel.is_parked("A")
    await duel.join("B", version=3)
    await duel.join("C", version=4, error=ErrorCode.MEMBER_ID_REQUIRED)
    await duel.describe_classic()
    await duel.answers("A")
    await duel.answers("B")
    await duel.sync("A", HALVES)
    await duel.sync("B", HALVES)
    await duel.join("C")
    await duel.beat("A")
    await duel.join("A")
    await duel.join("B")
    await duel.sync("C")


@script(TIGHT)
async def silent_classic_members_expire(duel: Duel) -> None:
    await duel.join("A", version=3, session_timeout_ms=1_200)
    await duel.answers("A")
    await duel.sync("A", {"A": ALL_FOO})
    await duel.sleep(0.8)
    await duel.beat("A", error=0)
    await duel.sleep(0.8)
    await duel.beat("A", error=0)
    await duel.sleep(1.6)
    await duel.beat("A", error=ErrorCode.UNKNOWN_MEMBER_ID)
    await duel.describe_classic()
    await duel.list()


@script(MAIN)
async def a_member_that_does_not_sync_is_removed(duel: Duel) -> None:
    await duel.join("A", version=3, rebalance_timeout_ms=1_500)
    await duel.join("B", version=3, rebalance_timeout_ms=1_500)
    await duel.join("A", rebalance_timeout_ms=1_500)
    await duel.sync("B")
    await duel.sleep(2.2)
    await duel.describe_classic()
    await duel.beat("A")
    await duel.beat("B")
    await duel.join("B", rebalance_timeout_ms=1_500)
    await duel.sync("B", {"B": ALL_FOO})


@script(MAIN)
async def a_member_that_does_not_rejoin_is_removed(duel: Duel) -> None:
    await duel.enter({"A": ALL_FOO, "B": {}}, rebalance_timeout_ms=1_500)
    await duel.join("A", topics=["bar"], rebalance_timeout_ms=1_500)
    assert duel.is_parked("A")
    await duel.beat("B", error=ErrorCode.REBALANCE_IN_PROGRESS)
    await duel.answers("A")
    await duel.beat("B", error=ErrorCode.UNKNOWN_MEMBER_ID)
    await duel.sync("A", {"A": ALL_FOO})
    await duel.describe_classic()


@script(MAIN)
async def a_static_member_that_does_not_rejoin_stays(duel: Duel) -> None:
    await duel.join("A", version=5, instance="i1", rebalance_timeout_ms=1_500)
    await duel.sync("A", {"A": ALL_FOO}, instance="i1")
    await duel.join("B", version=3, rebalance_timeout_ms=1_500)
    assert duel.is_parked("B")
    await duel.answers("B")
    await duel.describe_classic()
    await duel.beat("A", instance="i1")
    await duel.sync("B", {"B": ALL_FOO, "A": {}})
    await duel.beat("A", instance="i1", generation=2)


@script(MAIN)
async def an_id_that_is_never_used_expires(duel: Duel) -> None:
    await duel.enter({"A": ALL_FOO})
    await duel.join("B", error=ErrorCode.MEMBER_ID_REQUIRED, session_timeout_ms=1_200)
    await duel.join("A", topics=["bar"])
    assert duel.is_parked("A")
    await duel.answers("A")
    await duel.join("B", error=ErrorCode.UNKNOWN_MEMBER_ID)
