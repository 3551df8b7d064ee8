"""What the parent does when its processes start, end, and fall silent."""

import random
from collections.abc import Iterable, Iterator

import pytest

from gateway.fleet.supervision import (
    DELAY_TICKS_MAX,
    LINGER_TICKS,
    SETTLE_TICKS,
    SILENT_TICKS_MAX,
    UNOPENED_TICKS,
    Action,
    AnnounceOwners,
    CloseSharedPorts,
    DrainProcess,
    EndFleet,
    KillProcess,
    OpenShards,
    SlotPhase,
    StartProcess,
    Supervision,
)

KILLED = 9
SHARDS = 6


def complete(slots: int) -> Supervision:
    """A fleet that serves."""
    supervision = Supervision(slots, SHARDS)
    list(supervision.begin())
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
    supervision = Supervision(3, SHARDS)
    assert list(supervision.begin()) == [StartProcess(0, (0, 3))]
    assert tick(supervision, SILENT_TICKS_MAX, beating=(0,)) == []
    assert list(supervision.on_serving(0)) == [StartProcess(1, (1, 4)), StartProcess(2, (2, 5))]
    assert not supervision.is_complete
    list(supervision.on_serving(1))
    list(supervision.on_serving(2))
    assert supervision.is_complete


def test_a_fleet_that_cannot_start_ends() -> None:
    """The exit status is that of the process that could not."""
    supervision = Supervision(2, SHARDS)
    list(supervision.begin())
    assert list(supervision.on_ended(0, 1)) == [EndFleet(1)]


def test_a_fleet_ends_as_a_whole_if_one_of_its_processes_cannot_start() -> None:
    """The process that has started it sees why. Later the others serve without it."""
    supervision = Supervision(3, SHARDS)
    list(supervision.begin())
    list(supervision.on_serving(0))
    assert list(supervision.on_ended(1, 1)) == [DrainProcess(0), DrainProcess(2)]
    assert list(supervision.on_ended(0, 0)) == []
    assert list(supervision.on_ended(2, 0)) == [EndFleet(1)]


def test_a_killed_process_is_started_again_immediately() -> None:
    """The process keeps its slot, because its ports belong to that."""
    supervision = complete(2)
    assert list(supervision.on_ended(1, KILLED))[-1] == StartProcess(1)


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
    assert list(supervision.on_ended(1, KILLED)) == [StartProcess(1)]  # it had no shards yet


def test_a_silent_process_is_killed_and_replaced_only_after_its_end() -> None:
    """Two processes never have the same shards."""
    supervision = complete(2)
    assert tick(supervision, SILENT_TICKS_MAX, beating=(0,)) == []
    killed, moved = tick(supervision, 1, beating=(0,))
    assert (killed, moved) == (KillProcess(1), AnnounceOwners((0,) * SHARDS))
    assert tick(supervision, SILENT_TICKS_MAX * 3, beating=(0,)) == []
    assert list(supervision.on_ended(1, KILLED)) == [OpenShards(0, (1, 3, 5)), StartProcess(1)]


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


def test_a_command_drains_the_fleet_once() -> None:
    """A process that is told again would end without a drain."""
    supervision = complete(2)
    assert list(supervision.on_drain_asked()) == [DrainProcess(0), DrainProcess(1)]
    assert list(supervision.on_drain_asked()) == []
    assert list(supervision.on_ended(0, 0)) == []
    assert list(supervision.on_ended(1, 0)) == [EndFleet(0)]


def test_a_second_signal_ends_the_drain_of_every_process() -> None:
    """A second signal means the same as for a single gateway."""
    supervision = complete(2)
    list(supervision.on_drain_asked())
    assert list(supervision.on_drain()) == [DrainProcess(0), DrainProcess(1)]


def test_a_fleet_whose_log_another_gateway_has_taken_ends() -> None:
    """No process is started again: it would take the log back."""
    supervision = complete(2)
    assert list(supervision.on_log_lost()) == [DrainProcess(0), DrainProcess(1)]
    assert list(supervision.on_log_lost()) == []  # the other one has lost it too
    assert list(supervision.on_ended(0, 1)) == []
    assert list(supervision.on_ended(1, 0)) == [EndFleet(1)]


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


