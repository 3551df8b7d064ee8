"""The parent of a fleet: forks its processes, watches them, and passes signals on.

It has no event loop and no threads, so that it can fork at any time: a process that is started
again has all modules loaded, and serves a moment later.
"""

import os
import selectors
import signal
import socket
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NoReturn, Protocol

import structlog

from gateway.fleet.supervision import (
    TICK_S,
    Action,
    AnnounceOwners,
    CloseSharedPorts,
    DrainProcess,
    EndFleet,
    KillProcess,
    OpenShards,
    StartProcess,
    Supervision,
)
from gateway.fleet.words import (
    WORD_BYTES_MAX,
    AskDrain,
    AskRestart,
    Drain,
    GaveUp,
    LogClaimed,
    LogLost,
    NotOpened,
    Opened,
    OwnerTable,
    Reload,
    Serving,
    StopAccepting,
    Take,
    Word,
    decode,
    encode,
    make_link,
)
from gateway.state_folder import StateFolderError

log = structlog.get_logger()

RunProcess = Callable[[socket.socket], int]
"""Runs in the new process, with its end of the socket to the parent. Returns the exit status."""


class FleetPlan(Protocol):
    """What the parent does for its processes before they run. All methods may raise
    StateFolderError."""

    def prepare(self, slot: int, owners: Sequence[int], shards: Sequence[int]) -> RunProcess:
        """Prepare the process of a slot. `owners`: the slot that owns each shard; `shards`: those
        that the process opens at its start."""

    def number_run(self) -> int:
        """A run id, greater than all before."""

    def record_log(self, log_id: str, run_id: int) -> None:
        """Learn which state log the fleet has, and count its runs on from this one. The next run
        stores it."""

    def record_owners(self, owners: Sequence[int]) -> None:
        """Store which slot owns each shard, for commands. NO_SLOT: it is on another machine."""

    def explain_end(self, reason: str) -> None:
        """Say why the fleet ends."""

    def reload(self) -> None:
        """Read settings again, for processes that start later."""


_OWN_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)


@dataclass(frozen=True, slots=True)
class _Process:
    pid: int
    link: socket.socket
    """The parent's end."""


def run_fleet(slots: int, shards: int, plan: FleetPlan) -> int:
    """Run a fleet until it is told to end, or cannot start. Returns the exit status. There are no
    `shards` to share out if the group of a fleet on several machines does so."""
    with _signals_at_a_socket() as signals, selectors.DefaultSelector() as selector:
        return _Parent(Supervision(slots, shards), plan, signals, selector).run()


