"""The states of a group behind the gateway, and their legal moves.

Six machines describe a group: who answers for it (mode), the anchor that holds it in the cluster,
its engine and log, each commit in flight, each call of a client, and its adoption from the cluster.
"""

from enum import StrEnum
from types import MappingProxyType
from typing import Literal, TypeAlias

from gateway.moves import Moves


class Mode(StrEnum):
    """Who answers for a group."""

    HOSTED = "Hosted"
    """The gateway's engine."""
    FORWARDED = "Forwarded"
    """The cluster's coordinator: the group has members there or is of another kind, or the operator
    leaves it to the cluster."""
    ELSEWHERE = "Elsewhere"
    """Another gateway, whose anchor holds the group."""
    UNKNOWN = "Unknown"
    """No answer for now: the cluster does not say who is in the group."""


Adoption: TypeAlias = Literal["auto", "manual", "never"]
"""What becomes of groups that are not hosted: live ones are to be adopted by themselves, or on
command only, or every group stays with the cluster, empty ones too."""


class AnchorPhase(StrEnum):
    """The phase of an anchor. Only a Stable anchor holds its group."""

    ABSENT = "Absent"
    """Not in the group: it is not needed, or another member holds the group."""
    JOINING = "Joining"
    """Sending its JoinGroup, or the second one that follows a take-over."""
    SYNCING = "Syncing"
    """Sending its SyncGroup, upon which the coordinator persists the generation."""
    STABLE = "Stable"
    """Holds the group. Commits carry its ids."""
    RENEWING = "Renewing"
    """Sending a JoinGroup under its member id, to begin a generation with another assignment."""
    LOST = "Lost"
    """Needed, but not certainly in the group: it rejoins."""
    LEAVING = "Leaving"
    """Sending its LeaveGroup."""


class LogPhase(StrEnum):
    """Where a group's engine stands with its log."""

    UNLOADED = "Unloaded"
    """No engine in memory."""
    LOADING = "Loading"
    """The log is being read; calls wait."""
    UNREADABLE = "Unreadable"
    """The last read failed; calls are refused until the next attempt."""
    READY = "Ready"
    """The next event can be decided immediately."""
    COMPUTING = "Computing"
    """A long decision runs in a thread."""
    WRITING = "Writing"
    """A batch of decisions is on its way to the log."""


class CommitPhase(StrEnum):
    """The phase of an OffsetCommit that the engine has to check and the cluster has to store."""

    RECEIVED = "Received"
    """Not checked yet."""
    ACCEPTED = "Accepted"
    """The committer holds its partitions until the commit has ended (DEV D34)."""
    SENT = "Sent"
    """On its way to the cluster, under the anchor's ids."""
    STRAY = "Stray"
    """The commit's answer was lost, so the cluster may store it until the anchor has a new member
    id."""
    ENDED = "Ended"
    """Refused, stored, or certainly never stored."""


class Stage(StrEnum):
    """What a call of a client waits for."""

    QUEUED = "Queued"
    """Commits only: earlier ones of the same member, which the cluster has to store first."""
    PLACING = "Placing"
    """Who answers for the group, and at which listener."""
    CHECKING = "Checking"
    """The engine's refusal, before anything is taken for the call."""
    LOOKING = "Looking"
    """A look at the cluster of its own, which only a join is worth that the engine would accept."""
    ADMITTING = "Admitting"
    """The anchor, without which no member may join."""
    DECIDING = "Deciding"
    """The engine's reply, which may take a whole rebalance."""
    STORING = "Storing"
    """The cluster, which stores the commit."""
    CONFIRMING = "Confirming"
    """The anchor's next heartbeat, before an answer gives partitions away."""
    RELEASING = "Releasing"
    """The anchor's leave, before the cluster may change the empty group."""
    ANSWERED = "Answered"
    """Nothing: the client has its answer."""


