"""A host name that a test points somewhere else while clients run.

The clients get a hosts file of their own, in a mount namespace of their own.
"""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.support.requirements import missing

NAME = "kafka.test"
# Java remembers an address for 30 s by default.
_JAVA = "JDK_JAVA_OPTIONS=-Dsun.net.inetaddr.ttl=0"


class MovedName:
    """The name, and the command within which a client sees where it points."""

    def __init__(self, folder: Path, address: str) -> None:
        """Skips the test if this user may not make mount namespaces."""
        self._hosts = folder / "hosts"
        self.point(address)
        mount = 'mount --bind "$0" /etc/hosts && exec "$@"'
        self.within: Sequence[str] = (
            *("env", _JAVA),
            *("unshare", "--mount", "sh", "-c", mount, f"{self._hosts}"),
        )
        if subprocess.run([*self.within, "true"], capture_output=True, check=False).returncode:
            missing("a hosts file of the test's own needs unshare and its permission")

    def point(self, address: str) -> None:
        """From now on the name leads to this address."""
        self._hosts.write_text(f"127.0.0.1 localhost\n{address} {NAME}\n")
