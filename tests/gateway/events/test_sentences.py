"""Events as sentences."""

import json
from typing import Any

import pytest

from coordinator.interface.records import RemovalCause
from gateway.events.catalog import EVENTS
from gateway.events.group_events import (
    AdoptionUndone,
    Blocker,
    GroupConverted,
    ReadinessChanged,
    RebalanceEnded,
    StepEnded,
    StepMadeWorse,
)
from gateway.events.member_events import (
    MemberFenced,
    MemberJoined,
    MemberLeft,
    MemberReplaced,
    PartitionsAssigned,
)
from gateway.events.sentences import _HOSTING_ENDS, _LEFT, _SENTENCES, DETAILS, NAMES_MAX, Narrator

JOINED = MemberJoined(
    member_id="rdkafka-1",
    client_id="orders-2",
    client_host="/h",
    instance_id=None,
    protocol="consumer",
)


def step(**changes: Any) -> StepEnded:
    """A consumer that came back with the new protocol."""
    fields = {
        "client_id": "orders-2",
        "client_host": "/h",
        "instance_id": None,
        "from_protocol": "classic",
        "to_protocol": "consumer",
        "started_ms": 1,
        "members": 7,
        "partitions_moved": 0,
        "least_possible": 0,
        "members_disturbed": 0,
        "unowned_ms": 1_234,
    }
    return StepEnded(**{**fields, **changes})


def test_every_event_is_a_sentence_or_a_detail() -> None:
    assert _SENTENCES.keys() | DETAILS == EVENTS.keys()
    assert not _SENTENCES.keys() & DETAILS


def test_every_cause_has_words() -> None:
    assert _LEFT.keys() == set(RemovalCause)
    assert len(_HOSTING_ENDS) == 6


def test_a_step_says_who_came_back_and_what_it_cost() -> None:
    narrator = Narrator()
    assert narrator.tell_event(step(), "orders") == (
        "orders-2 came back with the new protocol and kept its partitions,"
        " 1.2 partition-seconds without an owner, nobody else disturbed"
    )
    moved = step(partitions_moved=4, least_possible=2, members_disturbed=1)
    assert narrator.tell_event(moved, "orders") == (
        "orders-2 came back with the new protocol, 4 partitions moved, where 2 had to,"
        " 1.2 partition-seconds without an owner, 1 other member disturbed"
    )


def test_members_go_by_the_names_of_their_clients() -> None:
    """Member ids are 40 characters that nobody knows."""
    narrator = Narrator()
    left = MemberLeft(member_id="rdkafka-1", cause=RemovalCause.LEFT)
    assert narrator.tell_event(left, "orders") == "rdkafka-1 left"
    assert narrator.tell_event(JOINED, "orders") == "orders-2 joined with the new protocol"
    assert narrator.tell_event(left, "orders") == "orders-2 left"
    assert narrator.tell_event(left, "payments") == "rdkafka-1 left"  # ids are those of a group


def test_a_replacement_takes_its_name_along() -> None:
    narrator = Narrator()
    narrator.tell_event(JOINED, "g")
    replaced = MemberReplaced(member_id="rdkafka-1", replaced_by="rdkafka-2")
    narrator.tell_event(replaced, "g")
    fenced = MemberFenced(member_id="rdkafka-2", cause=RemovalCause.SESSION_EXPIRED)
    assert narrator.tell_event(fenced, "g") == (
        "orders-2 was removed: it sent no heartbeat within its session"
    )


def test_only_the_latest_names_are_remembered() -> None:
    narrator = Narrator()
    for number in range(NAMES_MAX + 1):
        narrator.tell(
            "member_joined",
            "g",
            {"member_id": f"m-{number}", "client_id": f"c-{number}", "protocol": "classic"},
        )
    left = MemberLeft(member_id="m-0", cause=RemovalCause.LEFT)
    assert narrator.tell_event(left, "g") == "m-0 left"


@pytest.mark.parametrize(
    ("event", "sentence"),
    [
        (
            GroupConverted(
                direction="classic->consumer",
                is_live=True,
                group_epoch=5,
                members=7,
                cause="rdkafka-1 joined",
            ),
            "converted from the classic to the new protocol with its 7 members: orders-2 joined",
        ),
        (
            ReadinessChanged(
                can_convert=False,
                direction="classic->consumer",
                blocked_by=(
                    Blocker(client_id="a", client_host="/h", member_id="m", reason="no metadata"),
                ),
                blockers=3,
            ),
            "cannot convert from the classic to the new protocol yet: a: no metadata; and 2 more",
        ),
        (
            AdoptionUndone(reason="a member left", held_ms=10),
            "its adoption was undone: a member left; its members rejoin, and groupferry adopt"
            " tries again",
        ),
    ],
)
def test_what_matters_is_told(event: Any, sentence: str) -> None:
    narrator = Narrator()
    narrator.tell_event(JOINED, "g")
    assert narrator.tell_event(event, "g") == sentence


def test_a_regression_names_the_next_command() -> None:
    worse = StepMadeWorse(
        client_id="orders-2",
        client_host="/h",
        protocol="consumer",
        lag_before=10,
        lag_after=2_000,
        records_per_s_before=1.0,
        records_per_s_after=0.5,
    )
    assert "groupferry hold" in Narrator().tell_event(worse, "g")


def test_a_rebalance_is_a_sentence_unless_it_is_a_part_of_another_one() -> None:
    """It would repeat what its cause has said."""
    fields: dict[str, Any] = {
        "started_ms": 1,
        "epoch": 5,
        "members": 3,
        "least_possible": 0,
        "members_disturbed": 0,
    }

    def sentence(cause: str, *, moved: int = 2, was_interrupted: bool = False) -> str:
        rebalance = RebalanceEnded(
            **fields,
            cause=cause,
            partitions_moved=moved,
            unowned_ms=500 if moved else 0,
            was_interrupted=was_interrupted,
        )
        return Narrator().tell_event(rebalance, "g")

    assert sentence("member_removed") == (
        "rebalanced: 2 partitions moved, where 0 had to, 0.5 partition-seconds without an owner"
    )
    assert sentence("member_removed", moved=0) == ""
    assert sentence("member_removed", was_interrupted=True) == ""
    assert sentence("member_joined") == ""


def test_details_cost_nothing_but_their_names() -> None:
    """Most events are details."""
    grant = PartitionsAssigned(member_id="m", member_epoch=1, partitions={"t": (0,)})
    assert Narrator().tell_event(grant, "g") == ""


def test_a_sentence_follows_from_the_json_line_alone() -> None:
    """Without the fields that have their default."""
    fields = json.loads(json.dumps(step().fields))
    assert Narrator().tell("step_ended", "g", fields) == Narrator().tell_event(step(), "g")
