"""Whether a step of a migration made it worse."""

from dataclasses import dataclass
from typing import cast

import pytest

from coordinator.interface.records import RemovalCause
from gateway.board import steps as module
from gateway.board.group_stats import AllGroupStats
from gateway.board.lags import Lags
from gateway.board.steps import BEFORE_MS, JUDGED_AFTER_MS, Steps
from gateway.data_path.removal import ClientIdentity
from gateway.data_path.traffic import Rates, Traffic
from gateway.events.event import GatewayEvent
from gateway.events.gateway_events import UpstreamLost
from gateway.events.group_events import ClientFlapped, GroupConverted, GroupDeleted, StepMadeWorse
from gateway.events.member_events import (
    MemberJoined,
    MemberLeft,
    MemberSwitched,
    PartitionsAssigned,
    Protocol,
)
from gateway.events.offset_events import OffsetsDeleted
from tests.gateway.board.test_lags import offsets_committed
from tests.support.event_lines import envelope_of


@dataclass
class FakeTraffic:
    """What passes to every client."""

    before: Rates | None = None
    now: Rates | None = None

    def rates_before(self, _: ClientIdentity) -> Rates | None:
        return self.before

    def rates_now(self, _: ClientIdentity) -> Rates | None:
        return self.now


class Watched:
    """One group, whose single partition has commits and an end."""

    def __init__(self) -> None:
        self.lags = Lags()
        self.state = "Stable"
        self.group_stats = AllGroupStats(lambda _: self.state)
        self.traffic = FakeTraffic()
        self.steps = Steps(self.lags, self.group_stats, cast("Traffic", self.traffic), share=0.3)
        self.now_ms = 1_000_000
        self.committed = self.end = 0

    def observe_event(self, event: GatewayEvent, group_id: str = "g") -> None:
        """Let an event happen."""
        envelope = envelope_of(event, group_id=group_id, at_ms=self.now_ms)
        self.lags.take(envelope)
        self.group_stats.take(envelope)
        self.steps.take(envelope)

    def join(
        self,
        protocol: Protocol,
        client_id: str = "c",
        host: str = "/h",
        member_id: str = "m",
        group_id: str = "g",
    ) -> None:
        """A member joins."""
        self.observe_event(
            MemberJoined(
                member_id=member_id,
                client_id=client_id,
                client_host=host,
                instance_id=None,
                protocol=protocol,
            ),
            group_id,
        )

    def run(self, length_s: int, *, produced: int, consumed: int) -> list[GatewayEvent]:
        """Let seconds pass, with this many records in each. Returns what is told."""
        events: list[GatewayEvent] = []
        for _ in range(0, length_s, 10):
            self.now_ms += 10_000
            self.committed += 10 * consumed
            self.end += 10 * produced
            self.observe_event(offsets_committed(p0=self.committed))
            turns = self.lags.take_turns(10, self.steps.groups_to_judge)
            self.lags.take_ends(turns, {("t", 0): self.end}, self.now_ms)
            events += [event for _, event in self.steps.judge(self.now_ms)]
        return events


@pytest.fixture
def watched_group() -> Watched:
    """A classic group that keeps up with 10 records per second."""
    made = Watched()
    made.join("classic")
    made.run(70, produced=10, consumed=10)
    return made


