"""What happens to a hosted group. Each input but the first few answers an effect or an errand."""

from collections.abc import Mapping
from enum import Enum, auto

from coordinator.engine import GroupEngine
from coordinator.interface.events import Happening
from coordinator.interface.topics import Topics
from coordinator.interface.value import value
from coordinator.interface.volatile_records import Token
from gateway.hosting import adoption_steps
from gateway.hosting.adoption_steps import Wish
from gateway.hosting.calls import Call, Commits
from gateway.hosting.forwarded import Client
from gateway.hosting.release_steps import ReleaseWish
from gateway.hosting.standing import Found
from kafka_codecs.declaration import Struct


@value(kw_only=False)
class Asked:
    """A client's request has arrived."""

    call: Call


@value(kw_only=False)
class Gone:
    """The client has gone and will not see the answer."""

    call: Call


@value(kw_only=False)
class TimePassed:
    """`next_ms` is over."""


@value(kw_only=False)
class TopicsMoved:
    """The cluster's topics have changed, or more of them are known."""

    topics: Topics


@value(kw_only=False)
class Happened:
    """An event of the engine that is not a request."""

    event: Happening


@value(kw_only=False)
class SeenForeign:
    """The cluster has admitted a member with another embedded protocol."""

    why: str


@value(kw_only=False)
class Relayed:
    """The cluster has answered a client's request of a forwarded group."""

    client: Client
    request: Struct
    answer: Struct


@value(kw_only=False)
class Resumed:
    """The gateway has started, and the group has members in the log, or is being adopted."""

    is_adopting: bool = False


@value(kw_only=False)
class Adopt:
    """Somebody wants the group to be adopted."""

    wish: Wish


@value(kw_only=False)
class Release:
    """Somebody wants the group to be released."""

    wish: ReleaseWish


@value(kw_only=False)
class Leave:
    """The anchor leaves even if the group has members: their state ends with the process."""


@value(kw_only=False)
class Ending:
    """The gateway is shutting down: no call waits from now on."""


# -- answers to effects ----------------------------------------------------------------------------


@value(kw_only=False)
class Looked:
    """The cluster was asked who is in the group."""

    found: Found


@value(kw_only=False)
class Loaded:
    """The log was read, and all topics of the group are known."""

    engine: GroupEngine
    topics: Topics


@value(kw_only=False)
class LoadFailed:
    """The log could not be read, or the topics of the group are unknown."""

    why: str


@value(kw_only=False)
class Written:
    """The log has the batch."""


@value(kw_only=False)
class Forgotten:
    """The events of the deleted group are forgotten, as far as the log allows it now."""


class Damage(Enum):
    """What a failed write leaves behind."""

    NONE = auto()
    """The log does not have the batch; the next one may succeed."""
    REFUSED = auto()
    """The log does not have the batch, and never will: a record is too large."""
    UNSURE = auto()
    """It is unknown whether the log has the batch."""


@value(kw_only=False)
class WriteFailed:
    """The log did not confirm the batch."""

    damage: Damage


@value(kw_only=False)
class Computed:
    """The long computation has ended."""

    error: Exception | None = None


@value(kw_only=False)
class CoordinatorAnswered:
    """The coordinator answered the anchor."""

    answer: Struct


@value(kw_only=False)
class CoordinatorFailed:
    """The coordinator did not answer the anchor, or is unknown."""

    why: str


@value(kw_only=False)
class StepTaken:
    """A step of the adoption was carried out, or failed."""

    step: adoption_steps.Input


# -- answers to errands of calls -------------------------------------------------------------------


@value(kw_only=False)
class Located:
    """Whether the client's listener stands for the group's coordinator; None if that is unknown."""

    call: Call
    is_here: bool | None


@value(kw_only=False)
class Learned:
    """The topics that a request names are known, or why they are not."""

    call: Call
    topics: Topics
    failure: str = ""


@value(kw_only=False)
class Probed:
    """Whether the client's broker can be reached."""

    call: Commits
    is_there: bool


AWAY = "away"
LOST = "lost"


@value(kw_only=False)
class Stored:
    """The cluster's codes for each commit of the errand; LOST without an answer, AWAY if it was not
    sent."""

    call: Commits
    codes: Mapping[Token, frozenset[int] | str]


Input = (
    Asked
    | Gone
    | TimePassed
    | TopicsMoved
    | Happened
    | SeenForeign
    | Relayed
    | Resumed
    | Adopt
    | Release
    | Leave
    | Ending
    | Looked
    | Loaded
    | LoadFailed
    | Written
    | Forgotten
    | WriteFailed
    | Computed
    | CoordinatorAnswered
    | CoordinatorFailed
    | StepTaken
    | Located
    | Learned
    | Probed
    | Stored
)
