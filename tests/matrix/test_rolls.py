"""Each client rolled up and down in one group, mixed of protocols and libraries, on Kafka 3.9.

That is a cluster that does not know the new protocol: the reason to insert the gateway. What holds
is said by the clients themselves (every record consumed, no partition owned twice or resumed from
before a commit) and by the cluster (all committed to the end).
"""

from pathlib import Path

import pytest

from gateway.demo.group_view import Protocol
from tests.support.group_stage import GroupStage, on_kafka, open_group
from tests.support.installs import INSTALL_LIMIT_S
from tests.support.kafka_broker import KafkaCluster
from tests.support.matrix import AGAIN_MAX, NATIVE, ROLLS, Roll, result_of
from tests.support.matrix_table import Note

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.matrix,
    pytest.mark.timeout(INSTALL_LIMIT_S),
    pytest.mark.parametrize("kafka", ["3.9"], indirect=True),
]


def params() -> list[object]:
    """Every roll; one that cannot go well has to fail, so that we learn when it can."""
    return [
        pytest.param(
            roll,
            id=str(roll),
            marks=[pytest.mark.xfail(strict=True, reason=roll.fails)] if roll.fails else [],
        )
        for roll in ROLLS
    ]


async def settle(group: GroupStage, protocol: Protocol) -> None:
    """Wait until the group is settled, of this kind, and its members consume."""
    await group.settled(protocol)
    await group.progress(50)


@pytest.mark.parametrize("roll", params())
async def test_a_client_rolls_up_and_down(
    roll: Roll, kafka: KafkaCluster, tmp_path: Path, note: Note
) -> None:
    """Two of one client and one of another, restarted one by one, the leader first (scenario 71).

    A client that commits before it gives a partition up gets no record twice. One that cannot,
    for want of a callback, may get again what it had not committed, and never what it had. So may
    one whose commit was refused: on its way while the next generation began, it comes too late, in
    Kafka as here, and some clients then give up as lost what they have.
    """
    if roll.fails:
        note(roll, result_of(roll))
    classic = {"a": roll.classic, "partner": roll.partner, "b": roll.classic}
    native = {"a": roll.native, "partner": NATIVE, "b": roll.native}
    async with open_group(tmp_path, open_upstream=on_kafka(kafka)) as group:
        for name, client in classic.items():
            await group.join(name, client)
        await settle(group, "classic")
        for goal in (native, classic):
            for name, client in goal.items():
                await group.leave(name)
                await group.join(name, client)
                is_last = goal is classic and name == "b"
                await settle(group, "classic" if is_last else "consumer")
        produced = await group.end()
        again = group.ledger.delivered_again()
        assert group.conversions() == ["classic->consumer", "consumer->classic"]
        assert group.ledger.held_after_fencing() == set(), group.troubles
        was_refused = any(": commit: " in trouble for trouble in group.troubles)
        assert again <= (AGAIN_MAX if was_refused else roll.again_max), group.troubles
    note(roll, result_of(roll, produced, again))
