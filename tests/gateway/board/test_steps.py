"""Whether a step of a migration made it worse."""

import pytest

from gateway.board import steps as module
from gateway.board.lags import Lags
from gateway.board.steps import JUDGED_AFTER_MS, Steps
from gateway.events.event import GatewayEvent
from gateway.events.group_events import ClientFlapped, GroupConverted, GroupDeleted, StepMadeWorse
from gateway.events.member_events import MemberJoined, MemberSwitched, Protocol
from tests.gateway.board.test_lags import committed
from tests.support.group_events import enveloped


class Watched:
    """One group, whose single partition has commits and an end."""

    def __init__(self) -> None:
        self.lags = Lags()
        self.steps = Steps(self.lags, share=0.3)
        self.now_ms = 1_000_000
        self.committed = self.end = 0

    def told(self, event: GatewayEvent, group_id: str = "g") -> None:
        """Let an event happen."""
        envelope = enveloped(event, group_id=group_id, at_ms=self.now_ms)
        self.lags.take(envelope)
        self.steps.take(envelope)

    def joined(
        self,
        protocol: Protocol,
        client_id: str = "c",
        host: str = "/h",
        member_id: str = "m",
        group_id: str = "g",
    ) -> None:
        """A member joins."""
        self.told(
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
        """Let seconds pass, with so many records in each. Returns what is told."""
        found: list[GatewayEvent] = []
        for _ in range(0, length_s, 10):
            self.now_ms += 10_000
            self.committed += 10 * consumed
            self.end += 10 * produced
            self.told(committed(p0=self.committed))
            turns = self.lags.take_turns(10, self.steps.watched)
            self.lags.take_ends(turns, {("t", 0): self.end}, self.now_ms)
            found += [event for _, event in self.steps.judge(self.now_ms)]
        return found


@pytest.fixture
def watched() -> Watched:
    """A classic group that keeps up with 10 records per second."""
    made = Watched()
    made.joined("classic")
    made.run(70, produced=10, consumed=10)
    return made


def test_a_step_after_which_the_group_falls_behind_is_told(watched: Watched) -> None:
    """Once, with what it was before."""
    watched.joined("consumer", member_id="n")
    told = watched.run(JUDGED_AFTER_MS // 1000, produced=10, consumed=4)
    assert told == [
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
    assert watched.run(120, produced=10, consumed=10) == []


@pytest.mark.parametrize(
    ("produced", "consumed"),
    [(10, 10), (10, 8), (2, 2), (0, 0)],
    ids=["keeps up", "less than the share", "less to do", "nothing to do"],
)
def test_a_step_that_loses_nothing_is_not_told(
    watched: Watched, produced: int, consumed: int
) -> None:
    """Also if producers send less: then nothing stays behind."""
    watched.joined("consumer", member_id="n")
    assert watched.run(70, produced=produced, consumed=consumed) == []


def test_the_way_back_is_a_step_too(watched: Watched) -> None:
    """Whatever has made it worse is told."""
    watched.joined("consumer", member_id="n")
    watched.run(70, produced=10, consumed=10)
    watched.told(MemberSwitched(member_id="n", protocol="classic"))
    (told,) = watched.run(60, produced=10, consumed=0)
    assert isinstance(told, StepMadeWorse)
    assert told.protocol == "classic"


def test_a_consumer_in_a_new_container_is_known_by_its_client_id(watched: Watched) -> None:
    """Its host is another one."""
    watched.joined("consumer", host="/other", member_id="n")
    assert watched.steps.watched == ["g"]


def test_a_consumer_that_restarts_or_is_new_makes_no_step(watched: Watched) -> None:
    """It changes nothing."""
    watched.joined("classic", member_id="again")
    watched.joined("consumer", client_id="new", member_id="n")
    assert watched.steps.watched == []


def test_the_first_native_member_makes_a_step(watched: Watched) -> None:
    """Also if the gateway has not seen its client before, as after a restart."""
    watched.told(
        GroupConverted(
            direction="classic->consumer", is_live=True, group_epoch=3, members=1, cause="n"
        )
    )
    watched.joined("consumer", client_id="new", member_id="n")
    assert watched.steps.watched == ["g"]
    assert watched.steps.lag_before("g") == 0
    watched.told(GroupDeleted())
    assert watched.steps.lag_before("g") is None


def test_a_group_whose_lag_is_unknown_is_not_judged() -> None:
    """The gateway may lack the permission."""
    unknown = Watched()
    unknown.joined("classic")
    unknown.joined("consumer", member_id="n")
    assert unknown.steps.watched == []


def test_a_client_that_switches_again_and_again_is_told(watched: Watched) -> None:
    """Three times within ten minutes; then it counts anew."""
    protocols: tuple[Protocol, ...] = ("consumer", "classic", "consumer", "classic")
    told = []
    for each in protocols:
        watched.joined(each)
        told += watched.run(70, produced=10, consumed=10)
    assert told == [ClientFlapped(client_id="c", switches=3, protocol="consumer")]


def test_slow_switches_are_no_flapping(watched: Watched) -> None:
    """A roll there, back, and there again over a day."""
    protocols: tuple[Protocol, ...] = ("consumer", "classic", "consumer")
    for each in protocols:
        watched.joined(each)
        assert watched.run(310, produced=10, consumed=10) == []


def test_memory_has_a_bound(monkeypatch: pytest.MonkeyPatch, watched: Watched) -> None:
    """Of clients and of steps that wait."""
    monkeypatch.setattr(module, "CLIENTS_MAX", 3)
    monkeypatch.setattr(module, "OPEN_STEPS_MAX", 1)
    for number in range(9):
        watched.joined("classic", client_id=f"c{number}", member_id=f"m{number}")
        watched.joined("consumer", client_id=f"c{number}", member_id=f"n{number}")
    (group,) = watched.steps._groups.values()
    assert (len(group.protocols), len(group.clients), len(group.latest)) == (3, 3, 3)
    assert len(watched.steps._open) == 1


def test_the_groups_and_the_untold_flaps_in_memory_have_a_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A client may begin any number of groups, and switch faster than it is told."""
    monkeypatch.setattr(module, "GROUPS_MAX", 2)
    monkeypatch.setattr(module, "FLAPS_UNTOLD_MAX", 1)
    watched = Watched()
    protocols: tuple[Protocol, ...] = ("classic", "consumer", "classic", "consumer")
    for group_id in "hij":
        for each in protocols:
            watched.joined(each, group_id=group_id)
    assert list(watched.steps._groups) == ["i", "j"]
    assert [group_id for group_id, _ in watched.steps.judge(watched.now_ms)] == ["j"]


def test_the_memory_of_all_groups_has_a_bound(
    monkeypatch: pytest.MonkeyPatch, watched: Watched
) -> None:
    """The group without an event for the longest time is forgotten. A client with long names takes
    nobody's place."""
    monkeypatch.setattr(module, "ENTRIES_MAX", 8)
    for group_id, member_id in (("h", "a"), ("g", "m"), ("i", "a")):
        watched.joined("classic", client_id=member_id, member_id=member_id, group_id=group_id)
    watched.joined("classic", client_id="x" * module.LINE_CHARS_MAX, group_id="j")
    assert list(watched.steps._groups) == ["g", "i"]
    watched.told(GroupDeleted())
    assert watched.steps._entries == 3
