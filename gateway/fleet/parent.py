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
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NoReturn

import structlog

from gateway.fleet.parent_link import DRAIN, DRAINING, RELOAD, SERVING
from gateway.fleet.supervision import (
    TICK_S,
    Action,
    DrainProcess,
    EndFleet,
    KillProcess,
    StartProcess,
    Supervision,
)
from gateway.state_folder import StateFolderError

log = structlog.get_logger()

RunProcess = Callable[[socket.socket], int]
"""Runs in the new process, with its end of the socket to the parent. Returns the exit status."""
PrepareProcess = Callable[[int, bool], RunProcess]
"""Prepares the process of a slot, in the parent; whether it is the fleet's first. Raises
StateFolderError."""

_OWN_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)


@dataclass(frozen=True, slots=True)
class _Process:
    pid: int
    link: socket.socket
    """The parent's end."""


def run_fleet(slots: int, prepare: PrepareProcess, reload: Callable[[], None]) -> int:
    """Run a fleet until it is told to end, or cannot start. `reload` reads settings again, for
    processes that start later. Returns the exit status."""
    with _signals_at_a_socket() as signals, selectors.DefaultSelector() as selector:
        return _Parent(slots, prepare, reload, signals, selector).run()


class _Parent:
    def __init__(
        self,
        slots: int,
        prepare: PrepareProcess,
        reload: Callable[[], None],
        signals: socket.socket,
        selector: selectors.BaseSelector,
    ) -> None:
        self._prepare = prepare
        self._reload = reload
        self._signals = signals
        self._selector = selector
        self._supervision = Supervision(slots)
        self._processes: dict[int, _Process] = {}
        self._actions: deque[Action] = deque()
        self._status: int | None = None
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
        process = self._processes.get(slot)
        if process is None or process.link not in self._selector.get_map():
            return  # its end has come first
        try:
            words = process.link.recv(4096)
        except BlockingIOError:
            return
        except ConnectionResetError:  # it has not read what it was told
            words = b""
        if not words:  # it ends: SIGCHLD follows
            self._selector.unregister(process.link)
            return
        self._supervision.on_beat(slot)
        if SERVING in words:
            self._on_serving(slot)
        if DRAINING in words:
            self._do(self._supervision.on_draining(slot))

    def _on_serving(self, slot: int) -> None:
        was_complete = self._supervision.is_complete
        self._do(self._supervision.on_serving(slot))
        if self._supervision.is_complete and not was_complete:
            log.info("fleet_started", processes=len(self._processes))

    def _take_signals(self) -> None:
        for number in self._signals.recv(4096):
            if number == signal.SIGHUP and not self._has_terminal:
                self._reload()
                for process in self._processes.values():
                    _say(process, RELOAD)
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
                case StartProcess(slot):
                    self._start(slot)
                case KillProcess(slot):
                    log.error("process_silent", slot=slot)
                    os.kill(self._processes[slot].pid, signal.SIGKILL)
                case DrainProcess(slot):
                    if slot in self._processes:  # it may not have started
                        _say(self._processes[slot], DRAIN)
                case EndFleet(status):
                    self._status = status
            self._actions.popleft()

    def _start(self, slot: int) -> None:
        is_first = not self._processes and not self._supervision.is_complete
        try:
            run_process = self._prepare(slot, is_first)
        except StateFolderError as error:
            log.error("process_not_started", slot=slot, reason=str(error))  # noqa: TRY400
            self._do(self._supervision.on_ended(slot, 1))
            return
        ours, theirs = socket.socketpair()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            ours.close()
            self._become(run_process, theirs)
        theirs.close()
        ours.setblocking(False)
        self._processes[slot] = _Process(pid, ours)
        self._selector.register(ours, selectors.EVENT_READ, slot)
        log.info("process_started", slot=slot, pid=pid)

    def _become(self, run_process: RunProcess, link: socket.socket) -> NoReturn:
        """Go on as the new process."""
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


def _say(process: _Process, word: bytes) -> None:
    try:
        process.link.send(word)
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
