"""The verdict of a run."""

from dataclasses import replace

import pytest

from gateway.demo.group_view import Protocol
from gateway.demo.ledger import Disturbance
from gateway.demo.outcome import (
    Conversion,
    DemoTotals,
    Options,
    conversions,
    find_failure,
)
from gateway.demo.roll import RollStep
from gateway.events.group_events import Direction

KEPT = DemoTotals(
    produced=10,
    not_produced=0,
    consumed=12,
    lost=0,
    delivered_twice=2,
    partitions_with_two_owners=0,
    partitions_held_after_fencing=0,
    partitions_that_went_back=0,
    consumers_died=0,
    end_offsets=(6, 4),
    acknowledged_commits=(6, 3),
    committed_offsets=(6, 4),
)
BOTH_LIVE: dict[Direction, Conversion] = {"classic->consumer": "live", "consumer->classic": "live"}
ONE_DYNAMIC = Options(consumers=1)


def step(protocol: Protocol) -> RollStep:
    return RollStep(
        title="",
        group_protocol=protocol,
        classic_members=1,
        native_members=1,
        settled_after_s=1.0,
        disturbance=Disturbance(partitions_moved=0, members_disturbed=0, unowned_partition_s=0),
    )


ROLL = tuple(step(protocol) for protocol in ("classic", "consumer", "consumer", "classic"))


def test_records_delivered_twice_break_no_guarantee() -> None:
    """Kafka guarantees at-least-once. The count is shown, but not judged."""
    assert find_failure(Options(), BOTH_LIVE, KEPT) is None


@pytest.mark.parametrize(
    ("figures", "reason"),
    [
        (replace(KEPT, produced=0), "nothing was produced"),
        (replace(KEPT, not_produced=2), "2 records could not be produced"),
        (
            replace(KEPT, partitions_that_went_back=1),
            "1 partitions went back behind a commit",
        ),
        (replace(KEPT, lost=1), "1 of 10 records were never delivered"),
        (replace(KEPT, partitions_with_two_owners=3), "3 partitions had two owners at a time"),
        (
            replace(KEPT, committed_offsets=(5, 4)),
            "partition 0: 6 was acknowledged as committed, the cluster has 5",
        ),
        (replace(KEPT, committed_offsets=(6, 3)), "partition 1: committed up to 3 of 4 records"),
        (replace(KEPT, committed_offsets=(6, 5)), "partition 1: committed up to 5 of 4 records"),
    ],
)
def test_the_reason_names_the_first_wrong_figure(figures: DemoTotals, reason: str) -> None:
    """The line has the first wrong figure."""
    assert find_failure(Options(), BOTH_LIVE, figures) == reason


@pytest.mark.parametrize("options", [Options(), Options(consumers=1, static=True)])
def test_a_group_that_is_never_empty_must_convert_live(options: Options) -> None:
    """A demo without a live conversion must not pass."""
    seen: dict[Direction, Conversion] = {
        **BOTH_LIVE,
        "consumer->classic": "replaced while empty",
    }
    reason = "the group converted consumer->classic while empty, not with its members"
    assert find_failure(options, seen, KEPT) == reason


def test_one_dynamic_consumer_may_convert_an_empty_group() -> None:
    """Between its two processes the group has no members."""
    seen: dict[Direction, Conversion] = dict.fromkeys(BOTH_LIVE, "replaced while empty")
    assert find_failure(ONE_DYNAMIC, seen, KEPT) is None
    seen["classic->consumer"] = "none"
    reason = "the group did not convert classic->consumer"
    assert find_failure(ONE_DYNAMIC, seen, KEPT) == reason


def test_conversions_come_from_the_steps_and_the_gateway() -> None:
    """The description shows the new kind, and the gateway that it had members."""
    assert conversions(ROLL, {"classic->consumer", "consumer->classic"}) == BOTH_LIVE
    assert conversions(ROLL, set()) == dict.fromkeys(BOTH_LIVE, "replaced while empty")
    assert conversions(ROLL[:3], {"classic->consumer"}) == {
        "classic->consumer": "live",
        "consumer->classic": "none",
    }
    assert conversions((), {"classic->consumer"}) == dict.fromkeys(BOTH_LIVE, "none")
