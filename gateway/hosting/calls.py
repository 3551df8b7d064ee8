"""The calls of clients to one group: what each wants, what it waits for, and its answer.

An action of a call is an effect of the group that is carried out on the connection of the call's
client.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from coordinator.interface.events import Request
from coordinator.interface.replies import (
    ConsumerHeartbeatReply,
    JoinGroupReply,
    Reply,
    SyncGroupReply,
)
from coordinator.interface.topics import Topics
from coordinator.interface.value import value
from coordinator.interface.volatile_records import Token
from gateway.hosting.answers import GroupApi, RefusalReason
from gateway.hosting.identity import AnchorIds
from gateway.hosting.move_requests import AdoptRequest
from gateway.hosting.states import COMMIT, STAGES, CommitPhase, Stage
from gateway.moves import check_move
from gateway.quotas.quota_key import QuotaKey
from kafka_codecs.error_codes import ErrorCode

MakeRequest = Callable[[Token, Topics], Request]
"""Makes the engine's event from a token and the image of the topics."""

_GOES_ON = (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED)
"""The codes after which a joining client continues."""

next_token: Callable[[], Token] = itertools.count(1).__next__
"""A token for a request. The engine tells its requests apart by them."""


# Every request asks for these, and Python 3.11 takes long to find an Enum's member.
_ENDED, _STRAY, _ANSWERED = CommitPhase.ENDED, CommitPhase.STRAY, Stage.ANSWERED


@value(kw_only=False)
class Refused:
    """The gateway refuses the call; `gateway.hosting.answers` has the code."""

    cause: RefusalReason
    reason: str


def refuse(cause: RefusalReason, reason: str = "") -> Refused:
    """The refusal in a situation, with a reason of its own or that of the situation."""
    return Refused(cause, reason or cause.value)


@value(kw_only=False)
class Forwarded:
    """The cluster answers the call."""

    reason: str = ""


@value(kw_only=False)
class Unanswerable:
    """A bug: the call could not even be refused."""


@value(kw_only=False)
class Abandoned:
    """The answer is no longer waited for: the client has moved on to another connection, or, of a
    commit, its group to another process. The connection is closed."""


@value(kw_only=False)
class Released:
    """The anchor is not in the group: the cluster may change it."""


@value(kw_only=False)
class Outcome:
    """What became of one commit: the engine's refusal, the gateway's, or the cluster's answer."""

    decision: Reply | None = None
    refused: Refused | None = None
    is_away: bool = False
    """Whether the cluster may never have seen the commit."""


UNDECIDED = Outcome()
"""A bug: the commit could not be checked."""

Answer = Reply | Refused | Forwarded | Unanswerable | Abandoned | Released | Mapping[Token, Outcome]


@value(kw_only=False)
class UnconfirmedReply:
    """A reply that grants partitions, which waits until the cluster has confirmed the anchor."""

    reply: Reply
    confirms_since: int
    """The number of the anchor's latest request that does not confirm it."""


@dataclass(eq=False, kw_only=True)
class Call:
    """One request of a client. The group moves it from stage to stage.

    It has no slots: most calls end in the state that the class has, and cost nothing for it.
    """

    api: GroupApi
    make: MakeRequest | None = None
    """Makes the engine's event where that depends on the topics."""
    token: Token = field(default_factory=next_token)
    owner: QuotaKey | None = None
    """Who a new group counts towards; None for the gateway's own requests."""
    is_foreign: bool = False
    """Whether it joins with another embedded protocol, so that only the cluster can admit it."""
    is_placed: bool = False
    """Whether the caller knows already that the group is hosted here."""
    connection: int | None = None
    """The number of the client's connection, if the same client is to be recognised. Later
    connections have higher ones."""
    newest_connection: int = 0
    """The newest connection of all clients when the request arrived, if `connection` is known."""
    node_id: int | None = None
    """The broker that the client's listener stands for."""
    is_at_coordinator: bool | None = None
    topic_names: frozenset[str] = frozenset()
    """The topics that the request names."""
    knows_topics: bool = False
    overrides: Mapping[str, int] | None = field(default_factory=dict)
    """The group's own configs, as far as the cluster may have to answer a native join; None if the
    state log does not tell."""
    event: Request | None = None
    """The engine's event. A call without any only releases the group."""

    stage: Stage = field(default=Stage.PLACING, init=False)
    client: Any = field(default=None, init=False)
    """What the carrier of effects knows of the client; the group never looks at it."""
    pending_action: "PendingAction | None" = field(default=None, init=False)
    """The pending action that is under way."""
    has_place: bool = field(default=False, init=False)
    """Whether the group counts towards the limit on groups because of the call."""
    has_anchor_place: bool = field(default=False, init=False)
    """Whether it counts towards the limit on anchors because of the call."""
    answer: Answer | None = field(default=None, init=False)
    unconfirmed: UnconfirmedReply | None = field(default=None, init=False)
    """The engine's reply, while the anchor is being confirmed."""
    asked_ms: int = field(default=0, init=False)
    """When the call arrived."""
    give_up_ms: int | None = field(default=None, init=False)
    """The end of the client's patience with the anchor."""
    has_look: bool = field(default=False, init=False)
    """Whether a lookup in the cluster has ended since the call arrived."""
    has_dropped: bool = field(default=False, init=False)
    """Whether the anchor leaves because of the call."""
    was_held: bool = field(default=False, init=False)
    """Whether the group's anchor was here before the call."""
    is_overtaken: bool = field(default=False, init=False)
    """Whether it joins or leaves on an older connection than its member has joined on since."""
    is_superseded: bool = field(default=False, init=False)
    """Whether another member has had the group in the cluster since: a commit may be older than its
    offsets, and a grant may be of partitions that the group has lost."""

    @property
    def items(self) -> "Sequence[Call | Commit]":
        """What the engine has to decide for the call."""
        return () if self.make is None and self.event is None else (self,)

    def move(self, stage: Stage) -> None:
        """Enter another stage."""
        self.stage = check_move(STAGES, self.stage, stage)

    def end(self, answer: Answer) -> None:
        """The call has its answer."""
        self.move(_ANSWERED)
        self.pending_action, self.answer = None, answer


