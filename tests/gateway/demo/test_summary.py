"""The summary at the end."""

import json
from dataclasses import replace

import pytest

from gateway.demo import summary
from gateway.demo.ledger import Change, Disturbance
from gateway.demo.outcome import DemoOutcome, Options
from tests.gateway.demo.test_outcome import KEPT, ROLL

STEP = replace(
    ROLL[1],
    title="consumer-1 to consumer",
    classic_members=2,
    settled_after_s=3.25,
    disturbance=Disturbance(partitions_moved=4, members_disturbed=2, unowned_partition_s=1.5),
)
TOTALS = replace(
    KEPT,
    produced=1000,
    consumed=1007,
    delivered_twice=7,
    end_offsets=(600, 400),
    acknowledged_commits=(600, 400),
    committed_offsets=(600, 400),
)
GOOD = DemoOutcome(
    options=Options(partitions=2),
    steps=(STEP,),
    conversions={"classic->consumer": "live", "consumer->classic": "live"},
    totals=TOTALS,
    reason=None,
    verdict=("no partitions owned twice", "no [lost] commits"),
)
BROKEN = DemoOutcome(
    options=Options(), steps=(), conversions={}, totals=None, reason="the producer died"
)


def test_the_text_has_every_step_and_figure(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a terminal it is plain text, and no line wraps."""
    summary.show(GOOD)
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    lines = {" ".join(line.replace("│", " ").split()) for line in shown.splitlines()}
    assert "consumer-1 to consumer consumer 2 1 3.2 s 4 2 1.5 p-s" in lines
    assert "records produced 1000" in lines
    assert "records consumed 1007" in lines
    assert "lost 0" in lines
    assert "delivered twice 7" in lines
    assert "partitions with two owners 0" in lines
    assert "committed, read from the upstream 1000 of 1000, 2 partitions" in lines
    assert "conversion classic->consumer live" in lines
    assert "conversion consumer->classic live" in lines
    assert {"The verdict on its events", *GOOD.verdict} <= lines


def test_an_aborted_run_shows_its_steps(capsys: pytest.CaptureFixture[str]) -> None:
    """The totals of an aborted run would be wrong, so there are none."""
    summary.show(BROKEN)
    assert "records produced" not in capsys.readouterr().out


@pytest.mark.parametrize("outcome", [GOOD, BROKEN])
def test_the_json_summary_is_one_document(outcome: DemoOutcome) -> None:
    """The document has everything, with the verdict first."""
    document = json.loads(summary.as_json(outcome))
    assert document["ok"] is (outcome.reason is None)
    assert document["reason"] == outcome.reason
    assert len(document["steps"]) == len(outcome.steps)
    assert (document["totals"] is None) == (outcome.totals is None)
    assert document["options"]["rate"] == 200


def test_the_rebalances_are_listed_with_their_cause(capsys: pytest.CaptureFixture[str]) -> None:
    """Rebalances are part of the story."""
    step = replace(STEP, rebalanced=(Change(member="consumer-2", gave_up=4, got=3),))
    outcome = replace(GOOD, steps=(step,))
    summary.show(outcome)
    assert "consumer-2" not in capsys.readouterr().out
    summary.show(outcome, rebalances=True)
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "consumer-2" in line]
    assert [cell.strip() for cell in line.strip("│").split("│")] == [
        "consumer-1 to consumer",
        "consumer-2",
        "4",
        "3",
    ]