class _Parent:
    def __init__(
        self,
        supervision: Supervision,
        plan: FleetPlan,
        signals: socket.socket,
        selector: selectors.BaseSelector,
    ) -> None:
        self._plan = plan
        self._signals = signals
        self._selector = selector
        self._supervision = supervision
        self._processes: dict[int, _Process] = {}
        self._actions: deque[Action] = deque()
        self._status: int | None = None
        self._has_lost_log = False
        # At SIGHUP it no longer is one. Without one, SIGHUP asks a service to reload its files.
        self._has_terminal = sys.stderr.isatty()

    def run(self) -> int:
        self._selector.register(self._signals, selectors.EVENT_READ)
        self._do(self._supervision.begin())
        next_tick_s = time.monotonic() + TICK_S
        while self._status is None:
            for key, _ in self._selector.select(max(0.0, next_tick_s - time.monotonic())):
                if key.fileobj is self._signals:
                    self._take_signals()
                else:
                    self._hear(key.data)
            if time.monotonic() >= next_tick_s:
                # From now on: after a pause, what the processes have said is read first.
                next_tick_s = time.monotonic() + TICK_S
                self._do(self._supervision.on_tick())
        return self._status

    def _hear(self, slot: int) -> None:
        """Hear all that a process has said."""
        process = self._processes.get(slot)
        while process is not None and process.link in self._selector.get_map():
            try:
                packet = process.link.recv(WORD_BYTES_MAX)
            except BlockingIOError:
                return
            except ConnectionResetError:  # it has not read what it was told
                packet = b""
            if not packet:  # it ends: SIGCHLD follows
                self._selector.unregister(process.link)
                return
            self._supervision.on_beat(slot)
            self._take_word(slot, decode(packet))

    def _take_word(self, slot: int, word: Word) -> None:
        match word:
            case Serving():
                self._on_serving(slot)
            case LogClaimed(log_id, run_id):
                self._plan.record_log(log_id, run_id)
            case LogLost(reason):
                if not self._has_lost_log:  # the others lose it too
                    self._plan.explain_end(reason)
                self._has_lost_log = True
                self._do(self._supervision.on_log_lost())
            case AskDrain():
                log.info("stop_asked", by="a command")
                self._do(self._supervision.on_drain_asked())
            case GaveUp(shard):
                self._do(self._supervision.on_gave_up(slot, shard))
            case Opened(shard):
                self._supervision.on_opened(shard)
            case NotOpened(shard):
                self._supervision.on_not_opened(slot, (shard,))
            case OwnerTable(owners):
                self._store_owners(owners)
            case AskRestart(slots):
                log.info("restart_asked", slots=list(slots))
                self._supervision.on_restart(slots)
            case _:  # a sign of life
                pass

    def _on_serving(self, slot: int) -> None:
        was_complete = self._supervision.is_complete
        self._do(self._supervision.on_serving(slot))
        if self._supervision.is_complete and not was_complete:
            log.info("fleet_started", processes=len(self._processes))

    def _take_signals(self) -> None:
        for number in self._signals.recv(4096):
            if number == signal.SIGHUP and not self._has_terminal:
                self._plan.reload()
                for process in self._processes.values():
                    _say(process, Reload())
            elif number != signal.SIGCHLD:
                log.info("stop_asked", signal=signal.Signals(number).name)
                self._do(self._supervision.on_drain())
        for slot, process in tuple(self._processes.items()):
            pid, wait_status = os.waitpid(process.pid, os.WNOHANG)
            if pid:
                self._end(slot, process, os.waitstatus_to_exitcode(wait_status))

    def _end(self, slot: int, process: _Process, exit_code: int) -> None:
        """The process has ended, by itself or by a signal (then the code is negative)."""
        self._hear(slot)  # its last words
        del self._processes[slot]
        if process.link in self._selector.get_map():
            self._selector.unregister(process.link)
        process.link.close()
        if exit_code < 0:
            log.warning("process_killed", slot=slot, signal=signal.Signals(-exit_code).name)
        self._do(self._supervision.on_ended(slot, abs(exit_code)))

    def _do(self, actions: Iterable[Action]) -> None:
        is_busy = bool(self._actions)
        self._actions.extend(actions)
        while self._actions and not is_busy:  # an action may cause others, which come after it
            match self._actions[0]:
                case StartProcess(slot, shards):
                    self._start(slot, shards)
                case KillProcess(slot):
                    log.error("process_silent", slot=slot)
                    os.kill(self._processes[slot].pid, signal.SIGKILL)
                case DrainProcess(slot):
                    if slot in self._processes:  # it may not have started
                        _say(self._processes[slot], Drain())
                case CloseSharedPorts(slot):
                    _say(self._processes[slot], StopAccepting())
                case AnnounceOwners(owners):
                    self._announce(owners)
                case OpenShards(slot, shards):
                    self._open_shards(slot, shards)
                case EndFleet(status):
                    self._status = status
            self._actions.popleft()

    def _announce(self, owners: tuple[int, ...]) -> None:
        for process in self._processes.values():
            _say(process, OwnerTable(owners))
        self._store_owners(owners)

    def _store_owners(self, owners: Sequence[int]) -> None:
        try:  # before the new owners open their shards: commands find groups there
            self._plan.record_owners(owners)
        except StateFolderError as error:  # commands look for groups in the wrong process
            log.error("owners_not_stored", reason=str(error))  # noqa: TRY400

    def _open_shards(self, slot: int, shards: tuple[int, ...]) -> None:
        process = self._processes[slot]
        try:
            run_id = self._plan.number_run()
        except StateFolderError as error:
            # Without a number of its own, it might take itself for an older run than another one.
            log.error("shards_not_opened", slot=slot, reason=str(error))  # noqa: TRY400
            self._supervision.on_not_opened(slot, shards)
            return
        log.info("shards_moved", shards=list(shards), slot=slot)
        _say(process, Take(shards, run_id))

    def _start(self, slot: int, shards: Sequence[int]) -> None:
        try:
            run_process = self._plan.prepare(slot, self._supervision.owners, shards)
            pid, link = self._fork(run_process)
        except (StateFolderError, OSError) as error:
            log.error("process_not_started", slot=slot, reason=str(error))  # noqa: TRY400
            self._do(self._supervision.on_ended(slot, 1))
            return
        self._processes[slot] = _Process(pid, link)
        self._selector.register(link, selectors.EVENT_READ, slot)
        log.info("process_started", slot=slot, pid=pid)

    def _fork(self, run_process: RunProcess) -> tuple[int, socket.socket]:
        """Start a process. Returns its id and our end of the link. Raises OSError."""
        ours, theirs = make_link()
        sys.stderr.flush()
        try:
            pid = os.fork()
        except OSError:
            ours.close()
            theirs.close()
            raise
        if pid == 0:
            ours.close()
            self._become(run_process, theirs)
        theirs.close()
        ours.setblocking(False)
        return pid, ours

    def _become(self, run_process: RunProcess, link: socket.socket) -> NoReturn:
        """Continue as the new process."""
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._selector.close()
            self._signals.close()
            for sibling in self._processes.values():
                sibling.link.close()
            status = run_process(link)
        except BaseException:  # the boundary of the process
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)


def _say(process: _Process, word: Word) -> None:
    try:
        process.link.send(encode(word))
    except OSError as error:  # it ends, or is silent and will be killed
        log.debug("process_not_told", pid=process.pid, reason=str(error))


@contextmanager
def _signals_at_a_socket() -> Iterator[socket.socket]:
    """Receive the numbers of signals at a socket. Processes that are forked meanwhile ignore those
    signals, but no program that they run does."""
    receiver, sender = socket.socketpair()
    with receiver, sender:
        receiver.setblocking(False)
        sender.setblocking(False)
        before = {number: signal.signal(number, _ignore) for number in _OWN_SIGNALS}
        wakeup_before = signal.set_wakeup_fd(sender.fileno())
        try:
            yield receiver
        finally:
            signal.set_wakeup_fd(wakeup_before)
            for number, handler in before.items():
                signal.signal(number, handler)


def _ignore(_number: int, _frame: object) -> None:
    pass