@dataclass(eq=False, kw_only=True)
class Commit:
    """One commit: its event for the engine, and how far it has got."""

    make: MakeRequest
    topic_names: frozenset[str]
    has_member: bool
    order_keys: frozenset[object]
    """Commits with a key in common are stored in the order of their arrival: those of one member,
    or, without a member, of one partition."""
    token: Token = field(default_factory=next_token)
    event: Request | None = None
    phase: CommitPhase = field(default=CommitPhase.RECEIVED, init=False)
    ids: AnchorIds | None = field(default=None, init=False)
    """The anchor's ids under which it was sent."""
    sent_ms: int = field(default=0, init=False)
    outcome: Outcome = field(default=UNDECIDED, init=False)
    call: "Commits | None" = field(default=None, init=False, repr=False)
    """While it is in flight: each keeps the other in memory."""

    def move(self, phase: CommitPhase) -> None:
        """Enter another phase."""
        self.phase = check_move(COMMIT, self.phase, phase)
        if phase is _ENDED or phase is _STRAY:
            self.call = None


@dataclass(slots=True, eq=False)
class GuardedCommits:
    """What has become of the commits of recalled members, which travel under the ids of a guard."""

    in_flight: int = 0
    is_barred: bool = False
    """Whether no further one is sent: the cluster may still store one whose answer was lost, or has
    stored those of another member that had the group."""


@dataclass(eq=False, kw_only=True)
class Commits(Call):
    """Commits of one client that arrived together."""

    commits: dict[Token, Commit] = field(default_factory=dict)
    order_keys: frozenset[object] = field(default=frozenset(), init=False)
    only: Commit | None = field(default=None, init=False)
    """The commit, None if there are several."""
    stage: Stage = field(default=Stage.QUEUED, init=False)
    is_probed: bool = field(default=False, init=False)
    """Whether the client's broker is known to be reachable."""
    guarded: GuardedCommits | None = field(default=None, init=False)
    """Where a move that has checked them counts them; None if the engine checks them."""

    def __post_init__(self) -> None:
        commits = self.items
        for commit in commits:
            self.topic_names |= commit.topic_names
            self.order_keys |= commit.order_keys
        self.only = commits[0] if len(commits) == 1 else None

    @property
    def items(self) -> Sequence[Commit]:
        """What the engine has to decide for the call."""
        return tuple(self.commits.values())

    @property
    def outcomes(self) -> Mapping[Token, Outcome]:
        """What became of each commit."""
        return {token: commit.outcome for token, commit in self.commits.items()}

    def in_phase(self, phase: CommitPhase) -> list[Commit]:
        """The commits in this phase, in the client's order."""
        return [commit for commit in self.commits.values() if commit.phase is phase]


@dataclass(frozen=True, slots=True, eq=False)
class Reserve:
    """Count the group towards limits, for a client or for none. Done immediately. If there is no
    room, it fails with the refusal."""

    claim: Call | AdoptRequest
    is_anchored: bool
    """Whether it is about to have an anchor."""
    is_hosted: bool = True
    """Whether it is about to be in memory."""


@dataclass(frozen=True, slots=True, eq=False)
class LocateCoordinator:
    """Find out whether the client's listener stands for the group's coordinator. The result says
    so."""

    call: Call


@dataclass(frozen=True, slots=True, eq=False)
class LearnTopics:
    """Make the topics of the request known. The result is the image of the group's topics."""

    call: Call


@dataclass(frozen=True, slots=True, eq=False)
class ProbeBroker:
    """Find out whether the client's broker can be reached, before a commit waits for the anchor.
    The result says so."""

    call: Commits


@dataclass(slots=True, eq=False)  # frozen, it would take three times as long to make
class StoreCommits:
    """Send these commits to the cluster, under the anchor's ids if there are any. The result has
    the cluster's codes for each commit; LOST without an answer, AWAY if it was not sent."""

    call: Commits
    commits: tuple[Token, ...]
    ids: AnchorIds | None


AWAY = "away"
LOST = "lost"
CommitCodes = Mapping[Token, frozenset[int] | str]
"""The cluster's codes for each commit, or AWAY or LOST."""

PendingAction = LocateCoordinator | LearnTopics | ProbeBroker | StoreCommits


def grants_partitions(reply: Reply) -> bool:
    """Whether the client may start to consume partitions, or assign them, because of this reply."""
    match reply:
        case JoinGroupReply() | SyncGroupReply():
            return not reply.error
        case ConsumerHeartbeatReply():
            return not reply.error and reply.assignment is not None
        case _:
            return False


def is_for_good(reply: Reply) -> bool:
    """Whether a join failed permanently. A client that must come back with a member id does so."""
    joins = isinstance(reply, JoinGroupReply | ConsumerHeartbeatReply)
    return joins and reply.error not in _GOES_ON
