"""What a gateway meets at the group's coordinator, as scripts for real brokers and simulated ones.

They are the cases of the trial of anchors, and of what the profiles say. CU, G, CE and CR are the
anchors of that trial: of type `consumer` with unreadable bytes, of type `groupferry`, readable
without topics, and readable with the group's topics.
"""

from collections.abc import Callable
from typing import Any

from gateway.hosting.identity import Gateway
from kafka_codecs.error_codes import ErrorCode
from tests.simulation.broker_profiles import PROFILES
from tests.support.differential.both_sides import Owned
from tests.support.differential.trial_stage import DELAY_MS, BothBrokers, Case, Play
from tests.support.group_values import subscription

CASES: dict[str, Case] = {}

OURS = Gateway(log_id="log-1", run_id=7)
X = OURS.guise.protocol
UNREADABLE = OURS.guise.metadata
ALL_FOO: Owned = {"foo": (0, 1, 2)}
RANGE = ("range", subscription(("foo",)))
PRIVATE = (X, UNREADABLE)
ANCHOR = "groupferry-anchor"
CU: dict[str, Any] = {"instance": ANCHOR, "protocols": (PRIVATE,)}
CE: dict[str, Any] = {"instance": ANCHOR, "protocols": ((X, subscription(())),)}
CR: dict[str, Any] = {"instance": ANCHOR, "protocols": ((X, subscription(("foo",))),)}
G: dict[str, Any] = {
    "instance": "groupferry",
    "protocol_type": "groupferry",
    "protocols": (("log-1", b"run 7"),),
}
ALL_RELEASES = tuple(profile.release for profile in PROFILES)
DELAY_S = DELAY_MS / 1000


def case(*releases: str, is_delayed: bool = False, moves: bool = False) -> Callable[[Play], Play]:
    """Register a script, by default for all releases."""

    def register(play: Play) -> Play:
        CASES[play.__name__] = Case(
            name=play.__name__,
            play=play,
            releases=frozenset(releases or ALL_RELEASES),
            is_delayed=is_delayed,
            moves=moves,
        )
        return play

    return register


async def hold(both: BothBrokers, guise: dict[str, Any], who: str = "anchor") -> None:
    """Have an anchor join the empty group, and sync."""
    await both.join(who, "", **guise)
    await sync_anchor(both, guise, who)


async def sync_anchor(both: BothBrokers, guise: dict[str, Any], who: str = "anchor") -> None:
    """End the anchor's round."""
    await both.sync(
        who,
        {who: ALL_FOO},
        instance=guise["instance"],
        protocol_type=guise.get("protocol_type", "consumer"),
        protocol=guise["protocols"][0][0],
        error=0,
    )


async def beat_anchor(both: BothBrokers, guise: dict[str, Any], who: str = "anchor") -> None:
    """Say that the anchor is there."""
    await both.beat(who, instance=guise["instance"])


async def commit(both: BothBrokers, who: str, **how: Any) -> None:
    """Commit an offset of the first partition."""
    await both.commit(who, {"foo": {0: 1}}, **how)


async def knock(both: BothBrokers, who: str = "outsider") -> None:
    """Have a classic consumer try to get in."""
    joined = await both.join(who)
    if joined is not None and joined["error_code"] == ErrorCode.MEMBER_ID_REQUIRED:
        await both.join(who)


# -- an anchor in its group ------------------------------------------------------------------------


