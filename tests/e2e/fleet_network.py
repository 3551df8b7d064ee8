"""A network of its own for a fleet, in which machines can be cut off.

Each machine has a network namespace, joined to that of this process, where cluster and clients
are, by a pair of virtual interfaces. To cut a path, both ends send to a hardware address that
nobody has: packets are lost without a word, as behind a broken switch. Connections stay open.
"""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

CLUSTER = "10.9.0.1"
"""The address of the brokers for gateways."""
_NOBODY = "02:00:00:00:00:99"


class Machine:
    """A host of the network."""

    def __init__(self, number: int, holder: subprocess.Popen[bytes]) -> None:
        """`holder` is a process in its namespace, which lasts as long."""
        self.host = f"10.9.{number}.2"
        self.within = ("nsenter", f"--net=/proc/{holder.pid}/ns/net")
        """Runs a command on this host."""
        self._router, self._hole = f"10.9.{number}.1", f"10.9.{number}.9"
        self._table = 100 + number
        self._device = f"machine{number}"
        _ip(f"link add {self._device} type veth peer name uplink netns {holder.pid}")
        _ip(f"addr add {self._router}/24 dev {self._device}")
        _ip(f"link set {self._device} up")
        self._ip("link set lo up")
        self._ip(f"addr add {self.host}/24 dev uplink")
        self._ip("link set uplink up")
        self._ip(f"route add default via {self._router}")
        self._ip(f"neigh add {self._hole} lladdr {_NOBODY} nud permanent dev uplink")
        _ip(f"neigh add {self._hole} lladdr {_NOBODY} nud permanent dev {self._device}")
        _ip(f"route add {self.host} via {self._hole} table {self._table}")

    def cut_from_cluster(self) -> None:
        """Lose all packets between this machine and the cluster."""
        self._ip(f"route add {CLUSTER} via {self._hole}")
        _ip(f"rule add from {CLUSTER} to {self.host} lookup {self._table}")

    def join_cluster(self) -> None:
        """End `cut_from_cluster`."""
        self._ip(f"route del {CLUSTER}")
        _ip(f"rule del from {CLUSTER} to {self.host} lookup {self._table}")

    def cut_off(self) -> None:
        """Lose all packets of this machine."""
        self._ip(f"neigh replace {self._router} lladdr {_NOBODY} nud permanent dev uplink")
        _ip(f"neigh replace {self.host} lladdr {_NOBODY} nud permanent dev {self._device}")

    def come_back(self) -> None:
        """End `cut_off`."""
        self._ip(f"neigh del {self._router} dev uplink")
        _ip(f"neigh del {self.host} dev {self._device}")

    def _ip(self, words: str) -> None:
        _ip(words, self.within)


@contextmanager
def open_network(machines: int) -> Iterator[Sequence[Machine]]:
    """This many machines, for the length of the block. The process has to be in a network namespace
    of its own, whose loopback is up."""
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    _ip(f"addr add {CLUSTER}/32 dev lo")
    with ExitStack() as stack:
        yield [
            Machine(number, stack.enter_context(_namespace())) for number in range(1, machines + 1)
        ]


@contextmanager
def _namespace() -> Iterator[subprocess.Popen[bytes]]:
    """A process in a new network namespace. It ends with its stdin, so also with this process."""
    command = ("unshare", "--net", "sh", "-c", "echo; cat")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        yield holder


def _ip(words: str, within: Sequence[str] = ()) -> None:
    subprocess.run([*within, "ip", *words.split()], check=True)
