"""Events as sentences."""

import json
import re
from typing import Any

import pytest

from coordinator.interface.records import RemovalCause
from coordinator.interface.roll_policy import NATIVE_MEMBERS_MAX, ROLLED_SINCE
from gateway.events import sentences
from gateway.events.catalog import EVENTS
from gateway.events.gateway_events import GatewayStarted, ShardsGivenUp, UpstreamLost
from gateway.events.group_events import (
    AdoptionStarted,
    AdoptionUndone,
    AssignmentRejected,
    Blocker,
    ClientFlapped,
    GenerationWentBack,
    GroupAdopted,
    GroupConfigsAltered,
    GroupConverted,
    GroupCreated,
    GroupDeleted,
    GroupForwarded,
    GroupReleased,
    GroupTaken,
    HostingEnded,
    HostingStarted,
    ReadinessChanged,
    RebalanceEnded,
    ReleaseStarted,
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
from gateway.events.sentences import (
    _HOSTING_ENDS,
    _LEFT,
    _SENTENCES,
    NAMES_MAX,
    NAMING,
    WITH_CLUSTER,
    Narrator,
)

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


def test_every_sentence_is_that_of_an_event() -> None:
    assert _SENTENCES.keys() | NAMING <= EVENTS.keys()
    assert not _SENTENCES.keys() & NAMING


def test_every_cause_has_words() -> None:
    assert _LEFT.keys() == set(RemovalCause)
    assert len(_HOSTING_ENDS) == 6


def test_a_step_says_who_came_back_and_what_it_cost() -> None:
    narrator = Narrator()
    assert narrator.narrate_event(step(), "orders") == (
        "orders-2 came back with the new protocol and kept its partitions,"
        " 1.2 partition-seconds without an owner, nobody else disturbed"
    )
    moved = step(partitions_moved=4, least_possible=2, members_disturbed=1)
    assert narrator.narrate_event(moved, "orders") == (
        "orders-2 came back with the new protocol, 4 partitions moved, where 2 had to,"
        " 1.2 partition-seconds without an owner, 1 other member disturbed"
    )


def test_members_go_by_the_names_of_their_clients() -> None:
    """Member ids are 40 characters that mean nothing to a reader."""
    narrator = Narrator()
    left = MemberLeft(member_id="rdkafka-1", cause=RemovalCause.LEFT)
    assert narrator.narrate_event(left, "orders") == "rdkafka-1 left"
    assert narrator.narrate_event(JOINED, "orders") == "orders-2 joined with the new protocol"
    assert narrator.narrate_event(left, "orders") == "orders-2 left"
    assert narrator.narrate_event(left, "payments") == "rdkafka-1 left"  # ids are those of a group


def test_a_member_that_is_not_known_goes_by_the_client_id_in_its_id() -> None:
    """Kafka's ids of classic members begin with it. No other id is cut."""
    ids = ["orders-3-61b86655-98aa-4fe8-ae24-49cce7cdb884", "YktH2A6vRYWHZf0t/7b6Gg"]
    sentences = [
        Narrator().narrate_event(MemberLeft(member_id=member_id, cause=RemovalCause.LEFT), "g")
        for member_id in (*ids, "-61b86655-98aa-4fe8-ae24-49cce7cdb884")
    ]
    assert sentences == [
        "orders-3 left",
        f"{ids[1]} left",
        "-61b86655-98aa-4fe8-ae24-49cce7cdb884 left",
    ]


def test_a_replacement_takes_its_name_along() -> None:
    narrator = Narrator()
    narrator.narrate_event(JOINED, "g")
    replaced = MemberReplaced(member_id="rdkafka-1", replaced_by="rdkafka-2")
    narrator.narrate_event(replaced, "g")
    fenced = MemberFenced(member_id="rdkafka-2", cause=RemovalCause.SESSION_EXPIRED)
    assert narrator.narrate_event(fenced, "g") == (
        "orders-2 was removed: it sent no heartbeat within its session"
    )


def test_only_the_latest_names_are_remembered() -> None:
    narrator = Narrator()
    for number in range(NAMES_MAX + 1):
        narrator.narrate(
            "member_joined",
            "g",
            {"member_id": f"m-{number}", "client_id": f"c-{number}", "protocol": "classic"},
        )
    left = MemberLeft(member_id="m-0", cause=RemovalCause.LEFT)
    assert narrator.narrate_event(left, "g") == "m-0 left"


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
def test_what_matters_is_reported(event: Any, sentence: str) -> None:
    narrator = Narrator()
    narrator.narrate_event(JOINED, "g")
    assert narrator.narrate_event(event, "g") == sentence


def test_shards_are_left_to_another_process_only_if_groups_continue_there() -> None:
    """At the end of a whole fleet no process takes them."""
    narrator = Narrator()
    ended = ShardsGivenUp(shards=(1, 2, 3), groups=0, took_ms=0, ends_run=True)
    assert narrator.narrate_event(ended, None) == "the process has given up 3 shards"
    moved = ShardsGivenUp(shards=(1,), groups=2, took_ms=7, ends_run=False)
    sentence = "the process has left 1 shard to another one, with 2 groups, in 7 ms"
    assert narrator.narrate_event(moved, None) == sentence


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
    assert "groupferry hold" in Narrator().narrate_event(worse, "g")


def test_a_rebalance_is_a_sentence_unless_it_is_a_part_of_another_one() -> None:
    """A rebalance that is a part would repeat what its cause has said."""
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
        return Narrator().narrate_event(rebalance, "g")

    assert sentence("member_removed") == (
        "rebalanced: 2 partitions moved, where 0 had to, 0.5 partition-seconds without an owner"
    )
    assert sentence("member_removed", moved=0) == ""
    assert sentence("member_removed", was_interrupted=True) == ""
    assert sentence("member_joined") == ""


def story(*events: Any) -> list[str]:
    """The sentences of these events of one group."""
    narrator = Narrator()
    return [sentence for event in events if (sentence := narrator.narrate_event(event, "g"))]


def member_joined(name: str) -> MemberJoined:
    return MemberJoined(
        member_id=f"{name}-1",
        client_id=name,
        client_host="/h",
        instance_id=None,
        protocol="classic",
    )


def member_released(name: str) -> MemberLeft:
    return MemberLeft(member_id=f"{name}-1", cause=RemovalCause.RELEASED)


def test_an_adoption_and_a_release_are_two_sentences_each() -> None:
    """No member has joined, left or deleted anything: the group has moved with its members."""
    adoption = (
        AdoptionStarted(members=4),
        GroupCreated(kind="classic"),
        *map(member_joined, "abcd"),
        HostingStarted(reason="it was adopted"),
        GroupAdopted(held_ms=72),
    )
    release = (
        *map(member_released, "abcd"),
        GroupDeleted(),
        ReleaseStarted(members=4),
        GroupReleased(unowned_ms=400),
        HostingEnded(cause="released"),
        GroupForwarded(reason="released"),
        ReadinessChanged(
            can_convert=False,
            direction="classic->consumer",
            blocked_by=(Blocker(client_id="", client_host="", member_id="", reason=WITH_CLUSTER),),
            blockers=1,
        ),
    )
    assert story(*adoption, *release) == [
        "its adoption began: the calls of 4 members are held",
        "the gateway took the group over: calls were held for 72 ms (a, b, c, and 1 more)",
        "its release began: 4 members are told to rejoin",
        "the cluster has the group back: its partitions were without an owner for 0.4 s"
        " (a, b, c, and 1 more)",
    ]


def test_members_that_join_after_a_move_that_a_kill_has_cut_short_are_told() -> None:
    narrator = Narrator()
    narrator.narrate_event(AdoptionStarted(members=1), "g")
    narrator.narrate_event(
        GatewayStarted(version="1", bootstrap="h:1", cluster_id=None, brokers=()), None
    )
    assert narrator.narrate_event(member_joined("a"), "g") == "a joined with the classic protocol"


def test_a_command_that_sets_configs_of_its_own_is_one_sentence() -> None:
    """Other configs are reported when they change."""
    rolled, held = {ROLLED_SINCE: 29_931_966}, {NATIVE_MEMBERS_MAX: 2}
    seen = {"consumer.session.timeout.ms": 50_000}
    assert story(
        GroupConfigsAltered(overrides=rolled),
        GroupConfigsAltered(overrides={}),
        GroupConfigsAltered(overrides=seen),
        GroupConfigsAltered(overrides=seen | held),
        GroupConfigsAltered(overrides=held),
    ) == [
        "its configs were altered: consumer.session.timeout.ms=50000",
        "its configs were altered: all are the defaults now",
    ]


def test_what_is_remembered_of_groups_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentences, "MOVES_MAX", 1)
    narrator = Narrator()
    for group_id in ("g", "h"):
        narrator.narrate_event(AdoptionStarted(members=1), group_id)
        narrator.narrate_event(GroupConfigsAltered(overrides={"a": 1}), group_id)
    assert narrator.narrate_event(member_joined("a"), "g")
    assert not narrator.narrate_event(member_joined("a"), "h")
    assert narrator.narrate_event(GroupConfigsAltered(overrides={"a": 1}), "g")


