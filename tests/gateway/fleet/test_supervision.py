"""What the parent does when its processes start, end, and fall silent."""

from gateway.fleet.supervision import (
    DELAY_TICKS_MAX,
    SILENT_TICKS_MAX,
    Action,
    DrainProcess,
    EndFleet,
    KillProcess,
    StartProcess,
    Supervision,
)

KILLED = 9


def complete(slots: int) -> Supervision:
    """A fleet that serves."""
    supervision = Supervision(slots)
    assert list(supervision.begin()) == [StartProcess(0)]
    for slot in range(slots):
        list(supervision.on_serving(slot))
    assert supervision.is_complete
    return supervision


def tick(supervision: Supervision, ticks: int, *, beating: tuple[int, ...] = ()) -> list[Action]:
    """Let time pass while these slots give signs of life."""
    actions: list[Action] = []
    for _ in range(ticks):
        for slot in beating:
            supervision.on_beat(slot)
        actions += supervision.on_tick()
    return actions


def test_the_first_process_starts_alone() -> None:
    """What keeps it from starting is said once. The others follow as soon as it serves."""
    supervision = Supervision(3)
    assert list(supervision.begin()) == [StartProcess(0)]
    assert tick(supervision, SILENT_TICKS_MAX, beating=(0,)) == []
    assert list(supervision.on_serving(0)) == [StartProcess(1), StartProcess(2)]
    assert not supervision.is_complete
    list(supervision.on_serving(1))
    list(supervision.on_serving(2))
    assert supervision.is_complete


def test_a_fleet_that_cannot_start_ends() -> None:
    """With the status of the process that could not."""
    supervision = Supervision(2)
    list(supervision.begin())
    assert list(supervision.on_ended(0, 1)) == [EndFleet(1)]


def test_a_fleet_ends_as_a_whole_if_one_of_its_processes_cannot_start() -> None:
    """Whoever has started it sees why. Later the others serve without it."""
    supervision = Supervision(3)
    list(supervision.begin())
    list(supervision.on_serving(0))
    assert list(supervision.on_ended(1, 1)) == [DrainProcess(0), DrainProcess(2)]
    assert list(supervision.on_ended(0, 0)) == []
    assert list(supervision.on_ended(2, 0)) == [EndFleet(1)]


def test_a_killed_process_is_started_again_immediately() -> None:
    """In its slot, because its ports belong to that."""
    supervision = complete(2)
    assert list(supervision.on_ended(1, KILLED)) == [StartProcess(1)]


def test_a_process_that_cannot_start_again_is_tried_later_and_later() -> None:
    """A bug in one group must not take all of the processor time."""
    supervision = complete(2)
    list(supervision.on_ended(1, KILLED))
    for failures in range(1, 8):
        assert list(supervision.on_ended(1, 1)) == []
        delay = min(2**failures, DELAY_TICKS_MAX)
        assert tick(supervision, delay - 1, beating=(0,)) == []
        assert tick(supervision, 1, beating=(0,)) == [StartProcess(1)]
    list(supervision.on_serving(1))
    assert list(supervision.on_ended(1, KILLED)) == [StartProcess(1)]


def test_a_silent_process_is_killed_and_replaced_only_after_its_end() -> None:
    """Two processes never have the same shards."""
    supervision = complete(2)
    assert tick(supervision, SILENT_TICKS_MAX, beating=(0,)) == []
    assert tick(supervision, 1, beating=(0,)) == [KillProcess(1)]
    assert tick(supervision, SILENT_TICKS_MAX * 3, beating=(0,)) == []
    assert list(supervision.on_ended(1, KILLED)) == [StartProcess(1)]


def test_a_sign_of_life_counts_from_its_arrival_on() -> None:
    """Silence has to be without a break."""
    supervision = complete(1)
    for _ in range(5):
        assert tick(supervision, SILENT_TICKS_MAX) == []
        supervision.on_beat(0)


def test_a_drain_ends_every_process_and_then_the_fleet() -> None:
    """None is started again meanwhile."""
    supervision = complete(2)
    assert list(supervision.on_drain()) == [DrainProcess(0), DrainProcess(1)]
    assert list(supervision.on_ended(0, 0)) == []
    assert list(supervision.on_drain()) == [DrainProcess(1)]
    assert list(supervision.on_ended(1, 0)) == [EndFleet(0)]


def test_a_process_that_is_killed_during_a_drain_shows_in_the_status() -> None:
    """Its requests in flight were lost."""
    supervision = complete(2)
    list(supervision.on_drain())
    list(supervision.on_ended(0, KILLED))
    assert list(supervision.on_ended(1, 0)) == [EndFleet(1)]


def test_a_process_that_drains_by_itself_drains_the_fleet() -> None:
    """A command has told it to. It is not told again, which would end its drain."""
    supervision = complete(2)
    assert list(supervision.on_draining(0)) == [DrainProcess(1)]
    assert list(supervision.on_draining(1)) == []
    assert list(supervision.on_ended(0, 0)) == []
    assert list(supervision.on_ended(1, 0)) == [EndFleet(0)]


def test_a_second_signal_ends_the_drain_of_every_process() -> None:
    """As in a single gateway."""
    supervision = complete(2)
    list(supervision.on_draining(0))
    assert list(supervision.on_drain()) == [DrainProcess(0), DrainProcess(1)]


def test_a_silent_process_is_killed_during_a_drain_too() -> None:
    """The drain would wait for it for ever."""
    supervision = complete(2)
    list(supervision.on_drain())
    list(supervision.on_ended(0, 0))
    assert tick(supervision, SILENT_TICKS_MAX + 1) == [KillProcess(1)]
    assert list(supervision.on_ended(1, KILLED)) == [EndFleet(1)]


def test_a_drain_ends_a_fleet_whose_processes_all_wait_for_another_try() -> None:
    """No process is left whose end could end the fleet."""
    supervision = complete(1)
    list(supervision.on_ended(0, KILLED))
    assert list(supervision.on_ended(0, 1)) == []
    assert list(supervision.on_drain()) == [EndFleet(0)]