def kill(supervision: Supervision, slot: int) -> list[Action]:
    """The end of a process without its own doing."""
    return list(supervision.on_ended(slot, KILLED))


def start_again(supervision: Supervision, slot: int, *, beating: tuple[int, ...]) -> list[Action]:
    """Have the next process of a slot serve for long enough. Returns what follows from that."""
    actions = list(supervision.on_serving(slot))
    return actions + tick(supervision, SETTLE_TICKS, beating=beating)


def test_the_shards_of_a_killed_process_go_to_those_that_have_the_fewest() -> None:
    """The shards move when the process ends, and need not wait for the next one."""
    supervision = complete(3)
    assert kill(supervision, 2) == [
        AnnounceOwners((0, 1, 0, 0, 1, 1)),
        OpenShards(0, (2,)),
        OpenShards(1, (5,)),
        StartProcess(2),
    ]


def test_a_process_that_is_back_gets_its_shards_once_the_others_have_given_them_up() -> None:
    """The clients have found the other processes before, and need not look for them twice."""
    supervision = complete(3)
    kill(supervision, 2)
    assert list(supervision.on_serving(2)) == []
    assert tick(supervision, SETTLE_TICKS - 1, beating=(0, 1, 2)) == []
    assert tick(supervision, 1, beating=(0, 1, 2)) == [AnnounceOwners((0, 1, 2, 0, 1, 2))]
    assert list(supervision.on_gave_up(1, 5)) == [OpenShards(2, (5,))]
    assert list(supervision.on_gave_up(0, 2)) == [OpenShards(2, (2,))]


def test_a_shard_goes_back_no_sooner_for_being_opened_late() -> None:
    """Its clients find the other process only once that has opened it."""
    supervision = complete(3)
    kill(supervision, 2)
    list(supervision.on_serving(2))
    tick(supervision, SETTLE_TICKS - 1, beating=(0, 1, 2))
    supervision.on_opened(5)
    assert tick(supervision, SETTLE_TICKS - 1, beating=(0, 1, 2)) == []
    assert tick(supervision, 1, beating=(0, 1, 2)) == [AnnounceOwners((0, 1, 2, 0, 1, 2))]


def test_a_process_that_does_not_serve_yet_owns_nothing_sooner_or_later() -> None:
    """The delay begins when it serves."""
    supervision = complete(3)
    kill(supervision, 2)
    supervision.on_opened(5)
    list(supervision.on_serving(2))
    assert tick(supervision, SETTLE_TICKS - 1, beating=(0, 1, 2)) == []
    assert tick(supervision, 1, beating=(0, 1, 2)) == [AnnounceOwners((0, 1, 2, 0, 1, 2))]


def test_a_shard_that_its_holder_gives_up_too_late_goes_to_its_owner_at_that_time() -> None:
    """The process that was to get it has ended meanwhile."""
    supervision = complete(2)
    kill(supervision, 1)
    start_again(supervision, 1, beating=(0, 1))
    assert kill(supervision, 1) == [AnnounceOwners((0,) * SHARDS), StartProcess(1)]
    assert list(supervision.on_gave_up(0, 1)) == [OpenShards(0, (1,))]


def test_a_process_without_others_opens_its_shards_at_its_start() -> None:
    """A fleet of one, or one whose processes have all ended."""
    alone = complete(1)
    assert kill(alone, 0) == [StartProcess(0, tuple(range(SHARDS)))]
    both = complete(2)
    kill(both, 0)
    assert StartProcess(1, (1, 3, 5)) in kill(both, 1)


def test_shards_that_a_starting_process_opens_stay_with_it() -> None:
    """The first one that serves does not ask for those of the second one."""
    supervision = complete(2)
    kill(supervision, 0)
    kill(supervision, 1)
    assert OpenShards(0, (0, 2, 4)) in list(supervision.on_serving(0))
    assert tick(supervision, 1, beating=(0, 1)) == []
    assert list(supervision.on_serving(1)) == []


def test_the_shards_of_a_process_that_cannot_start_go_to_others() -> None:
    """The process may have opened some of its shards."""
    supervision = complete(2)
    kill(supervision, 0)
    kill(supervision, 1)
    list(supervision.on_serving(0))
    assert OpenShards(0, (1, 3, 5)) in list(supervision.on_ended(1, 1))