class AdoptionStage(StrEnum):
    """How far the adoption of a live group has come."""

    PROPOSED = "Proposed"
    """The cluster describes the group for the first time."""
    CONFIRMING = "Confirming"
    """The cluster describes it again. Nothing may have changed."""
    ANNOUNCING = "Announcing"
    """The log stores what is about to be adopted."""
    IMPERSONATING = "Impersonating"
    """Calls are held. Once those under way are answered, the gateway sends a heartbeat of each
    member."""
    REJOINING = "Rejoining"
    """The leader's member rejoins with the private protocol first. The others are still there."""
    RELEASING = "Releasing"
    """The other members leave the cluster's group."""
    LOCKING = "Locking"
    """The leader's member rejoins with the private protocol only: the cluster refuses all others
    from then on. The log stores it."""
    ANCHORING = "Anchoring"
    """The anchor joins in addition to the leader's member."""
    HANDING_OVER = "HandingOver"
    """The leader's member leaves, the anchor holds the group, and the engine takes over. There is
    no way back."""
    ADOPTED = "Adopted"
    """The engine has the group."""
    RESUMING = "Resuming"
    """The gateway was killed during an adoption, and asks the cluster how far it came."""
    GIVING_BACK = "GivingBack"
    """The members are told to rejoin. The leader's member keeps the group until all of them have
    given up what they held."""
    FORGETTING = "Forgetting"
    """The adoption is undone; the log forgets it."""
    UNDONE = "Undone"
    """The cluster serves the group as before."""


class ReleaseStage(StrEnum):
    """How far the release of a hosted group has come, after the log has stored its members. There
    is only a way forward."""

    RECALLING = "Recalling"
    """The members are told to rejoin. The anchor keeps the group until all of them have given up
    what they held, and every commit has ended."""
    ANNOUNCING = "Announcing"
    """The log stores that no member holds anything."""
    OPENING = "Opening"
    """The anchor rejoins with the protocols of the members as well."""
    GATHERING = "Gathering"
    """Requests are relayed. The members' joins wait in the cluster until the anchor leaves."""
    LEAVING = "Leaving"
    """The anchor leaves, and the cluster's rebalance continues without it."""
    AWAITING_ROUND = "AwaitingRound"
    """The anchor has left. Native members wait for the first round, if a classic one still owns
    partitions."""
    AWAITING_NATIVE = "AwaitingNative"
    """Classic members wait until the cluster has a native one, if one comes back."""
    CONCLUDING = "Concluding"
    """The log stores that the group is the cluster's."""
    RELEASED = "Released"
    """The cluster serves the group."""


ANCHOR: Moves[AnchorPhase] = MappingProxyType(
    {
        # Straight to Stable: an adoption has joined it.
        AnchorPhase.ABSENT: frozenset({AnchorPhase.JOINING, AnchorPhase.STABLE}),
        AnchorPhase.JOINING: frozenset({AnchorPhase.SYNCING, AnchorPhase.LOST}),
        AnchorPhase.SYNCING: frozenset({AnchorPhase.STABLE, AnchorPhase.LOST}),
        # Straight to Absent: a release continues in its place.
        AnchorPhase.STABLE: frozenset(
            {AnchorPhase.RENEWING, AnchorPhase.LOST, AnchorPhase.LEAVING, AnchorPhase.ABSENT}
        ),
        # Back to Stable: the generation has not begun, as far as known.
        AnchorPhase.RENEWING: frozenset(
            {AnchorPhase.SYNCING, AnchorPhase.STABLE, AnchorPhase.LOST}
        ),
        AnchorPhase.LOST: frozenset({AnchorPhase.JOINING, AnchorPhase.ABSENT}),
        AnchorPhase.LEAVING: frozenset({AnchorPhase.ABSENT, AnchorPhase.LOST}),
    }
)

LOG: Moves[LogPhase] = MappingProxyType(
    {
        LogPhase.UNLOADED: frozenset({LogPhase.LOADING}),
        LogPhase.LOADING: frozenset({LogPhase.READY, LogPhase.UNREADABLE}),
        LogPhase.UNREADABLE: frozenset({LogPhase.LOADING}),
        LogPhase.READY: frozenset(
            {LogPhase.COMPUTING, LogPhase.WRITING, LogPhase.LOADING, LogPhase.UNLOADED}
        ),
        LogPhase.COMPUTING: frozenset({LogPhase.READY}),
        LogPhase.WRITING: frozenset({LogPhase.READY}),
    }
)

COMMIT: Moves[CommitPhase] = MappingProxyType(
    {
        CommitPhase.RECEIVED: frozenset({CommitPhase.ACCEPTED, CommitPhase.ENDED}),
        CommitPhase.ACCEPTED: frozenset({CommitPhase.SENT, CommitPhase.ENDED}),
        # Back to Accepted: the cluster refused the anchor, and the commit is sent again.
        CommitPhase.SENT: frozenset({CommitPhase.ACCEPTED, CommitPhase.STRAY, CommitPhase.ENDED}),
        CommitPhase.STRAY: frozenset({CommitPhase.ENDED}),
        CommitPhase.ENDED: frozenset(),
    }
)

