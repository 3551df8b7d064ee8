"""The join phase of a generic group (spec 2.5)."""

import pytest

from coordinator.generic.rebalance import NOBODY_JOINED_WAIT_MS_MIN
from coordinator.replies import JoinGroupReply
from coordinator.volatile import DeadlineKind, GenericPhase
from tests.support.group_script import GroupScript


@pytest.mark.parametrize("rebalance_timeout_ms", [0, -1])
def test_a_join_phase_without_joiners_does_not_spin(
    group: GroupScript, rebalance_timeout_ms: int
) -> None:
    """Static members that are away keep their place: their timeout of zero must not keep us
    busy until their sessions end."""
    tokens = {name: group.send_join(instance_id=name) for name in ("i1", "i2")}
    group.wait(6_000)
    ids = {n: group.answer(token, JoinGroupReply).member_id for n, token in tokens.items()}
    for name in ("i2", "i1"):
        group.send_sync(ids[name], 1, instance_id=name)
    for name in tokens:
        ids[name] = group.join(
            instance_id=name, rebalance_timeout_ms=rebalance_timeout_ms, session_timeout_ms=60_000
        ).member_id
    group.leave(ids["i1"])
    group.wait(1)
    assert group.generic.phase is GenericPhase.PREPARING_REBALANCE
    left_ms = group.left_ms(DeadlineKind.JOIN_PHASE)
    assert left_ms is not None
    assert left_ms > NOBODY_JOINED_WAIT_MS_MIN / 2