def test_a_shard_that_cannot_be_opened_is_tried_again_later() -> None:
    """Every process lives on with its other shards, as on a full disk."""
    supervision = complete(2)
    assert OpenShards(0, (1, 3, 5)) in kill(supervision, 1)
    supervision.on_not_opened(0, (1, 5))
    assert tick(supervision, UNOPENED_TICKS - 1, beating=(0, 1)) == []
    assert tick(supervision, 1, beating=(0, 1)) == [OpenShards(0, (1, 5))]


def test_a_process_that_leaves_does_not_wait_for_a_shard_that_it_could_not_open() -> None:
    """The process has nothing of the shard that others could take."""
    supervision = complete(2)
    kill(supervision, 1)
    start_again(supervision, 1, beating=(0, 1))
    for shard in (1, 3, 5):
        assert list(supervision.on_gave_up(0, shard)) == [OpenShards(1, (shard,))]
    supervision.on_restart((1,))
    tick(supervision, 1, beating=(0, 1))
    list(supervision.on_gave_up(1, 1))
    list(supervision.on_gave_up(1, 3))
    supervision.on_not_opened(1, (5,))
    assert linger(supervision)[-1] == DrainProcess(1)


def linger(supervision: Supervision) -> list[Action]:
    """Let the process that leaves stay for its clients."""
    return tick(supervision, LINGER_TICKS, beating=(0, 1))


def test_a_restart_moves_new_clients_first_then_shards_then_connections() -> None:
    """The process drains once it has no shard any more, and is then started again."""
    supervision = complete(2)
    supervision.on_restart((1,))
    assert tick(supervision, 1, beating=(0, 1)) == [
        CloseSharedPorts(1),
        AnnounceOwners((0,) * SHARDS),
    ]
    assert list(supervision.on_gave_up(1, 1)) == [OpenShards(0, (1,))]
    assert list(supervision.on_gave_up(1, 3)) == [OpenShards(0, (3,))]
    assert list(supervision.on_gave_up(1, 5)) == [OpenShards(0, (5,))]
    assert tick(supervision, LINGER_TICKS - 1, beating=(0, 1)) == [], "its clients ask it once more"
    assert tick(supervision, 1, beating=(0, 1)) == [DrainProcess(1)]
    assert list(supervision.on_ended(1, 0)) == [StartProcess(1)]


def test_a_drain_by_a_command_counts_during_a_restart() -> None:
    """Whether the process that leaves has been told to drain for its restart, or not yet."""
    supervision = complete(2)
    supervision.on_restart((0,))
    assert CloseSharedPorts(0) in tick(supervision, 1, beating=(0, 1))
    assert list(supervision.on_drain_asked()) == [DrainProcess(0), DrainProcess(1)]
    supervision = complete(2)
    supervision.on_restart((0,))
    tick(supervision, 1, beating=(0, 1))
    for shard in (0, 2, 4):
        list(supervision.on_gave_up(0, shard))
    assert linger(supervision) == [DrainProcess(0)]
    assert list(supervision.on_drain_asked()) == [DrainProcess(1)]
    assert list(supervision.on_ended(0, 0)) == []
    assert list(supervision.on_ended(1, 0)) == [EndFleet(0)]


def test_processes_are_restarted_one_after_another() -> None:
    """The next one only when all serve with their own shards."""
    supervision = complete(2)
    supervision.on_restart((0, 1))
    assert CloseSharedPorts(0) in tick(supervision, 1, beating=(0, 1))
    for shard in (0, 2, 4):
        list(supervision.on_gave_up(0, shard))
    assert linger(supervision) == [DrainProcess(0)]
    assert tick(supervision, 3, beating=(0, 1)) == []
    list(supervision.on_ended(0, 0))
    assert AnnounceOwners((0, 1) * 3) in start_again(supervision, 0, beating=(0, 1))
    for shard in (0, 2, 4):
        list(supervision.on_gave_up(1, shard))
    assert CloseSharedPorts(1) in tick(supervision, 1, beating=(0, 1))