def test_a_step_after_which_the_group_falls_behind_is_reported(watched_group: Watched) -> None:
    """Once, with what it was before."""
    watched_group.join("consumer", member_id="n")
    events = watched_group.run(JUDGED_AFTER_MS // 1000, produced=10, consumed=4)
    assert events == [
        StepMadeWorse(
            client_id="c",
            client_host="/h",
            protocol="consumer",
            lag_before=0,
            lag_after=360,
            records_per_s_before=10.0,
            records_per_s_after=4.0,
        )
    ]
    assert watched_group.run(120, produced=10, consumed=10) == []


class Four(Watched):
    """Four members, each with one partition that gets 10 records in a second."""

    def __init__(self, *, behind: int = 0) -> None:
        """`behind`: how many records each partition has been behind since before."""
        super().__init__()
        self.ends = [0] * 4
        self.commits = [-behind] * 4
        for number in range(4):
            self.join("classic", f"c{number}", member_id=f"m{number}")
            self.grant(f"m{number}", number)
        self.pass_minute([10] * 4)

    def grant(self, member_id: str, number: int) -> None:
        """Assign it the partition."""
        self.observe_event(
            PartitionsAssigned(member_id=member_id, member_epoch=1, partitions={"t": (number,)})
        )

    def switch(self, before: float, now: float) -> None:
        """The first one comes back as a native member, and its bytes per second change."""
        self.traffic.before, self.traffic.now = Rates(before, 1.0), Rates(now, 1.0)
        self.observe_event(MemberLeft(member_id="m0", cause=RemovalCause.LEFT))
        self.join("consumer", "c0", member_id="n0")
        self.grant("n0", 0)

    def pass_minute(self, consumed: list[int], produced: int = 10) -> list[GatewayEvent]:
        """Let 70 s pass, with this many records for each partition in each second."""
        events: list[GatewayEvent] = []
        for _ in range(7):
            self.now_ms += 10_000
            self.ends = [end + 10 * produced for end in self.ends]
            self.commits = [
                done + 10 * more for done, more in zip(self.commits, consumed, strict=True)
            ]
            named = {f"p{number}": 1_000 + done for number, done in enumerate(self.commits)}
            self.observe_event(offsets_committed(**named))
            ends = {("t", number): 1_000 + end for number, end in enumerate(self.ends)}
            turns = self.lags.take_turns(10, self.steps.groups_to_judge)
            self.lags.take_ends(turns, ends, self.now_ms)
            events += [event for _, event in self.steps.judge(self.now_ms)]
        return events


def test_a_consumer_that_falls_behind_by_itself_is_reported() -> None:
    """Its group of four has lost less than the share."""
    group = Four()
    group.switch(1000.0, 500.0)
    (step,) = group.pass_minute([5, 10, 10, 10])
    assert isinstance(step, StepMadeWorse)
    assert (step.client_id, step.lag_after, step.client_lag) == ("c0", 300, 300)
    assert (step.bytes_per_s_before, step.bytes_per_s_after) == (1000.0, 500.0)
    assert (step.fetches_per_s_before, step.fetches_per_s_after) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("bytes_per_s", "consumed", "produced"),
    [
        ((1000.0, 100.0), [1, 1, 1, 1], 1),
        ((1000.0, 0.0), [0, 0, 0, 0], 0),
        ((1000.0, 900.0), [8, 10, 10, 10], 10),
        ((1000.0, 100.0), [10, 5, 10, 10], 10),
    ],
    ids=["less to read", "an idle topic", "less than the share", "another one falls behind"],
)
def test_a_consumer_that_reads_all_there_is_has_lost_nothing(
    bytes_per_s: tuple[float, float], consumed: list[int], produced: int
) -> None:
    """This holds whatever its bytes per second say, and whichever other consumer is slow."""
    group = Four()
    group.switch(*bytes_per_s)
    assert group.pass_minute(consumed, produced) == []


def test_a_consumer_that_reads_ahead_and_handles_less_is_reported() -> None:
    """librdkafka fetches as fast as before, until its queue is full."""
    group = Four()
    group.switch(1000.0, 1000.0)
    (step,) = group.pass_minute([5, 10, 10, 10])
    assert isinstance(step, StepMadeWorse)
    assert (step.client_id, step.client_lag) == ("c0", 300)


def test_a_consumer_that_was_behind_and_reads_less_is_reported() -> None:
    """The consumer has enough to read. Its own lag does not grow, because producers send less,
    too."""
    group = Four(behind=5_000)
    group.switch(1000.0, 500.0)
    events = group.pass_minute([4, 2, 2, 2], produced=4)
    assert [type(event) for event in events] == [StepMadeWorse]


def test_a_lag_of_long_standing_is_no_regression() -> None:
    """This holds even if the consumer reads less: its group is no further behind."""
    group = Four(behind=5_000)
    group.switch(1000.0, 500.0)
    assert group.pass_minute([10, 10, 10, 10]) == []


