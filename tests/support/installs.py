"""What tests install once, into the user's cache folder: never into the repository.

Its tests then neither write there nor see each other's half-done work. What cannot be installed
is a reason to skip, and in CI to fail.
"""

import fcntl
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.requirements import missing

INSTALL_LIMIT_S = 600
HEAVY = "heavy"
"""What takes all of a small machine: starting a cluster, or what would suffer if one started."""
_WORDS_SHOWN = 2000

_failures: dict[Path, str] = {}
"""What went wrong in this process already; it is not tried for each test."""


def installed(name: str, source: bytes, install: Callable[[Path], None]) -> Path:
    """The folder that `install` filled, once for this source; two test runs are one install."""
    folder = _base() / f"{name}-{hashlib.sha256(source).hexdigest()[:12]}"
    with one_at_a_time(folder.name):
        if not folder.exists() and folder not in _failures:
            _failures[folder] = _install(folder, install)
    if _failures.get(folder):
        missing(f"{name}: {_failures[folder]}")
    return folder


@contextmanager
def one_at_a_time(what: str) -> Iterator[None]:
    """Wait until no other process on this machine does it, and keep others from it meanwhile."""
    with (_base() / f"{what}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _base() -> Path:
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    base = caches / "groupferry-tests"
    base.mkdir(parents=True, exist_ok=True)
    return base


def _install(folder: Path, install: Callable[[Path], None]) -> str:
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="installing-") as unfinished:
        made = Path(unfinished) / "made"
        made.mkdir()
        try:
            install(made)
        except (OSError, subprocess.SubprocessError) as failure:
            return _words_of(failure)
        made.rename(folder)
        return ""


def run(
    command: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> str:
    """Run one step of an install and return its output; CalledProcessError if it failed."""
    return subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=INSTALL_LIMIT_S,
        check=True,
    ).stdout


def _words_of(failure: Exception) -> str:
    if isinstance(failure, subprocess.CalledProcessError):
        words = f"{failure.stdout}{failure.stderr}".strip()[-_WORDS_SHOWN:]
        return f"{failure.cmd[0]} ended with status {failure.returncode}: {words}"
    return str(failure)