STAGES: Moves[Stage] = MappingProxyType(
    {
        # Straight to Storing: the group is at rest.
        Stage.QUEUED: frozenset({Stage.PLACING, Stage.STORING, Stage.ANSWERED}),
        # Straight to Storing: a move has decided on commits of recalled members.
        Stage.PLACING: frozenset(
            {
                Stage.CHECKING,
                Stage.ADMITTING,
                Stage.DECIDING,
                Stage.STORING,
                Stage.RELEASING,
                Stage.ANSWERED,
            }
        ),
        Stage.CHECKING: frozenset({Stage.LOOKING, Stage.ADMITTING, Stage.ANSWERED}),
        # Straight to Deciding: the group has got members and its anchor meanwhile.
        Stage.LOOKING: frozenset(
            {Stage.ADMITTING, Stage.DECIDING, Stage.RELEASING, Stage.ANSWERED}
        ),
        Stage.ADMITTING: frozenset({Stage.DECIDING, Stage.ANSWERED}),
        Stage.DECIDING: frozenset({Stage.STORING, Stage.CONFIRMING, Stage.ANSWERED}),
        Stage.STORING: frozenset({Stage.ANSWERED}),
        Stage.CONFIRMING: frozenset({Stage.ANSWERED}),
        Stage.RELEASING: frozenset({Stage.ANSWERED}),
        Stage.ANSWERED: frozenset(),
    }
)

ADOPTION: Moves[AdoptionStage] = MappingProxyType(
    {
        AdoptionStage.PROPOSED: frozenset({AdoptionStage.CONFIRMING, AdoptionStage.UNDONE}),
        AdoptionStage.CONFIRMING: frozenset({AdoptionStage.ANNOUNCING, AdoptionStage.UNDONE}),
        AdoptionStage.ANNOUNCING: frozenset(
            {AdoptionStage.IMPERSONATING, AdoptionStage.FORGETTING}
        ),
        AdoptionStage.IMPERSONATING: frozenset({AdoptionStage.REJOINING, AdoptionStage.FORGETTING}),
        # Straight to Locking: the leader's member is the only one.
        AdoptionStage.REJOINING: frozenset(
            {
                AdoptionStage.RELEASING,
                AdoptionStage.LOCKING,
                AdoptionStage.GIVING_BACK,
                AdoptionStage.FORGETTING,
            }
        ),
        AdoptionStage.RELEASING: frozenset({AdoptionStage.LOCKING, AdoptionStage.GIVING_BACK}),
        AdoptionStage.LOCKING: frozenset({AdoptionStage.ANCHORING, AdoptionStage.GIVING_BACK}),
        AdoptionStage.ANCHORING: frozenset({AdoptionStage.HANDING_OVER, AdoptionStage.GIVING_BACK}),
        AdoptionStage.HANDING_OVER: frozenset({AdoptionStage.ADOPTED, AdoptionStage.GIVING_BACK}),
        AdoptionStage.ADOPTED: frozenset(),
        AdoptionStage.RESUMING: frozenset(
            {AdoptionStage.ANCHORING, AdoptionStage.HANDING_OVER, AdoptionStage.GIVING_BACK}
        ),
        AdoptionStage.GIVING_BACK: frozenset({AdoptionStage.FORGETTING}),
        AdoptionStage.FORGETTING: frozenset({AdoptionStage.UNDONE}),
        AdoptionStage.UNDONE: frozenset(),
    }
)

RELEASE: Moves[ReleaseStage] = MappingProxyType(
    {
        # Straight to Concluding: another member has the group in the cluster already.
        ReleaseStage.RECALLING: frozenset({ReleaseStage.ANNOUNCING, ReleaseStage.CONCLUDING}),
        # Straight to Leaving: native members cannot be in one group with an anchor.
        ReleaseStage.ANNOUNCING: frozenset({ReleaseStage.OPENING, ReleaseStage.LEAVING}),
        ReleaseStage.OPENING: frozenset({ReleaseStage.GATHERING, ReleaseStage.LEAVING}),
        ReleaseStage.GATHERING: frozenset({ReleaseStage.LEAVING}),
        ReleaseStage.LEAVING: frozenset({ReleaseStage.AWAITING_ROUND}),
        # Straight to Concluding: no native member comes back.
        ReleaseStage.AWAITING_ROUND: frozenset(
            {ReleaseStage.AWAITING_NATIVE, ReleaseStage.CONCLUDING}
        ),
        ReleaseStage.AWAITING_NATIVE: frozenset({ReleaseStage.CONCLUDING}),
        ReleaseStage.CONCLUDING: frozenset({ReleaseStage.RELEASED}),
        ReleaseStage.RELEASED: frozenset(),
    }
)