@pytest.mark.parametrize(
    ("produced", "consumed"),
    [(10, 10), (10, 8), (2, 2), (0, 0)],
    ids=["keeps up", "less than the share", "less to do", "nothing to do"],
)
def test_a_step_that_loses_nothing_is_not_reported(
    watched_group: Watched, produced: int, consumed: int
) -> None:
    """Nothing stays behind, even if producers send less."""
    watched_group.join("consumer", member_id="n")
    assert watched_group.run(70, produced=produced, consumed=consumed) == []


def test_a_group_that_was_idle_before_may_have_more_on_its_way_now() -> None:
    """The idle group had nothing to read, and now commits once in a while."""
    idle = Watched()
    idle.join("classic")
    idle.run(70, produced=0, consumed=0)
    idle.join("consumer", member_id="n")
    assert idle.run(50, produced=10, consumed=10) == []
    assert idle.run(20, produced=20, consumed=10) == []


def test_a_step_without_a_time_before_is_not_judged() -> None:
    """The group was adopted a moment ago: what it consumes is not known yet."""
    new = Watched()
    new.join("classic")
    new.run(10, produced=10, consumed=10)
    new.now_ms += BEFORE_MS + 1
    new.join("consumer", member_id="n")
    assert new.steps.groups_to_judge == []


def test_a_group_whose_members_were_here_before_is_watched() -> None:
    """The members of an adopted group do not join."""
    adopted = Watched()
    adopted.run(70, produced=10, consumed=10)
    adopted.observe_event(
        GroupConverted(
            direction="classic->consumer", is_live=True, group_epoch=3, members=1, cause="n"
        )
    )
    adopted.join("consumer", member_id="n")
    (step,) = adopted.run(70, produced=10, consumed=4)
    assert isinstance(step, StepMadeWorse)
    assert step.records_per_s_before == 10.0


def test_the_way_back_is_a_step_too(watched_group: Watched) -> None:
    """Whatever has made it worse is told."""
    watched_group.join("consumer", member_id="n")
    watched_group.run(70, produced=10, consumed=10)
    watched_group.observe_event(MemberSwitched(member_id="n", protocol="classic"))
    (step,) = watched_group.run(60, produced=10, consumed=0)
    assert isinstance(step, StepMadeWorse)
    assert step.protocol == "classic"


def test_a_consumer_in_a_new_container_is_known_by_its_client_id(watched_group: Watched) -> None:
    """Its host is another one."""
    watched_group.join("consumer", host="/other", member_id="n")
    assert watched_group.steps.groups_to_judge == ["g"]


def test_a_consumer_that_restarts_or_is_new_makes_no_step(watched_group: Watched) -> None:
    """Neither consumer has switched its protocol."""
    watched_group.join("classic", member_id="again")
    watched_group.join("consumer", client_id="new", member_id="n")
    assert watched_group.steps.groups_to_judge == []


def test_the_first_native_member_makes_a_step(watched_group: Watched) -> None:
    """The gateway may not have seen the client before, for example after a restart."""
    watched_group.observe_event(
        GroupConverted(
            direction="classic->consumer", is_live=True, group_epoch=3, members=1, cause="n"
        )
    )
    watched_group.join("consumer", client_id="new", member_id="n")
    assert watched_group.steps.groups_to_judge == ["g"]
    assert watched_group.steps.lag_before("g") == 0
    watched_group.observe_event(GroupDeleted())
    assert watched_group.steps.lag_before("g") is None


def test_a_group_whose_lag_is_unknown_is_not_judged() -> None:
    """The gateway may lack the permission."""
    unknown = Watched()
    unknown.join("classic")
    unknown.join("consumer", member_id="n")
    assert unknown.steps.groups_to_judge == []


def test_a_client_that_switches_again_and_again_is_told(watched_group: Watched) -> None:
    """Three times within ten minutes; then it starts to count again."""
    protocols: tuple[Protocol, ...] = ("consumer", "classic", "consumer", "classic")
    events = []
    for protocol in protocols:
        watched_group.join(protocol)
        events += watched_group.run(70, produced=10, consumed=10)
    assert events == [ClientFlapped(client_id="c", switches=3, protocol="consumer")]


