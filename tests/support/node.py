"""Node and its Kafka clients, installed once into the user's cache from the committed package.json.

Not into the repository: its tests then neither write there nor see each other's half-done work.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.support.requirements import missing

PACKAGE = Path(__file__).parent.parent / "clients" / "node" / "package.json"
INSTALL_LIMIT_S = 150
# Without scripts: the packages need none, and a machine may forbid them.
INSTALL = ("install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock")


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A Node binary and the folder with the packages."""

    binary: Path
    modules: Path

    def environment(self) -> dict[str, str]:
        """The variables with which a script anywhere finds the packages."""
        return {**os.environ, "NODE_PATH": str(self.modules)}


def node() -> Node:
    """Return it, installed at the first call; without npm the test is skipped, or fails in CI."""
    found = _installed()
    if isinstance(found, str):
        missing(found)
    return found


@cache
def _installed() -> Node | str:
    """Install unless that is done; in words what went wrong."""
    npm = shutil.which("npm")
    if npm is None:
        return "the Node clients need npm"
    digest = hashlib.sha256(PACKAGE.read_bytes()).hexdigest()[:12]
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    folder = base / "groupferry-tests" / f"node-{digest}"
    folder.mkdir(parents=True, exist_ok=True)
    done = folder / "installed"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test runs at a time are one install
        if not done.exists():
            shutil.copy(PACKAGE, folder)
            if reason := _install(npm, folder):
                return reason
            done.touch()
    modules = folder / "node_modules"
    for binary in sorted(modules.glob("node-*/bin/node")):
        return Node(binary=binary, modules=modules)
    return "npm has no Node binary for this machine"


def _install(npm: str, folder: Path) -> str | None:
    try:
        install = subprocess.run(
            [npm, *INSTALL, "--loglevel=error"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=INSTALL_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"npm install of the Node clients: {error}"
    if install.returncode:
        return f"npm install of the Node clients failed: {install.stderr.strip()[-500:]}"
    return None
