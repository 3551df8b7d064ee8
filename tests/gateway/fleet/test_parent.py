"""A real parent with real processes, which do next to nothing."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PROGRAM = """
import os, signal, socket, sys
from gateway import logs
from gateway.fleet.parent import FleetPlan, run_fleet
from gateway.fleet.supervision import TICK_S
from gateway.fleet.words import (
    AskDrain, Beat, Drain, GaveUp, LogClaimed, LogLost, OwnerTable, Reload, Serving, Take,
    decode, encode,
)
from gateway.state_folder import StateFolderError

folder, behaviour = sys.argv[1:]
logs.configure("json")

def note(text):
    with open(f"{folder}/notes", "a") as notes:
        notes.write(text + "\\n")

class Plan(FleetPlan):
    runs = 0

    def prepare(self, slot, owners, shards):
        if behaviour == "unprepared" and slot > 0:
            raise StateFolderError("the disk is full")

        def run(link):
            if behaviour == "fails":
                return 1
            if behaviour == "raises":
                raise ValueError("a bug")
            link.settimeout(TICK_S)
            if behaviour == "reports":
                link.send(encode(OwnerTable((slot, -1))))
            if behaviour == "claims" and slot == 0:
                link.send(encode(LogClaimed("5" * 32, 7000000)))
            note(f"{slot} {os.getpid()} {sorted(shards)}")
            link.send(encode(Serving()))
            held = set(shards)
            while True:
                try:
                    packet = link.recv(4096)
                except TimeoutError:
                    link.send(encode(Beat()))
                    continue
                word = decode(packet) if packet else None
                if behaviour == "commanded" and slot == 1 and isinstance(word, Reload):
                    link.send(encode(AskDrain()))
                if behaviour == "loses" and isinstance(word, Reload):
                    link.send(encode(LogLost("it is gone")))
                    return 1
                if isinstance(word, Reload):
                    note(f"{slot} reloads")
                elif isinstance(word, Take):
                    held |= set(word.shards)
                    note(f"{slot} takes {list(word.shards)} in run {word.run_id}")
                elif isinstance(word, OwnerTable):
                    for shard in sorted(held):
                        if word.slots[shard] != slot:
                            held.discard(shard)
                            note(f"{slot} gives up {shard}")
                            link.send(encode(GaveUp(shard)))
                else:
                    note(f"{slot} drains" if packet else f"{slot} is alone")
                    return 0

        return run

    def number_run(self):
        self.runs += 1
        if behaviour == "unnumbered" and self.runs == 1:
            raise StateFolderError("the disk is full")
        return self.runs

    def record_log(self, log_id, run_id):
        note(f"parent learns of {log_id[:2]} and run {run_id}")

    def explain_end(self, reason):
        note(f"parent says that {reason}")

    def record_owners(self, owners):
        if behaviour == "reports":
            note(f"parent stores {owners}")

    def reload(self):
        note("parent reloads")

real_fork, forks = os.fork, []

def fork():
    forks.append(1)
    if behaviour == "unforked" and len(forks) == 3:
        raise BlockingIOError(11, "Resource temporarily unavailable")
    return real_fork()

os.fork = fork
slots = 3 if behaviour == "unprepared" else 2
shards = 0 if behaviour == "reports" else 4
sys.exit(run_fleet(slots, shards, Plan()))
"""


def wait_until(is_so: Callable[[], object]) -> None:
    """Poll until the condition holds: processes have no event to wait for."""
    deadline_s = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


class RunningParent:
    """The parent, and what its processes have noted."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self.process = process
        self._folder = folder

    def notes(self) -> list[str]:
        """All lines so far."""
        path = self._folder / "notes"
        return path.read_text().splitlines() if path.exists() else []

    def pids(self) -> list[tuple[int, int]]:
        """The slots and process ids of all that have served."""
        words = [note.split() for note in self.notes()]
        return [(int(word[0]), int(word[1])) for word in words if word[1].isdigit()]

    def log(self) -> str:
        """What it has logged."""
        return (self._folder / "log").read_text()

    def wait_for(self, count: int) -> None:
        """Wait until the fleet has started, and this many processes have served."""
        wait_until(lambda: len(self.pids()) >= count and "fleet_started" in self.log())

    def wait_for_note(self, note: str) -> None:
        """Wait until a process has noted this."""
        wait_until(lambda: note in self.notes())

    def exit_status(self) -> int:
        """Its exit status."""
        return self.process.wait(30)


@contextmanager
def running_parent(folder: Path, behaviour: str = "serves") -> Iterator[RunningParent]:
    """Run a fleet of two processes."""
    command = [sys.executable, "-P", "-c", PROGRAM, str(folder), behaviour]
    with (folder / "log").open("w") as log, subprocess.Popen(command, stderr=log) as process:
        try:
            yield RunningParent(process, folder)
        finally:
            process.kill()


