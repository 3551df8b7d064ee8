"""A coordinator that moves."""

from kafka_codecs.error_codes import ErrorCode
from tests.simulation.broker_cases.case import (
    ALL_FOO,
    ANCHOR,
    CU,
    PRIVATE,
    beat_anchor,
    case,
    commit,
    hold,
    knock,
)
from tests.simulation.broker_cases.locks import BOTH_PROTOCOLS, lock, two_consumers
from tests.simulation.trial_stage import BothBrokers


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
