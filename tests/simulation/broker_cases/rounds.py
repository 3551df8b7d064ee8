"""Rounds of classic members, and static ones that return."""

from typing import Any

from kafka_codecs.error_codes import ErrorCode
from tests.simulation.broker_cases.case import ALL_FOO, DELAY_S, RANGE, case, commit, knock
from tests.simulation.broker_cases.locks import BOTH_PROTOCOLS, two_consumers
from tests.simulation.trial_stage import DELAY_MS, BothBrokers


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