def test_slow_switches_are_no_flapping(watched_group: Watched) -> None:
    """A roll there, back, and there again over a day."""
    protocols: tuple[Protocol, ...] = ("consumer", "classic", "consumer")
    for protocol in protocols:
        watched_group.join(protocol)
        assert watched_group.run(310, produced=10, consumed=10) == []


def test_memory_has_a_bound(monkeypatch: pytest.MonkeyPatch, watched_group: Watched) -> None:
    """The bound holds for clients and for steps that wait."""
    monkeypatch.setattr(module, "CLIENTS_MAX", 3)
    monkeypatch.setattr(module, "OPEN_STEPS_MAX", 1)
    for number in range(9):
        watched_group.join("classic", client_id=f"c{number}", member_id=f"m{number}")
        watched_group.join("consumer", client_id=f"c{number}", member_id=f"n{number}")
    (group,) = watched_group.steps._groups.values()
    assert (len(group.protocols), len(group.clients), len(group.latest)) == (3, 3, 3)
    assert len(watched_group.steps._open) == 1


def test_the_groups_and_the_untold_flaps_in_memory_have_a_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A client may begin any number of groups, and switch faster than it is told."""
    monkeypatch.setattr(module, "GROUPS_MAX", 2)
    monkeypatch.setattr(module, "FLAPS_UNTOLD_MAX", 1)
    watched_group = Watched()
    protocols: tuple[Protocol, ...] = ("classic", "consumer", "classic", "consumer")
    for group_id in "hij":
        for protocol in protocols:
            watched_group.join(protocol, group_id=group_id)
    assert list(watched_group.steps._groups) == ["i", "j"]
    assert [group_id for group_id, _ in watched_group.steps.judge(watched_group.now_ms)] == ["j"]


def test_the_memory_of_all_groups_has_a_bound(
    monkeypatch: pytest.MonkeyPatch, watched_group: Watched
) -> None:
    """The group without an event for the longest time is forgotten. A client with long names does
    not take another one's place."""
    monkeypatch.setattr(module, "ENTRIES_MAX", 8)
    for group_id, member_id in (("h", "a"), ("g", "m"), ("i", "a")):
        watched_group.join("classic", client_id=member_id, member_id=member_id, group_id=group_id)
    watched_group.join("classic", client_id="x" * module.LINE_CHARS_MAX, group_id="j")
    assert list(watched_group.steps._groups) == ["g", "i"]
    watched_group.observe_event(GroupDeleted())
    assert watched_group.steps._entries == 3


