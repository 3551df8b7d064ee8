"""An anchor in its group."""

from kafka_codecs.error_codes import ErrorCode
from tests.simulation.broker_cases.case import (
    ANCHOR,
    CU,
    G,
    beat_anchor,
    case,
    commit,
    hold,
    sync_anchor,
)
from tests.simulation.trial_stage import BothBrokers


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
