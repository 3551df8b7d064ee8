"""What a broker's time of storing says about its clock."""

import pytest

from gateway.check.finding import Result
from gateway.check.own_topic import CLOCKS_DIFFER_MS_MAX, judge_clock

SENT_MS, ANSWERED_MS = 1_000_000, 1_000_040


@pytest.mark.parametrize("stored_ms", [SENT_MS - CLOCKS_DIFFER_MS_MAX, SENT_MS + 20])
def test_a_clock_within_a_minute_is_good_enough(stored_ms: int) -> None:
    assert judge_clock(SENT_MS, stored_ms, ANSWERED_MS).result is Result.WORKS


@pytest.mark.parametrize(
    ("stored_ms", "direction"),
    [(SENT_MS - 90_000, "90 s behind"), (ANSWERED_MS + 90_000, "90 s ahead of")],
)
def test_a_clock_that_is_further_away_is_a_limit(stored_ms: int, direction: str) -> None:
    finding = judge_clock(SENT_MS, stored_ms, ANSWERED_MS)
    assert finding.result is Result.LIMITED
    assert finding.detail == f"the broker's clock is {direction} this machine's"


def test_a_broker_that_does_not_state_the_time_is_not_judged() -> None:
    assert judge_clock(SENT_MS, None, ANSWERED_MS).result is Result.UNKNOWN
