"""The client matrix: the clients that `tests/matrix/` rolls.

Each client follows its users' path: it starts as classic, restarts as the native client of its
library (or of librdkafka if the library has none), and returns.
"""

from dataclasses import dataclass
from typing import Any

from tests.support.client_programs import Library
from tests.support.clients import Client

NATIVE = Client(library="librdkafka", protocol="consumer")
HAVE_NEW_PROTOCOL = frozenset({"librdkafka", "java", "platformatic", "franz-go"})

# kafkajs and @platformatic/kafka have no callback that a group waits for. They continue with
# fetched records while they rejoin. Half a second's records may be delivered twice at each of the
# six restarts of a roll; without resumed offsets all of them would.
AGAIN_MAX = 600
EARLY_ACCESS = (
    "the new protocol is early access there: partitions go without a revoke callback, "
    "and have two owners (seen on Kafka 4.3 without the gateway as well)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Roll:
    """Two members of one client restart as native members and return, together with a member of
    another client."""

    classic: Client
    native: Client
    partner: Client
    """The third member, a classic one. It is rolled to `NATIVE` and back like the others."""
    again_max: int = 0
    """The most records that may be delivered twice; 0 if the client commits before it revokes."""
    fails: str = ""
    """The reason why the roll cannot succeed."""
    is_in_ci: bool = False

    def __str__(self) -> str:
        return f"{self.classic} to {self.native}".replace(" ", "-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of a roll."""

    classic: str
    native: str
    partner: str
    produced: int
    delivered_twice: int
    fails: str


def result_of(roll: Roll, produced: int = 0, delivered_twice: int = 0) -> Result:
    """The result of a successful roll, with the client versions."""
    return Result(
        classic=_name_of(roll.classic),
        native=_name_of(roll.native),
        partner=_name_of(roll.partner),
        produced=produced,
        delivered_twice=delivered_twice,
        fails=roll.fails,
    )


def _name_of(client: Client) -> str:
    program = client.program()
    kind = f", {client.assignor}" if client.protocol == "classic" else ""
    return f"{program.package} {program.version}{kind}"


def _roll(
    library: Library,
    version: str,
    assignor: str,
    *,
    native: str = "",
    partner: Library = "librdkafka",
    **more: Any,
) -> Roll:
    """Roll a version of a client ("" for the pinned one). `native` is the version of the native
    client."""
    own = Client(library=library, version=native, protocol="consumer")
    return Roll(
        classic=Client(library=library, version=version, assignor=assignor),
        native=own if library in HAVE_NEW_PROTOCOL else NATIVE,
        partner=Client(library=partner, assignor=assignor.partition(",")[0]),
        **more,
    )


ROLLS = (
    _roll("librdkafka", "", "range", partner="kafka-python", is_in_ci=True),
    _roll("librdkafka", "", "cooperative-sticky", partner="java"),
    _roll("librdkafka", "2.12.2", "range", native="2.12.2", partner="java"),
    _roll("librdkafka", "2.8.0", "cooperative-sticky", partner="kafka-python"),
    _roll(
        "librdkafka", "2.8.0", "range", native="2.8.0", partner="kafka-python", fails=EARLY_ACCESS
    ),
    _roll("librdkafka", "2.0.2", "range", partner="java"),
    _roll("librdkafka", "2.0.2", "cooperative-sticky", partner="franz-go"),
    _roll("java", "", "range"),
    _roll("java", "", "cooperative-sticky", is_in_ci=True),
    _roll("java", "4.3.1", "range", native="4.3.1"),
    _roll("java", "4.0.1", "range", native="4.0.1"),
    _roll("java", "3.9.2", "range,cooperative-sticky", native="3.9.2"),
    _roll("java", "3.9.2", "cooperative-sticky"),
    _roll("java", "3.4.1", "range"),
    _roll("java", "3.4.1", "cooperative-sticky"),
    _roll("java", "2.4.1", "range"),
    _roll("java", "2.4.1", "cooperative-sticky"),
    _roll("java", "2.1.1", "range"),
    _roll("java", "2.0.1", "range"),
    _roll("kafka-python", "", "range"),
    _roll("kafka-python", "", "cooperative-sticky", is_in_ci=True),
    _roll("kafka-python", "2.0.2", "range"),
    _roll("aiokafka", "", "roundrobin", is_in_ci=True),
    _roll("aiokafka", "0.10.0", "range"),
    _roll("kafkajs", "", "roundrobin", again_max=AGAIN_MAX, is_in_ci=True),
    _roll("kafkajs", "1.16.0", "roundrobin", again_max=AGAIN_MAX),
    _roll("platformatic", "", "roundrobin", again_max=AGAIN_MAX, is_in_ci=True),
    _roll("platformatic", "", "cooperative-sticky", again_max=AGAIN_MAX),
    _roll("platformatic", "1.35.0", "roundrobin", native="1.35.0", again_max=AGAIN_MAX),
    _roll("franz-go", "", "cooperative-sticky", is_in_ci=True),
    _roll("franz-go", "", "range"),
    _roll("franz-go", "1.15.3", "cooperative-sticky"),
    _roll("franz-go", "1.15.3", "range"),
    _roll("sarama", "", "range", is_in_ci=True),
    _roll("sarama", "", "roundrobin", partner="java"),
    _roll("sarama", "", "sticky", partner="franz-go"),
    # This client rolls together with its own kind, because as a leader it does not understand
    # others.
    _roll("kafka-go", "", "range", partner="kafka-go", is_in_ci=True),
    _roll("kafka-go", "", "roundrobin", partner="kafka-go"),
    # This client speaks only the new protocol.
    Roll(
        classic=Client(library="librdkafka"),
        native=Client(library="confluent-rust", protocol="consumer"),
        partner=Client(library="java"),
    ),
)