def test_a_step_is_not_blamed_for_a_pause_of_the_gateway(watched_group: Watched) -> None:
    """No consumer could read meanwhile."""
    watched_group.join("consumer", member_id="n")
    watched_group.run(20, produced=10, consumed=0)
    watched_group.steps.drop_open()
    assert not watched_group.run(JUDGED_AFTER_MS // 1000, produced=10, consumed=10)


def test_a_step_is_not_blamed_for_an_outage_of_the_cluster(watched_group: Watched) -> None:
    watched_group.join("consumer", member_id="n")
    watched_group.run(20, produced=10, consumed=0)
    lost = UpstreamLost(reason="r", next_retry_s=1.0)
    watched_group.steps.take(envelope_of(lost, group_id=None, at_ms=watched_group.now_ms))
    assert not watched_group.run(JUDGED_AFTER_MS // 1000, produced=10, consumed=10)


def test_a_group_that_is_empty_by_then_is_not_judged(watched_group: Watched) -> None:
    """No consumer reads there, and none is left to be held back."""
    watched_group.join("consumer", member_id="n")
    watched_group.run(30, produced=10, consumed=10)
    watched_group.observe_event(MemberLeft(member_id="n", cause=RemovalCause.LEFT))
    watched_group.state = "Empty"
    assert watched_group.run(60, produced=10, consumed=0) == []


def test_a_consumer_that_joins_an_empty_group_makes_no_step(watched_group: Watched) -> None:
    """All were stopped, and the first to return may speak another protocol: no member of the group
    that kept up is left."""
    watched_group.observe_event(MemberLeft(member_id="m", cause=RemovalCause.LEFT))
    watched_group.state = "Empty"
    watched_group.join("consumer", member_id="n")
    watched_group.state = "Stable"
    assert watched_group.steps.groups_to_judge == []
    assert watched_group.run(70, produced=10, consumed=0) == []


class TwoTopics(Watched):
    """A group whose two members read `t`, and have read nothing of `old`, whose end is far off."""

    def __init__(self) -> None:
        super().__init__()
        self.subscribed = {"t", "old"}
        self.lags = Lags(lambda _: self.subscribed)
        self.steps = Steps(self.lags, self.group_stats, cast("Traffic", self.traffic), share=0.3)
        self.old = OldTopic()
        self.join("classic")
        self.join("classic", "other", member_id="o")
        self.observe_event(offsets_committed("old", p0=0))

    def run(self, length_s: int, *, produced: int, consumed: int) -> list[GatewayEvent]:
        events: list[GatewayEvent] = []
        for _ in range(0, length_s, 10):
            self.now_ms += 10_000
            self.committed += 10 * consumed
            self.end += 10 * produced
            self.old.end += 10 * self.old.produced
            self.observe_event(offsets_committed(p0=self.committed))
            turns = self.lags.take_turns(10, self.steps.groups_to_judge)
            ends = {("t", 0): self.end, ("old", 0): self.old.end, ("new", 0): self.old.end}
            self.lags.take_ends(turns, ends, self.now_ms)
            events += [event for _, event in self.steps.judge(self.now_ms)]
        return events


@dataclass
class OldTopic:
    """Where it ends, and how much goes there in a second."""

    end: int = 0
    produced: int = 10


def test_a_topic_that_nobody_subscribes_to_any_more_does_not_count() -> None:
    """A new version drops it together with the old protocol: producers continue, and no consumer
    reads."""
    group = TwoTopics()
    group.run(70, produced=10, consumed=10)
    group.subscribed = {"t"}
    group.join("consumer", member_id="n")
    assert group.run(70, produced=10, consumed=10) == []
    assert group.lags.total("g", group.now_ms) == 0


def test_a_dropped_topic_hides_no_regression() -> None:
    """Its lag goes, and that of the other topic comes."""
    group = TwoTopics()
    group.run(70, produced=10, consumed=10)
    group.subscribed = {"t"}
    group.join("consumer", member_id="n")
    (step,) = group.run(70, produced=10, consumed=0)
    assert isinstance(step, StepMadeWorse)
    assert (step.lag_before, step.lag_after) == (0, 600)


def test_the_backlog_of_a_topic_that_a_new_version_adds_does_not_count() -> None:
    """The backlog is older than the step. How it grows afterwards counts."""
    group = TwoTopics()
    group.observe_event(OffsetsDeleted(partitions={"old": (0,)}))
    group.run(70, produced=10, consumed=10)
    group.join("consumer", member_id="n")
    group.old.end, group.old.produced = 50_000, 0
    group.observe_event(offsets_committed("old", p0=0))
    assert group.run(70, produced=10, consumed=10) == []
    group.join("consumer", "other", member_id="p")
    group.old.produced = 10
    (step,) = group.run(70, produced=10, consumed=10)
    assert isinstance(step, StepMadeWorse)
    assert (step.lag_before, step.lag_after) == (50_000, 50_600)


def test_a_group_whose_topics_are_all_others_is_not_judged() -> None:
    """Nothing of it can be compared."""
    group = TwoTopics()
    group.run(70, produced=10, consumed=10)
    group.join("consumer", member_id="n")
    group.subscribed = {"new"}
    assert group.run(10, produced=10, consumed=0) == []
    assert group.lags.of("g") is None
    group.observe_event(offsets_committed("new", p0=0))
    assert group.run(60, produced=10, consumed=0) == []