def test_details_cost_nothing_but_their_names() -> None:
    """Most events are details."""
    grant = PartitionsAssigned(member_id="m", member_epoch=1, partitions={"t": (0,)})
    assert Narrator().narrate_event(grant, "g") == ""


def test_a_sentence_follows_from_the_json_line_alone() -> None:
    """The line may lack fields that have their defaults."""
    fields = json.loads(json.dumps(step().fields))
    assert Narrator().narrate("step_ended", "g", fields) == Narrator().narrate_event(step(), "g")


def test_members_that_are_removed_at_one_time_are_told_together() -> None:
    """One sentence replaces those before it, until the time differs or another sentence comes in
    between. A log cannot take a line back, so it has a sentence for each member."""
    narrator = Narrator()
    for name in "abcde":
        narrator.narrate_event(member_joined(name), "g", 1)

    def expire(name: str, at_ms: int | None) -> tuple[str, bool]:
        event = MemberFenced(member_id=f"{name}-1", cause=RemovalCause.SESSION_EXPIRED)
        return narrator.narrate_event(event, "g", at_ms), narrator.has_joined

    alone = "was removed: it sent no heartbeat within its session"
    together = "were removed: they sent no heartbeat within their sessions"
    assert expire("a", 7) == (f"a {alone}", False)
    assert expire("b", 7) == (f"a, b {together}", True)
    assert [expire(name, 7) for name in "cd"][1] == (f"a, b, c, and 1 more {together}", True)
    assert expire("e", 8) == (f"e {alone}", False)
    narrator.narrate_event(member_joined("f"), "g", 8)
    assert expire("a", 8) == (f"a {alone}", False)
    assert expire("b", None) == (f"b {alone}", False)


SEVERE = (
    UpstreamLost(reason="r", next_retry_s=1.0),
    ClientFlapped(client_id="c", switches=3, protocol="consumer"),
    AdoptionUndone(reason="r", held_ms=1),
    GroupTaken(reason="r"),
    GenerationWentBack(generation_before=2, generation=1),
    AssignmentRejected(group_epoch=1, assignor="a", reason="r"),
    StepMadeWorse(
        client_id="c",
        client_host="/h",
        protocol="consumer",
        lag_before=10,
        lag_after=2_000,
        records_per_s_before=1.0,
        records_per_s_after=0.5,
    ),
)
NEXT = re.compile(r"groupferry [a-z]+|check the|look at|point them|mend it")
"""What to do next, in words or as a command."""


def test_each_warning_says_what_to_do_next() -> None:
    """All events of these levels are tried."""
    levels = {event.name for event in EVENTS.values() if event.level in ("warning", "error")}
    assert {event.name for event in SEVERE} == levels
    for event in SEVERE:
        assert NEXT.search(Narrator().narrate_event(event, "g")), event.name
