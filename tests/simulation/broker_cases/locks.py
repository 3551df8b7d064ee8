"""The lock of a group that is not empty."""

from typing import Any

from kafka_codecs.error_codes import ErrorCode
from tests.simulation.broker_cases.case import (
    ALL_FOO,
    ANCHOR,
    CU,
    PRIVATE,
    RANGE,
    UNREADABLE,
    G,
    X,
    case,
    commit,
    knock,
    sync_anchor,
)
from tests.simulation.trial_stage import BothBrokers
from tests.support.group_values import subscription

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
