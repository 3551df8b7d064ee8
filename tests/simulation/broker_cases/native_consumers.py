"""An anchor and native consumers."""

from typing import Any

from kafka_codecs.error_codes import ErrorCode
from tests.simulation.broker_cases.case import (
    ALL_FOO,
    CE,
    CR,
    CU,
    DELAY_S,
    G,
    beat_anchor,
    case,
    hold,
    sync_anchor,
)
from tests.simulation.trial_stage import DELAY_MS, BothBrokers


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