def test_a_fleet_of_one_is_restarted_in_place() -> None:
    """No other process could take its shards or its clients."""
    supervision = complete(1)
    supervision.on_restart((0,))
    assert tick(supervision, 1, beating=(0,)) == [DrainProcess(0)]
    assert list(supervision.on_ended(0, 0)) == [StartProcess(0, tuple(range(SHARDS)))]


def test_a_shard_never_has_two_holders() -> None:
    """Whatever ends, falls silent, starts and is restarted, and in whatever order. In the end each
    has one."""
    play_all(300)


class OpensShardsOfAKilledProcess(Supervision):
    """Plants a bug: a killed process counts as dead before it is."""

    def on_tick(self) -> Iterator[Action]:
        actions = list(super().on_tick())
        for action in actions:
            if isinstance(action, KillProcess):
                self._holders = [None if h == action.slot else h for h in self._holders]
        yield from actions


class OpensShardsBeforeTheyAreGivenUp(Supervision):
    """Plants a bug: an owner opens its shards as soon as it is one."""

    def _free_shards(self, slot: int) -> tuple[int, ...]:
        return tuple(
            shard
            for shard in range(self.shards)
            if self._owners[shard] == slot and self._holders[shard] != slot
        )


class StartsWithAllShardsOfItsHome(Supervision):
    """Plants a bug: a process opens its own shards at its start, though others serve them."""

    def _start(self, slot: int) -> StartProcess:
        super()._start(slot)
        return StartProcess(slot, tuple(range(slot, self.shards, self.slots)))


class ForgetsWhatADeadProcessHad(Supervision):
    """Plants a bug: a shard stays with a process that has ended."""

    def on_ended(self, slot: int, status: int) -> Iterator[Action]:
        before = list(self._holders)
        actions = list(super().on_ended(slot, status))
        self._holders = [
            was if was == slot else now for was, now in zip(before, self._holders, strict=True)
        ]
        yield from actions


class TakesAnyWordForTheHolders(Supervision):
    """Plants a bug: a shard counts as free, whichever process gives it up."""

    def on_gave_up(self, slot: int, shard: int) -> Iterator[Action]:
        for other in range(self.shards):
            if self._owners[other] == self._owners[shard]:
                self._holders[other] = None
        yield from super().on_gave_up(slot, shard)


class DrainsBeforeItsShardsAreGivenUp(Supervision):
    """Plants a bug: a restart does not wait until others serve."""

    def _drain_if_left(self, slot: int, ticks: int = 0) -> Iterator[DrainProcess]:
        one = self._slots[slot]
        if one.phase is SlotPhase.LEAVING and not one.is_draining:
            one.is_draining = True
            yield DrainProcess(slot)


@pytest.mark.parametrize(
    "bug",
    [
        OpensShardsOfAKilledProcess,
        OpensShardsBeforeTheyAreGivenUp,
        StartsWithAllShardsOfItsHome,
        ForgetsWhatADeadProcessHad,
        TakesAnyWordForTheHolders,
        DrainsBeforeItsShardsAreGivenUp,
    ],
)
def test_a_planted_bug_is_found(bug: type[Supervision]) -> None:
    """A few fleets are enough to find it."""
    with pytest.raises(AssertionError):
        play_all(100, bug)


def test_processes_of_several_machines_leave_by_themselves_when_they_are_drained() -> None:
    """One after another, each once the one before has had time to get its shards back."""
    supervision = Supervision(2, 0)
    assert list(supervision.begin()) == [StartProcess(0)]
    assert list(supervision.on_serving(0)) == [StartProcess(1)]
    assert list(supervision.on_serving(1)) == []
    supervision.on_restart(range(2))
    assert tick(supervision, 1, beating=(0, 1)) == [CloseSharedPorts(0), DrainProcess(0)]
    assert tick(supervision, LINGER_TICKS, beating=(0, 1)) == []
    assert list(supervision.on_ended(0, 0)) == [StartProcess(0)]
    assert list(supervision.on_serving(0)) == []
    assert tick(supervision, SETTLE_TICKS, beating=(0, 1))[-2:] == [
        CloseSharedPorts(1),
        DrainProcess(1),
    ]


