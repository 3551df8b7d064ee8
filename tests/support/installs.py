"""Installs that tests make once, in the user's cache folder and not in the repository.

Repository tests therefore see no half-finished files. If an install is impossible, its tests are
skipped; in CI they fail.
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
"""The lock for work that occupies a small machine, such as starting a cluster."""
_WORDS_SHOWN = 2000

_failures: dict[Path, str] = {}
"""The failures of this process, so that not every test retries them."""


def install_once(name: str, source: bytes, install: Callable[[Path], None]) -> Path:
    """The folder that `install` filled, once per source. Two test runs share one install."""
    folder = _base() / f"{name}-{hashlib.sha256(source).hexdigest()[:12]}"
    with one_at_a_time(folder.name):
        if not folder.exists() and folder not in _failures:
            _failures[folder] = _install(folder, install)
    if _failures.get(folder):
        missing(f"{name}: {_failures[folder]}")
    return folder


@contextmanager
def one_at_a_time(what: str) -> Iterator[None]:
    """Hold a machine-wide lock."""
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