@case()
async def an_anchor_keeps_classic_consumers_out(both: BothBrokers) -> None:
    await hold(both, CU)
    await both.join("outsider", error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    await both.join(
        "sticky",
        protocol="cooperative-sticky",
        error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    )
    await beat_anchor(both, CU)
    await both.describe_classic()
    await commit(both, "stranger", epoch=-1, member_id="", error=ErrorCode.UNKNOWN_MEMBER_ID)
    await commit(both, "anchor", instance=ANCHOR, error=0)
    await commit(both, "anchor", instance=ANCHOR, epoch=0, error=ErrorCode.ILLEGAL_GENERATION)


@case()
async def an_older_anchor_keeps_classic_consumers_out(both: BothBrokers) -> None:
    await hold(both, G)
    await both.join("outsider", error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    await both.join("newer", "", **CU, error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    await both.join(
        "newer",
        "",
        **{**CU, "instance": G["instance"]},
        error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    )
    await beat_anchor(both, G)
    await both.describe_classic()
    await commit(both, "stranger", epoch=-1, member_id="")


@case()
async def an_older_anchor_gives_way_to_a_newer_one(both: BothBrokers) -> None:
    await hold(both, G)
    await both.leave(("", G["instance"]))
    await hold(both, CU)
    await beat_anchor(both, CU)
    await both.describe_classic()


@case()
async def an_anchor_takes_the_place_of_its_predecessor(both: BothBrokers) -> None:
    await hold(both, CU, "earlier")
    await both.join("anchor", "", **CU, error=0)
    await beat_anchor(both, CU)
    await commit(both, "earlier", instance=ANCHOR, error=ErrorCode.FENCED_INSTANCE_ID)
    await both.beat("earlier", instance=ANCHOR, error=ErrorCode.FENCED_INSTANCE_ID)
    await both.beat("earlier", error=ErrorCode.UNKNOWN_MEMBER_ID)
    await commit(both, "anchor", instance=ANCHOR, error=0)
    await sync_anchor(both, CU)
    await both.describe_classic()


@case()
async def an_anchor_joins_again_under_its_id(both: BothBrokers) -> None:
    await hold(both, CU)
    await both.join("anchor", **CU, error=0)
    await commit(both, "anchor", instance=ANCHOR, error=ErrorCode.REBALANCE_IN_PROGRESS)
    await both.beat("anchor", instance=ANCHOR)
    await both.join("anchor", **CU, error=0)
    await both.join("successor", "", **CU)
    await both.beat("successor", instance=ANCHOR)
    await both.describe_classic()
    await sync_anchor(both, CU, "successor")


@case()
async def an_admin_removes_an_anchor(both: BothBrokers) -> None:
    await hold(both, CU)
    await both.leave(("", ANCHOR))
    await both.beat("anchor", instance=ANCHOR, error=ErrorCode.UNKNOWN_MEMBER_ID)
    await commit(both, "anchor", instance=ANCHOR, error=ErrorCode.UNKNOWN_MEMBER_ID)
    await commit(both, "stranger", epoch=-1, member_id="", error=0)
    await both.join("anchor", **CU, error=ErrorCode.UNKNOWN_MEMBER_ID)
    await both.leave(("", ANCHOR), "anchor")
    await both.describe_classic()
    await hold(both, CU, "next")
    await both.leave("next")
    await hold(both, CU, "third")
    await both.beat("third", instance=ANCHOR)


@case()
async def requests_to_a_group_that_is_not_there(both: BothBrokers) -> None:
    await both.beat("nobody")
    await both.sync("nobody")
    await both.join("nobody", "nobody")
    await both.leave("nobody")
    await both.leave(("", ANCHOR))
    await both.describe_classic()
    await commit(both, "nobody", epoch=3)
    await commit(both, "nobody", epoch=-1, member_id="")


# -- an anchor and native consumers ----------------------------------------------------------------


@case("3.9")
async def an_old_broker_takes_no_native_consumers(both: BothBrokers) -> None:
    await both.native("native", 0)
    await hold(both, CU)
    await both.native("native", 0)
    await beat_anchor(both, CU)


@case("4.3")
async def an_anchor_keeps_native_consumers_out(both: BothBrokers) -> None:
    await hold(both, CU)
    await both.native("native", 0, error=ErrorCode.GROUP_ID_NOT_FOUND)
    await both.native("native", 3, error=ErrorCode.GROUP_ID_NOT_FOUND)
    await both.native("native", -1, error=ErrorCode.GROUP_ID_NOT_FOUND)
    await beat_anchor(both, CU)
    await both.describe_classic()


@case("4.3")
async def an_older_anchor_keeps_native_consumers_out(both: BothBrokers) -> None:
    await hold(both, G)
    await both.native("native", 0, error=ErrorCode.GROUP_ID_NOT_FOUND)
    await beat_anchor(both, G)


@case("4.3")
async def an_anchor_without_topics_lets_native_consumers_in(both: BothBrokers) -> None:
    await hold(both, CE)
    await both.native("native", 0, error=0)
    await both.describe_classic()
    await beat_anchor(both, CE)


@case("4.3")
async def an_anchor_with_topics_lets_native_consumers_in(both: BothBrokers) -> None:
    await hold(both, CR)
    await both.native("native", 0, error=0)
    await both.describe_classic()
    await beat_anchor(both, CR)


@case("4.3")
async def a_native_consumer_disturbs_an_anchor_that_has_to_sync(both: BothBrokers) -> None:
    await both.join("anchor", "", **CU)
    await both.native("native", 0, error=ErrorCode.GROUP_ID_NOT_FOUND)
    await sync_anchor(both, CU)
    await beat_anchor(both, CU)


@case("4.3", is_delayed=True)
async def a_native_consumer_disturbs_an_anchor_that_waits_for_others(both: BothBrokers) -> None:
    await both.join("anchor", "", **CU)
    await both.native("native", 0)
    assert not both.parked
    await both.describe_classic()
    await both.join("anchor", **CU)
    await both.join("outsider", error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    await both.answers("anchor", within_s=3 * DELAY_S)
    await sync_anchor(both, CU)
    await both.native("native", 0, error=ErrorCode.GROUP_ID_NOT_FOUND)


@case("4.3", is_delayed=True)
async def an_anchor_without_an_id_joins_again_after_it_was_disturbed(both: BothBrokers) -> None:
    await both.join("anchor", "", **CU)
    await both.native("native", 0)
    await both.join("again", "", **CU)
    await both.answers("again", within_s=3 * DELAY_S)
    await sync_anchor(both, CU, "again")


@case("4.3", is_delayed=True)
async def a_disturbed_anchor_that_does_not_come_again_stays(both: BothBrokers) -> None:
    times: dict[str, Any] = {"rebalance_timeout_ms": int(2.5 * DELAY_MS)}
    await both.join("anchor", "", **CU, **times)
    await both.native("native", 0)
    await both.sleep(1.5 * DELAY_S)
    await both.describe_classic()
    await both.join("anchor", **CU, **times)
    assert both.parked
    await both.native("native", 0)
    await both.join("anchor", **CU, **times)
    await both.answers("anchor", within_s=3 * DELAY_S)


@case("4.3", is_delayed=True)
async def a_native_consumer_does_not_disturb_an_older_anchor(both: BothBrokers) -> None:
    await both.join("anchor", "", **G)
    await both.native("native", 0, error=ErrorCode.GROUP_ID_NOT_FOUND)
    assert both.parked
    await both.answers("anchor", within_s=3 * DELAY_S)


@case("4.3", is_delayed=True)
async def a_native_consumer_disturbs_classic_ones_that_wait(both: BothBrokers) -> None:
    await both.join("A", error=ErrorCode.MEMBER_ID_REQUIRED)
    await both.join("A")
    await both.native("native", 0)
    await both.join("A")
    await both.answers("A", within_s=3 * DELAY_S)
    await both.sync("A", {"A": ALL_FOO})
    await both.native("native", 0, error=0)


@case("4.3")
async def an_anchor_finds_native_members(both: BothBrokers) -> None:
    await both.native("native", 0, error=0)
    await both.join("older", "", **G)
    await both.join("anchor", "", **CU)
    await both.native("native", owned={})
    await both.describe_classic()


@case("4.3")
async def a_native_consumer_converts_a_round_that_it_can_read(both: BothBrokers) -> None:
    await both.enter({"A": {"foo": (0, 1)}, "B": {"foo": (2,)}})
    await both.join("A")
    await both.native("native", 0, error=0)
    await both.beat("A")
    await both.beat("B")


@case("4.3")
async def user_data_keeps_a_group_classic(both: BothBrokers) -> None:
    await both.join("A", error=ErrorCode.MEMBER_ID_REQUIRED)
    await both.join("A", error=0)
    with_user_data = b"\0\1\0\0\0\1\0\3foo\0\0\0\1\0\0\0\0\0\0\0\1!"
    await both.sync("A", {"A": with_user_data}, error=0)
    await both.native("native", 0, error=ErrorCode.GROUP_ID_NOT_FOUND)
    await both.beat("A", error=0)
    await both.join("A", error=0)
    await both.sync("B")
    await both.native("native", 0)


@case("4.3")
async def a_short_subscription_keeps_a_group_classic(both: BothBrokers) -> None:
    short = (("range", b"\0\1\0\0\0\1\0\3foo\xff\xff\xff\xff"),)
    await both.join("A", protocols=short, error=ErrorCode.MEMBER_ID_REQUIRED)
    await both.join("A", protocols=short, error=0)
    await both.sync("A", {"A": ALL_FOO}, error=0)
    await both.native("native", 0, error=ErrorCode.GROUP_ID_NOT_FOUND)
    await both.beat("A", error=0)


@case("4.3")
async def a_native_instance_joins_again(both: BothBrokers) -> None:
    await both.native("native", 0, instance="i", error=0)
    await both.native("native", 0, instance="i", error=ErrorCode.UNRELEASED_INSTANCE_ID)
    await both.native("native", -2, instance="i", error=0)
    await both.native("other", 0, instance="i", error=0)


@case("4.3")
async def an_empty_group_of_the_other_kind_begins_again(both: BothBrokers) -> None:
    await both.enter({"A": ALL_FOO})
    await both.join("A", error=0)
    await both.leave("A")
    await both.native("native", 0, error=0)
    await both.native("native", -1, error=0)
    await both.join("B", error=ErrorCode.MEMBER_ID_REQUIRED)
    await both.join("B", error=0)


# -- the lock without an empty group ---------------------------------------------------------------

BOTH_PROTOCOLS = (RANGE, PRIVATE)


async def lock(both: BothBrokers) -> None:
    """Two consumers; the leader's member stays alone, with the private protocol, and syncs."""
    await two_consumers(both)
    await offer_both(both)
    await both.leave("B")
    await both.join("L", protocols=(PRIVATE,), error=0)
    await both.sync("L", {"L": {}}, protocol=X, error=0)


async def two_consumers(both: BothBrokers) -> None:
    await both.enter({"L": {"foo": (0, 1)}, "B": {"foo": (2,)}})


async def offer_both(both: BothBrokers) -> None:
    """The leader offers the private protocol too, and the round ends."""
    await both.join("L", protocols=BOTH_PROTOCOLS)
    await both.beat("B", error=ErrorCode.REBALANCE_IN_PROGRESS)
    await both.join("B", error=0)
    await both.sync("B")
    await both.sync("L", {"L": {"foo": (0, 1)}, "B": {"foo": (2,)}}, error=0)


@case()
async def a_group_is_locked_without_being_empty(both: BothBrokers) -> None:
    await lock(both)
    await both.join("outsider", error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    await both.join("anchor", "", **CU)
    await commit(both, "L", error=0)
    await both.join("outsider", error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    await both.beat("L", error=ErrorCode.REBALANCE_IN_PROGRESS)
    await both.leave("L")
    await commit(both, "L", error=ErrorCode.UNKNOWN_MEMBER_ID)
    await commit(both, "anchor", instance=ANCHOR, error=ErrorCode.REBALANCE_IN_PROGRESS)
    await sync_anchor(both, CU)
    await commit(both, "anchor", instance=ANCHOR, error=0)
    await both.describe_classic()


@case()
async def the_lock_holds_before_the_leader_syncs(both: BothBrokers) -> None:
    await two_consumers(both)
    await offer_both(both)
    await both.leave("B")
    await commit(both, "L", error=0)
    await both.join("L", protocols=(PRIVATE,), error=0)
    await commit(both, "L", error=ErrorCode.REBALANCE_IN_PROGRESS)
    await both.join("outsider", error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    await both.beat("L")
    await both.describe_classic()


@case()
async def a_locked_group_takes_no_older_anchor(both: BothBrokers) -> None:
    await lock(both)
    await both.join("anchor", "", **G, error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


@case()
async def no_protocol_is_dropped_in_one_step(both: BothBrokers) -> None:
    await both.enter({"L": ALL_FOO})
    await both.join("L", protocols=(PRIVATE,), error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    await both.beat("L", error=0)
    await both.join("L", protocols=BOTH_PROTOCOLS, error=0)
    await both.sync("L", {"L": ALL_FOO}, error=0)
    await both.join("L", protocols=(PRIVATE,), error=0)


@case()
async def another_member_keeps_the_leader_from_locking(both: BothBrokers) -> None:
    await two_consumers(both)
    await offer_both(both)
    await both.join("L", protocols=(PRIVATE,), error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    await both.beat("L", error=0)
    await both.describe_classic()


@case()
async def an_outsider_before_the_lock_is_let_in(both: BothBrokers) -> None:
    await two_consumers(both)
    await offer_both(both)
    await both.leave("B")
    await knock(both)
    await both.join("L", protocols=(PRIVATE,), error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    await both.beat("L")
    await both.join("L", protocols=BOTH_PROTOCOLS)
    await both.describe_classic()


@case()
async def an_id_that_nobody_uses_holds_up_the_lock(both: BothBrokers) -> None:
    await two_consumers(both)
    await offer_both(both)
    await both.leave("B")
    short: dict[str, Any] = {"session_timeout_ms": 2_000}
    await both.join("outsider", **short, error=ErrorCode.MEMBER_ID_REQUIRED)
    await both.join("L", protocols=(PRIVATE,))
    assert both.parked
    await both.beat("L")
    await both.answers("L", within_s=5)
    await both.join("outsider", **short)


@case()
async def an_id_is_given_back(both: BothBrokers) -> None:
    await both.enter({"L": ALL_FOO})
    await both.join("outsider", error=ErrorCode.MEMBER_ID_REQUIRED)
    await both.join("L")
    assert both.parked
    await both.leave("outsider")
    assert not both.parked
    await both.beat("outsider")


@case()
async def an_id_that_is_used_leaves_the_round_open_until_all_have_joined(
    both: BothBrokers,
) -> None:
    await both.enter({"L": ALL_FOO})
    await both.join("outsider", error=ErrorCode.MEMBER_ID_REQUIRED)
    await both.join("L")
    await both.join("outsider")
    assert not both.parked
    await both.sync("outsider")
    await both.sync("L", {"L": {"foo": (0,)}, "outsider": {"foo": (1, 2)}})
    await both.describe_classic()


@case("4.3")
async def a_native_consumer_before_the_lock_converts_the_group(both: BothBrokers) -> None:
    await two_consumers(both)
    await offer_both(both)
    await both.leave("B")
    await both.native("native", 0, error=0)
    await both.beat("L")
    await both.join("L", protocols=(PRIVATE,))


@case("4.3")
async def unreadable_bytes_under_the_selected_protocol_refuse_native_ones(
    both: BothBrokers,
) -> None:
    await both.enter({"L": ALL_FOO})
    mixed = ((X, UNREADABLE), ("range", UNREADABLE))
    await both.join("L", protocols=mixed, error=0)
    await both.sync("L", {"L": ALL_FOO}, protocol=X)
    await both.native("native", 0, error=ErrorCode.GROUP_ID_NOT_FOUND)
    await both.beat("L", error=0)


@case("4.3")
async def a_native_consumer_meets_a_leader_that_offers_other_bytes(both: BothBrokers) -> None:
    await two_consumers(both)
    await both.join("L", protocols=((X, UNREADABLE), ("range", UNREADABLE)))
    assert both.parked
    await both.native("native", 0)
    assert not both.parked
    await both.beat("B")
    await both.join("L", protocols=((X, UNREADABLE), ("range", UNREADABLE)))
    await both.join("B")
    await both.describe_classic()


@case("4.3")
async def a_native_consumer_meets_a_leader_that_offers_another_protocol(
    both: BothBrokers,
) -> None:
    await two_consumers(both)
    await offer_both(both)
    await knock(both)
    await both.leave("B", "outsider")
    await both.join("L", protocols=(PRIVATE,))
    await both.native("native", 0)


@case("4.3")
async def a_native_consumer_disturbs_an_anchor_that_waits_for_the_leader(
    both: BothBrokers,
) -> None:
    await lock(both)
    await both.join("anchor", "", **CU)
    assert both.parked
    await both.native("native", 0)
    assert not both.parked
    await both.join("anchor", **CU)
    assert both.parked
    await both.leave("L")
    assert not both.parked
    await sync_anchor(both, CU)


@case("4.3")
async def a_leader_leaves_before_a_disturbed_anchor_has_come_again(both: BothBrokers) -> None:
    await lock(both)
    await both.join("anchor", "", **CU)
    await both.native("native", 0)
    await both.leave("L")
    await both.describe_classic()
    await both.join("anchor", **CU)
    await sync_anchor(both, CU)


@case()
async def an_anchor_alone_changes_its_protocol(both: BothBrokers) -> None:
    both_protocols = {**CU, "protocols": (("range", subscription(())), PRIVATE)}
    await two_consumers(both)
    await both.join("anchor", "", **both_protocols)
    await both.join("L")
    await both.join("B")
    await both.sync("B")
    await both.sync("anchor", instance=ANCHOR)
    await both.sync("L", {"L": ALL_FOO, "anchor": {}, "B": {}})
    await both.leave("L", "B")
    await both.join("anchor", **CU)
    assert not both.parked
    await sync_anchor(both, CU)
    await both.describe_classic()


# -- rounds ----------------------------------------------------------------------------------------


@case()
async def the_leader_stays_the_leader_whoever_comes_first(both: BothBrokers) -> None:
    await two_consumers(both)
    await knock(both)
    await both.join("B")
    await both.join("L", error=0)
    await both.sync("outsider")
    await both.sync("B")
    await both.sync("L", {"L": {"foo": (0,)}, "B": {"foo": (1,)}, "outsider": {"foo": (2,)}})


@case()
async def a_follower_joins_again_for_nothing(both: BothBrokers) -> None:
    await two_consumers(both)
    await both.join("B", error=0)
    await both.beat("L", error=0)
    await both.join("B", protocols=(RANGE, ("roundrobin", RANGE[1])))
    await both.beat("L", error=ErrorCode.REBALANCE_IN_PROGRESS)


@case()
async def a_leader_that_does_not_come_is_replaced(both: BothBrokers) -> None:
    times: dict[str, Any] = {"rebalance_timeout_ms": 1_500}
    await both.enter({"L": {"foo": (0, 1)}, "B": {"foo": (2,)}}, **times)
    await both.join("B", protocols=(RANGE, ("roundrobin", RANGE[1])), **times)
    assert both.parked
    joined = await both.answers("B", within_s=5)
    assert joined["leader"] == "B"
    await both.beat("L", error=ErrorCode.UNKNOWN_MEMBER_ID)


@case()
async def a_static_leader_that_does_not_come_keeps_its_place(both: BothBrokers) -> None:
    times: dict[str, Any] = {"rebalance_timeout_ms": 1_500}
    await both.join("L", instance="i1", **times)
    await both.sync("L", {"L": ALL_FOO}, instance="i1")
    await both.join("B", instance="i2", **times)
    joined = await both.answers("B", within_s=5)
    assert joined["leader"] == "B"
    await both.beat("L", instance="i1")
    await both.describe_classic()


@case()
async def a_request_is_overwritten(both: BothBrokers) -> None:
    await both.enter({"L": ALL_FOO})
    await both.join("A", error=ErrorCode.MEMBER_ID_REQUIRED)
    await both.join("A")
    await both.join("A")
    await both.join("L", error=0)
    await both.sync("A")
    await both.sync("A")
    await both.sync("L", {"L": {"foo": (0,)}, "A": {"foo": (1, 2)}}, error=0)
    await both.describe_classic()


@case()
async def members_without_a_sync(both: BothBrokers) -> None:
    times: dict[str, Any] = {"rebalance_timeout_ms": 1_500}
    await both.join("A", error=ErrorCode.MEMBER_ID_REQUIRED, **times)
    await both.join("A", error=0, **times)
    await both.sleep(2.5)
    await both.beat("A")
    await both.describe_classic()


@case()
async def a_join_interrupts_a_sync(both: BothBrokers) -> None:
    await two_consumers(both)
    await both.join("L", protocols=BOTH_PROTOCOLS)
    await both.join("B", error=0)
    await both.sync("B")
    assert both.parked
    await both.join("L")
    assert len(both.parked) == 1
    await commit(both, "B")
    await both.describe_classic()


@case(is_delayed=True)
async def the_initial_delay_starts_again_with_each_member(both: BothBrokers) -> None:
    await both.join("A", instance="i1")
    await both.join("B", instance="i2")
    await both.sleep(DELAY_S)
    assert len(both.parked) == 2
    await both.answers("A", within_s=3 * DELAY_S)
    await both.sleep(0)
    assert not both.parked


@case(is_delayed=True)
async def an_id_that_expires_in_the_initial_delay(both: BothBrokers) -> None:
    await both.join("A", instance="i1")
    await both.join("B", session_timeout_ms=500, error=ErrorCode.MEMBER_ID_REQUIRED)
    await both.answers("A", within_s=3 * DELAY_S)


@case(is_delayed=True)
async def an_id_that_is_given_back_in_the_initial_delay(both: BothBrokers) -> None:
    await both.join("A", instance="i1")
    await both.join("B", error=ErrorCode.MEMBER_ID_REQUIRED)
    await both.leave("B")
    assert both.parked
    await both.answers("A", within_s=3 * DELAY_S)


@case(is_delayed=True)
async def an_id_that_is_held_longer_than_the_initial_delay(both: BothBrokers) -> None:
    await both.join("A", instance="i1")
    short: dict[str, Any] = {"session_timeout_ms": int(2.2 * DELAY_MS)}
    await both.join("B", **short, error=ErrorCode.MEMBER_ID_REQUIRED)
    await both.answers("A", within_s=1.2 * DELAY_S)
    assert not both.parked


# -- static members --------------------------------------------------------------------------------


@case()
async def static_members_return(both: BothBrokers) -> None:
    await both.join("A", instance="i1")
    await both.sync("A", {"A": ALL_FOO}, instance="i1")
    await both.join("B", instance="i2")
    await both.join("A", instance="i1")
    await both.sync("B", instance="i2")
    await both.sync("A", {"A": {"foo": (0, 1)}, "B": {"foo": (2,)}}, instance="i1")
    for version in (5, 7, 8, 9):
        await both.join(f"A{version}", instance="i1", version=version)
        await both.sync(f"A{version}", instance="i1")
        await both.join(f"B{version}", instance="i2", version=version)
        await both.sync(f"B{version}", instance="i2")
    await both.describe_classic()


@case()
async def a_static_member_returns_with_other_topics(both: BothBrokers) -> None:
    await both.join("A", instance="i1")
    await both.sync("A", {"A": ALL_FOO}, instance="i1")
    await both.join("A2", instance="i1", topics=["bar"], error=0)
    await both.beat("A2", instance="i1", error=0)
    await both.describe_classic()


@case()
async def a_static_member_returns_with_another_protocol(both: BothBrokers) -> None:
    await both.join("A", instance="i1", protocols=(RANGE, ("roundrobin", RANGE[1])))
    await both.sync("A", {"A": ALL_FOO}, instance="i1")
    await both.join("A2", instance="i1", protocols=(("roundrobin", RANGE[1]), RANGE))
    await both.describe_classic()


@case()
async def a_static_member_returns_while_others_join(both: BothBrokers) -> None:
    await both.join("A", instance="i1")
    await both.sync("A", {"A": ALL_FOO}, instance="i1")
    await both.join("B", instance="i2")
    await both.join("B2", instance="i2")
    await both.join("A2", instance="i1")
    assert not both.parked
    await both.sync("B2", instance="i2")
    await both.join("A3", instance="i1")
    await both.beat("B2", instance="i2")
    await both.describe_classic()


# -- a coordinator that moves ----------------------------------------------------------------------


@case(moves=True)
async def an_anchor_survives_a_move(both: BothBrokers) -> None:
    await hold(both, CU)
    await both.move()
    await both.describe_classic()
    await beat_anchor(both, CU)
    await commit(both, "anchor", instance=ANCHOR, error=0)


@case(moves=True)
async def an_anchor_that_took_a_place_before_a_move(both: BothBrokers) -> None:
    await hold(both, CU, "earlier")
    await both.join("anchor", "", **CU, error=0)
    await both.move()
    await both.beat("earlier", instance=ANCHOR)
    await both.beat("anchor", instance=ANCHOR)
    await both.describe_classic()


@case(moves=True)
async def an_anchor_that_left_with_others_there_is_back_after_a_move(both: BothBrokers) -> None:
    await lock(both)
    await both.join("anchor", "", **CU)
    await both.leave("L")
    await both.move()
    await both.describe_classic()
    await both.beat("L")
    await both.beat("anchor", instance=ANCHOR)
    await both.join("anchor", **CU)


@case(moves=True)
async def an_anchor_that_left_alone_stays_away_after_a_move(both: BothBrokers) -> None:
    await hold(both, CU)
    await both.leave(("", ANCHOR))
    await both.move()
    await both.describe_classic()
    await both.beat("anchor", instance=ANCHOR)


@case(moves=True)
async def parked_requests_at_a_move(both: BothBrokers) -> None:
    await two_consumers(both)
    await knock(both)
    assert both.parked
    await both.move()
    assert not both.parked
    await both.beat("L", error=0)
    await both.join("outsider", error=ErrorCode.UNKNOWN_MEMBER_ID)


@case(moves=True)
async def a_sync_that_waits_at_a_move(both: BothBrokers) -> None:
    await two_consumers(both)
    await both.join("L", protocols=BOTH_PROTOCOLS)
    await both.join("B", error=0)
    await both.sync("B")
    assert both.parked
    await both.move()
    await both.beat("L")
    await both.beat("L", generation=2)
    await both.describe_classic()


@case(moves=True)
async def an_id_that_nobody_has_used_at_a_move(both: BothBrokers) -> None:
    await both.enter({"L": ALL_FOO})
    await both.join("outsider", error=ErrorCode.MEMBER_ID_REQUIRED)
    await both.move()
    await both.join("outsider", error=ErrorCode.UNKNOWN_MEMBER_ID)
    await both.join("L", error=0)


@case(moves=True)
async def the_selected_protocol_survives_a_move(both: BothBrokers) -> None:
    await both.enter({"L": ALL_FOO}, protocols=BOTH_PROTOCOLS)
    await both.move()
    await both.join("L", protocols=(PRIVATE,), error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    await both.join("L", protocols=BOTH_PROTOCOLS, error=0)