def play_all(seeds: int, kind: type[Supervision] = Supervision) -> None:
    """Play fleets of up to four processes, each of which ends with one holder for each shard."""
    for seed in range(seeds):
        held = play(random.Random(seed), slots=1 + seed % 4, kind=kind)
        assert sorted(held) == list(range(SHARDS)), seed


def play(rng: random.Random, slots: int, kind: type[Supervision] = Supervision) -> list[int]:
    """A fleet in which anything happens, and then nothing any more. Returns the shards that its
    processes have in the end."""
    fleet = _Fleet(kind(slots, SHARDS))
    for _ in range(rng.randrange(20, 200)):
        rng.choice([fleet.kill_one, fleet.let_one_serve, fleet.give_one_up, fleet.tick])(rng)
        if rng.random() < 0.1:
            fleet.fail_to_open_one(rng)
        if rng.random() < 0.05:
            fleet.supervision.on_restart(range(slots))
    fleet.beats = 1.0
    for _ in range(400):
        fleet.let_one_serve(rng)
        fleet.give_one_up(rng)
        fleet.tick(rng)
    return [shard for held in fleet.held.values() for shard in held]


class _Fleet:
    """Processes that do as they are told."""

    def __init__(self, supervision: Supervision) -> None:
        self.supervision = supervision
        self.beats = 0.2
        """How likely a process is to give a sign of life in a tick."""
        self.held: dict[int, set[int]] = {}
        """What each process has open."""
        self._starting: set[int] = set()
        self._dying: set[int] = set()
        """Killed, and not ended yet."""
        self._owners = self.supervision.owners
        self._obey(self.supervision.begin())
        while not self.supervision.is_complete:
            self.let_one_serve(random.Random(0))

    def kill_one(self, rng: random.Random) -> None:
        if self.held:
            self._end(rng.choice(sorted(self.held)), KILLED)

    def let_one_serve(self, rng: random.Random) -> None:
        if self._starting:
            slot = rng.choice(sorted(self._starting))
            if slot in self._dying:
                return
            self._starting.discard(slot)
            self._obey(self.supervision.on_serving(slot))

    def give_one_up(self, rng: random.Random) -> None:
        unowned = [
            (slot, shard)
            for slot, held in self.held.items()
            for shard in sorted(held)
            if self._owners[shard] != slot and slot not in self._starting | self._dying
        ]
        if unowned:
            slot, shard = rng.choice(unowned)
            self.held[slot].discard(shard)
            self._obey(self.supervision.on_gave_up(slot, shard))

    def fail_to_open_one(self, rng: random.Random) -> None:
        """Act like a process that has not opened one of the shards that it was told to open."""
        opened = [
            (slot, shard)
            for slot, held in self.held.items()
            for shard in sorted(held)
            if slot not in self._starting | self._dying
        ]
        if opened:
            slot, shard = rng.choice(opened)
            self.held[slot].discard(shard)
            self.supervision.on_not_opened(slot, (shard,))

    def tick(self, rng: random.Random) -> None:
        for slot in sorted(self._dying):
            if rng.random() < 0.3:
                self._end(slot, KILLED)
        for slot in self.held:
            if rng.random() < self.beats:
                self.supervision.on_beat(slot)
        self._obey(self.supervision.on_tick())

    def _end(self, slot: int, status: int) -> None:
        del self.held[slot]
        self._starting.discard(slot)
        self._dying.discard(slot)
        self._obey(self.supervision.on_ended(slot, status))

    def _obey(self, actions: Iterable[Action]) -> None:
        for action in list(actions):
            match action:
                case StartProcess(slot, shards):
                    assert slot not in self.held
                    self.held[slot] = set()
                    self._starting.add(slot)
                    self._open(slot, shards)
                case OpenShards(slot, shards):
                    self._open(slot, shards)
                case AnnounceOwners(owners):
                    self._owners = owners
                case KillProcess(slot):
                    self._dying.add(slot)
                case DrainProcess(slot):
                    others = len(self.held) > 1
                    assert not (others and self.held[slot]), "it leaves its groups to nobody"
                    self._end(slot, 0)
                case _:
                    pass

    def _open(self, slot: int, shards: Iterable[int]) -> None:
        for shard in shards:
            assert not any(shard in held for held in self.held.values())
            assert self._owners[shard] == slot
            self.held[slot].add(shard)
