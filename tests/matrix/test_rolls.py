"""Each client rolls up and down in one group of mixed protocols and libraries, on Kafka 3.9.

That cluster lacks the native protocol, which is the reason to use the gateway. `poe releases` rolls
on the others, too. The clients' reports
show that every record was consumed and that no partition had two owners or was resumed from before
a commit. The cluster shows that everything was committed.

The gateway offers client-side assignors, which no library knows and none may notice (rule 9.7).
"""

from pathlib import Path

import pytest

from gateway.demo.group_view import Protocol
from tests.matrix.matrix_table import RecordResult
from tests.support.group_stage import GroupStage, on_kafka, open_group
from tests.support.installs import INSTALL_LIMIT_S
from tests.support.kafka_broker import KafkaCluster
from tests.support.matrix import AGAIN_MAX, NATIVE, ROLLS, Result, Roll, result_of
from tests.support.promises import promise
from tests.support.releases import CHOSEN, LAST_CLASSIC, RELEASES, TEST_IDS

CLIENT_SIDE = "--client-side-assignors=true"
ROLLED_ON = CHOSEN if CHOSEN == RELEASES else (LAST_CLASSIC,)
"""The results in the documentation are those of the first."""

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.matrix,
    pytest.mark.timeout(INSTALL_LIMIT_S),
    pytest.mark.parametrize("kafka", ROLLED_ON, indirect=True, ids=TEST_IDS["kafka"].format),
]


def params() -> list[object]:
    """Every roll. One that the library cannot do is expected to fail, with the library's reason; it
    fails the run once it succeeds."""
    return [
        pytest.param(
            roll,
            id=str(roll),
            # Strict, so that a client that no longer fails must be listed as one that works.
            marks=[pytest.mark.xfail(strict=True, reason=roll.fails)] if roll.fails else [],
        )
        for roll in ROLLS
    ]


def _leave_out(_roll: Roll, _result: Result) -> None:
    """Keep the results of the release in the documentation."""


async def settle(group: GroupStage, protocol: Protocol) -> None:
    """Wait until the group has settled in this protocol, and its members consume."""
    await group.wait_until_settled(protocol)
    await group.progress(50)


@pytest.mark.parametrize("roll", params())
async def test_a_client_rolls_up_and_down(
    roll: Roll, kafka: KafkaCluster, tmp_path: Path, record_result: RecordResult
) -> None:
    """Two members of one client and one of another restart one by one, the leader first (scenario
    71). A client that commits before it revokes gets no record twice. A client without such a
    callback may get uncommitted records again, but no committed ones. So may a client whose commit
    was refused because the next generation had begun, as in Kafka: some clients then give up their
    partitions as lost."""
    if kafka.release != LAST_CLASSIC:
        record_result = _leave_out
    if roll.fails:
        record_result(roll, result_of(roll))
    classic = {"a": roll.classic, "partner": roll.partner, "b": roll.classic}
    native = {"a": roll.native, "partner": NATIVE, "b": roll.native}
    async with open_group(tmp_path, CLIENT_SIDE, open_upstream=on_kafka(kafka)) as group:
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
        promise(group.ledger.held_after_fencing() == set(), group.troubles)
        was_refused = any(": commit: " in trouble for trouble in group.troubles)
        assert again <= (AGAIN_MAX if was_refused else roll.again_max), group.troubles
    record_result(roll, result_of(roll, produced, again))