def is_running(pid: int) -> bool:
    """Whether there is such a process, other than a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_the_shards_of_a_killed_process_are_served_by_another_until_it_is_back(
    tmp_path: Path,
) -> None:
    """The killed process is started again in its slot. Each shard changes hands with a run of its
    own."""
    with running_parent(tmp_path) as parent:
        parent.wait_for(2)
        assert [note.split(maxsplit=2)[2] for note in parent.notes()] == ["[0, 2]", "[1, 3]"]
        os.kill(parent.pids()[0][1], signal.SIGKILL)
        parent.wait_for(3)
        assert parent.pids()[2][0] == 0
        back = "0 takes [2] in run 3"
        parent.wait_for_note(back)
        notes = parent.notes()[2:]
        assert [note for note in notes if note.startswith("1 ")] == [
            "1 takes [0, 2] in run 1",
            "1 gives up 0",
            "1 gives up 2",
        ]
        assert [note for note in notes if note.startswith("0 takes")] == [
            "0 takes [0] in run 2",
            back,
        ]
        for shard in (0, 2):
            (taken,) = (note for note in notes if note.startswith(f"0 takes [{shard}]"))
            assert notes.index(f"1 gives up {shard}") < notes.index(taken)


def test_a_full_disk_costs_no_process(tmp_path: Path) -> None:
    """The shards of a killed one are opened once there is room again."""
    with running_parent(tmp_path, "unnumbered") as parent:
        parent.wait_for(2)
        os.kill(parent.pids()[0][1], signal.SIGKILL)
        parent.wait_for_note("0 takes [0, 2] in run 2")
        assert [slot for slot, _pid in parent.pids()] == [0, 1, 0]
        assert parent.log().count("process_killed") == 1


def test_a_process_for_which_the_system_has_no_room_is_tried_again(tmp_path: Path) -> None:
    """One line says so, and the others write none."""
    with running_parent(tmp_path, "unforked") as parent:
        parent.wait_for(2)
        os.kill(parent.pids()[1][1], signal.SIGKILL)
        parent.wait_for(3)
        assert parent.pids()[2][0] == 1
        assert parent.log().count("process_not_started") == 1


def test_a_stopped_process_is_killed_and_started_again(tmp_path: Path) -> None:
    """Its port would continue accepting connections that nobody answers."""
    with running_parent(tmp_path) as parent:
        parent.wait_for(2)
        pid = parent.pids()[1][1]
        os.kill(pid, signal.SIGSTOP)
        parent.wait_for(3)
        assert parent.pids()[2][0] == 1
        assert not is_running(pid)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_parent_drains_every_process(
    number: signal.Signals, tmp_path: Path
) -> None:
    """A terminal or a supervisor may send the signal to all processes, which adds nothing."""
    with running_parent(tmp_path) as parent:
        parent.wait_for(2)
        for _slot, pid in parent.pids():
            os.kill(pid, number)
        time.sleep(0.2)
        assert len(parent.notes()) == 2
        parent.process.send_signal(number)
        assert parent.exit_status() == 0
        assert sorted(parent.notes()[2:]) == ["0 drains", "1 drains"]


def test_a_hangup_without_a_terminal_reloads_every_process(tmp_path: Path) -> None:
    """A single gateway does the same. Processes that start later use what the parent has read."""
    with running_parent(tmp_path) as parent:
        parent.wait_for(2)
        parent.process.send_signal(signal.SIGHUP)
        wait_until(lambda: len(parent.notes()) >= 5)
        assert sorted(parent.notes()[2:]) == ["0 reloads", "1 reloads", "parent reloads"]


def test_no_process_outlives_its_parent(tmp_path: Path) -> None:
    """The parent may end in any way."""
    with running_parent(tmp_path) as parent:
        parent.wait_for(2)
        pids = [pid for _slot, pid in parent.pids()]
        parent.process.kill()
        parent.exit_status()
        wait_until(lambda: not any(map(is_running, pids)))
        assert sorted(parent.notes()[2:]) == ["0 is alone", "1 is alone"]


def test_a_process_that_a_command_drains_takes_the_others_along(tmp_path: Path) -> None:
    """The parent tells all of them, it as well."""
    with running_parent(tmp_path, "commanded") as parent:
        parent.wait_for(2)
        parent.process.send_signal(signal.SIGHUP)
        assert parent.exit_status() == 0
        assert {"0 drains", "1 drains"} <= set(parent.notes())


def test_the_parent_knows_the_log_before_it_starts_another_process(tmp_path: Path) -> None:
    """The others open their parts of it, in later runs."""
    with running_parent(tmp_path, "claims") as parent:
        parent.wait_for(2)
        notes = parent.notes()
        (served,) = (number for number, note in enumerate(notes) if note.startswith("1 "))
        assert notes.index("parent learns of 55 and run 7000000") < served


def test_the_parent_says_once_why_its_fleet_has_lost_the_log(tmp_path: Path) -> None:
    """Each process finds out for itself. None is started again: it would take the log back."""
    with running_parent(tmp_path, "loses") as parent:
        parent.wait_for(2)
        parent.process.send_signal(signal.SIGHUP)
        assert parent.exit_status() == 1
        assert parent.notes().count("parent says that it is gone") == 1
        assert parent.log().count("process_started") == 2


@pytest.mark.parametrize("behaviour", ["fails", "raises"])
def test_a_fleet_that_cannot_start_ends(behaviour: str, tmp_path: Path) -> None:
    """Only the first process is tried."""
    with running_parent(tmp_path, behaviour) as parent:
        assert parent.exit_status() == 1
        assert parent.log().count("process_started") == 1


def test_processes_that_cannot_be_prepared_end_a_fleet_that_starts(tmp_path: Path) -> None:
    """Each has one line with the reason. The one that serves drains."""
    with running_parent(tmp_path, "unprepared") as parent:
        assert parent.exit_status() == 1
        assert parent.log().count("the disk is full") == 2
        assert "Traceback" not in parent.log()
        assert parent.notes()[1:] == ["0 drains"]


def test_the_parent_stores_which_processes_have_shards_that_it_does_not_share_out(
    tmp_path: Path,
) -> None:
    """The group of a fleet on several machines does. No process is told, and no shard is taken."""
    with running_parent(tmp_path, "reports") as parent:
        parent.wait_for(2)
        for slot in range(2):
            parent.wait_for_note(f"parent stores ({slot}, -1)")
        os.kill(parent.pids()[0][1], signal.SIGKILL)
        parent.wait_for(3)
        assert {note.split(maxsplit=2)[2] for note in parent.notes() if note[0].isdigit()} == {"[]"}
