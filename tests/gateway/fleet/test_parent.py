"""A real parent with real processes, which do next to nothing."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PROGRAM = """
import os, signal, socket, sys
from gateway import logs
from gateway.fleet.parent import run_fleet
from gateway.fleet.parent_link import BEAT, DRAINING, RELOAD, SERVING
from gateway.fleet.supervision import TICK_S
from gateway.state_folder import StateFolderError

folder, behaviour = sys.argv[1:]
logs.configure("json")

def note(text):
    with open(f"{folder}/notes", "a") as notes:
        notes.write(text + "\\n")

def prepare(slot, is_first):
    if behaviour == "unprepared" and slot > 0:
        raise StateFolderError("the disk is full")

    def run(link):
        if behaviour == "fails":
            return 1
        if behaviour == "raises":
            raise ValueError("a bug")
        link.settimeout(TICK_S)
        link.send(SERVING)
        note(f"{slot} {os.getpid()} {is_first}")
        while True:
            try:
                word = link.recv(1)
            except TimeoutError:
                link.send(BEAT)
                continue
            if behaviour == "commanded" and slot == 1:
                link.send(DRAINING)
                return 0
            if word == RELOAD:
                note(f"{slot} reloads")
            else:
                note(f"{slot} drains" if word else f"{slot} is alone")
                return 0

    return run

slots = 3 if behaviour == "unprepared" else 2
sys.exit(run_fleet(slots, prepare, lambda: note("parent reloads")))
"""


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
        """Wait until the fleet has started, and so many processes have served."""
        deadline_s = time.monotonic() + 30
        while len(self.pids()) < count or "fleet_started" not in self.log():
            assert time.monotonic() < deadline_s
            time.sleep(0.01)

    def ended(self) -> int:
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


def test_a_killed_process_is_started_again_in_its_slot(tmp_path: Path) -> None:
    """Only the very first one counts as the first."""
    with running_parent(tmp_path) as parent:
        parent.wait_for(2)
        assert [note.split()[2] for note in parent.notes()] == ["True", "False"]
        began_s = time.monotonic()
        os.kill(parent.pids()[0][1], signal.SIGKILL)
        parent.wait_for(3)
        assert time.monotonic() - began_s < 2
        assert parent.pids()[2][0] == 0
        assert parent.notes()[2].split()[2] == "False"


def test_a_stopped_process_is_killed_and_started_again(tmp_path: Path) -> None:
    """Its port would go on accepting connections that nobody answers."""
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
    """And to the processes themselves, as a terminal or a supervisor sends it to all, it adds
    nothing."""
    with running_parent(tmp_path) as parent:
        parent.wait_for(2)
        for _slot, pid in parent.pids():
            os.kill(pid, number)
        time.sleep(0.2)
        assert len(parent.notes()) == 2
        parent.process.send_signal(number)
        assert parent.ended() == 0
        assert sorted(parent.notes()[2:]) == ["0 drains", "1 drains"]


def test_a_hangup_without_a_terminal_reloads_every_process(tmp_path: Path) -> None:
    """As in a single gateway. Processes that start later have what the parent has read."""
    with running_parent(tmp_path) as parent:
        parent.wait_for(2)
        parent.process.send_signal(signal.SIGHUP)
        deadline_s = time.monotonic() + 30
        while len(parent.notes()) < 5:
            assert time.monotonic() < deadline_s
            time.sleep(0.01)
        assert sorted(parent.notes()[2:]) == ["0 reloads", "1 reloads", "parent reloads"]


def test_no_process_outlives_its_parent(tmp_path: Path) -> None:
    """However that ends."""
    with running_parent(tmp_path) as parent:
        parent.wait_for(2)
        pids = [pid for _slot, pid in parent.pids()]
        parent.process.kill()
        parent.ended()
        deadline_s = time.monotonic() + 30
        while any(map(is_running, pids)):
            assert time.monotonic() < deadline_s
            time.sleep(0.01)
        assert sorted(parent.notes()[2:]) == ["0 is alone", "1 is alone"]


def test_a_process_that_a_command_drains_takes_the_others_along(tmp_path: Path) -> None:
    """They learn of it while it still drains."""
    with running_parent(tmp_path, "commanded") as parent:
        parent.wait_for(2)
        parent.process.send_signal(signal.SIGHUP)
        assert parent.ended() == 0
        notes = [note for note in parent.notes()[2:] if note != "parent reloads"]
        assert notes in (["0 reloads", "0 drains"], ["0 drains"])


@pytest.mark.parametrize("behaviour", ["fails", "raises"])
def test_a_fleet_that_cannot_start_ends(behaviour: str, tmp_path: Path) -> None:
    """Only the first process is tried."""
    with running_parent(tmp_path, behaviour) as parent:
        assert parent.ended() == 1
        assert parent.log().count("process_started") == 1


def test_processes_that_cannot_be_prepared_end_a_fleet_that_starts(tmp_path: Path) -> None:
    """With one line each that has the reason. The one that serves drains."""
    with running_parent(tmp_path, "unprepared") as parent:
        assert parent.ended() == 1
        assert parent.log().count("the disk is full") == 2
        assert "Traceback" not in parent.log()
        assert parent.notes()[1:] == ["0 drains"]
