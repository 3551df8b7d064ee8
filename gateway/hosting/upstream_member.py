"""One classic member of a group in the cluster, as the gateway keeps it there.

The gateway is a member in five roles, each of them a small policy of this machine. The *anchor*
(`anchor.py`) holds a hosted group. The *leader's member* and the anchor after it take a group over
(`adoption.py`), and the former is the *guard* that keeps it while the adoption is undone. The
*opener* gives it back (`release.py`). In a group without consumers, the gateways of a fleet decide
which of them has which shards (`fleet/ownership.py`). A policy says when to join, what to assign in
a round, when to leave, and what a refusal means for its group. How the coordinator is asked, what
its error codes say about the member, and when to try again stands here.

    Out -> Joining -> Joined -> Syncing -> In -> Leaving -> Out

A refused or lost request leads to `Out`, with its meaning. A member that is `In` may join to begin
a generation, and keeps its place until that has begun. Each stage has what is known in it and
nothing else, so that no flag can contradict it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto

from gateway.hosting.identity import AnchorIds, AnchorJoinMetadata
from kafka_codecs.consumer_protocol import VERSIONS, Assignment, encode_assignment
from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import ErrorCode, name_of
from kafka_codecs.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_codecs.join_group import JoinGroupProtocol, JoinGroupRequest, JoinGroupResponse
from kafka_codecs.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kafka_codecs.sync_group import SyncGroupAssignment, SyncGroupRequest, SyncGroupResponse

HEARTBEAT_INTERVAL_MS = 3_000
"""The interval of Kafka's clients. The gateway notices a removed anchor at the next heartbeat,
commit or grant of partitions."""
ANXIOUS_INTERVAL_MS = 2_000
"""The heartbeat interval while the coordinator gives no usable answer."""
FIRST_BACKOFF_MS, LAST_BACKOFF_MS = 100, 2_000
JOIN_REPEATS_MAX = 10
"""How often a JoinGroup that was answered with REBALANCE_IN_PROGRESS is repeated immediately."""
NO_MEMBER = ""
"""The member id of a JoinGroup that asks for one, and of a commit to a group without members."""
NOTHING = encode_assignment(Assignment(assigned_partitions=()), VERSIONS[0])
"""The assignment of a member that gets no partitions. Clients do not understand zero bytes."""


class Meaning(Enum):
    """What a refusal says about the member."""

    GONE = auto()
    """The member is not in the group."""
    CALLED = auto()
    """The member is in the group and has to join: the next generation has begun or is about to."""
    OTHERS = auto()
    """Another member is in the group, and has no protocol in common with it."""
    HINDERED = auto()
    """Kafka 4 refuses a waiting JoinGroup as often as a native consumer tries to join as well, and
    cannot read the subscription where native consumers are in the group."""
    UNUSABLE = auto()
    """Nothing: the coordinator did not answer, has moved, or cannot serve the group now."""


OF_MEMBERS: Mapping[int, Meaning] = {
    ErrorCode.UNKNOWN_MEMBER_ID: Meaning.GONE,
    ErrorCode.FENCED_INSTANCE_ID: Meaning.GONE,
    # The cluster has no such group any more, or one of the new protocol.
    ErrorCode.GROUP_ID_NOT_FOUND: Meaning.GONE,
    ErrorCode.FENCED_MEMBER_EPOCH: Meaning.GONE,
    ErrorCode.STALE_MEMBER_EPOCH: Meaning.GONE,
    ErrorCode.ILLEGAL_GENERATION: Meaning.CALLED,
    ErrorCode.REBALANCE_IN_PROGRESS: Meaning.CALLED,
}
"""The codes by which the coordinator refuses a member. Any other is `UNUSABLE`."""
OF_JOINS: Mapping[int, Meaning] = {
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: Meaning.OTHERS,
    ErrorCode.GROUP_ID_NOT_FOUND: Meaning.OTHERS,
    ErrorCode.GROUP_MAX_SIZE_REACHED: Meaning.OTHERS,
    ErrorCode.REBALANCE_IN_PROGRESS: Meaning.HINDERED,
    ErrorCode.UNKNOWN_SERVER_ERROR: Meaning.HINDERED,
}
"""What codes say in the answer to a JoinGroup of a client that has no place in the group."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request did not succeed."""

    meaning: Meaning
    reason: str
    """The reason for operators, and for clients unless the meaning is `UNUSABLE`: it may contain an
    address."""
    api: str = ""
    code: int = 0
    """The coordinator's error code; 0 if there is none."""

    @property
    def is_replaced(self) -> bool:
        """Whether another process has taken the member's instance, or a late request has."""
        return self.code == ErrorCode.FENCED_INSTANCE_ID


# -- the stages ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class In:
    """In the group, with a completed generation."""

    ids: AnchorIds
    session_ms: int
    until_ms: int
    """When its session ends, unless a heartbeat is answered until then."""
    beat_at_ms: int
    asked_ms: int | None = None
    """When the heartbeat was sent that has no answer yet."""
    refusal: Refusal | None = None
    """Why its latest request got no usable answer, if it did not."""


@dataclass(frozen=True, slots=True)
class Out:
    """Not certainly in the group, or not in its present generation."""

    refusal: Refusal | None = None
    """What ended its last attempt or stay; None before the first one, and after it has left."""
    retry_at_ms: int = 0
    awaits_answer: bool = False
    """Whether a request of its last stay has no answer yet. The answer means nothing any more."""

    @property
    def is_certain(self) -> bool:
        """Whether it is certainly not in the group."""
        return self.refusal is None or self.refusal.meaning is Meaning.GONE


@dataclass(frozen=True, slots=True)
class Joining:
    """The member's JoinGroup waits for the round to end."""

    request: JoinGroupRequest
    asked_ms: int
    place: In | None = None
    """What it keeps if the request is not carried out."""
    repeats: int = 0
    """How often the request was repeated."""
    took_place_in: int | None = None
    """The generation in which it has taken the place of a predecessor."""


@dataclass(frozen=True, slots=True)
class Joined:
    """In a round that waits for its SyncGroup."""

    round: JoinGroupResponse
    session_ms: int
    since: int
    """The generation in which it has come."""

    @property
    def leads(self) -> bool:
        """Whether the member assigns the partitions of the round."""
        return self.round.leader == self.round.member_id

    @property
    def others(self) -> Sequence[str]:
        """The ids of the round's other members, if it leads."""
        ids = (member.member_id for member in self.round.members)
        return [member_id for member_id in ids if member_id != self.round.member_id]

    @property
    def is_alone(self) -> bool:
        """Whether it leads a round that has no other member."""
        there = [member.member_id for member in self.round.members]
        return self.leads and there == [self.round.member_id]


@dataclass(frozen=True, slots=True)
class Syncing:
    """The member's SyncGroup is under way, upon which the coordinator stores the generation."""

    ids: AnchorIds
    session_ms: int
    asked_ms: int


@dataclass(frozen=True, slots=True)
class Leaving:
    """The member's LeaveGroup is under way."""

    ids: AnchorIds


UpstreamStage = Out | Joining | Joined | Syncing | In | Leaving


class UpstreamMember:
    """The member. What it returns is to be sent, one request at a time; then `on_answer` or
    `on_no_answer` must follow. Times are milliseconds."""

    def __init__(
        self,
        group_id: str,
        join_metadata: AnchorJoinMetadata,
        *,
        reason: str,
        session_timeouts_ms: Sequence[int],
        rebalance_timeout_ms: int = 0,
        is_static: bool = True,
        repeats_max: int = 0,
        spread: float = 1.0,
    ) -> None:
        """`join_metadata`: its protocol, and what it says under each; no broker can read that as a
        subscription, so no native consumer can convert the group. `reason`: for the brokers' logs.
        `session_timeouts_ms`: tried in this order until the cluster accepts one. The rebalance
        timeout is the session timeout, unless the given one is longer. `is_static`: whether it has
        the instance id in its join metadata. `repeats_max`: how often to repeat a JoinGroup that
        native consumers hinder. `spread`: a factor on the heartbeat interval."""
        self.stage: UpstreamStage = Out()
        self.joins = 0
        """How many of its JoinGroups may have begun a generation since it was last `In`."""
        self._group_id = group_id
        self.join_metadata = join_metadata
        """What it joins with the next time; its instance id is fixed."""
        self._reason = reason
        self._session_timeouts_ms = tuple(session_timeouts_ms)
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._instance_id = join_metadata.instance_id if is_static else None
        self._repeats_max = repeats_max
        self._spread = spread
        self._backoff_ms = 0

    @property
    def awaits_answer(self) -> bool:
        """Whether a request is under way."""
        match self.stage:
            case Joined() | Out(awaits_answer=False) | In(asked_ms=None):
                return False
            case _:
                return True

    @property
    def ids(self) -> AnchorIds | None:
        """The ids under which commits are stored; None unless the coordinator has confirmed them
        with its latest answer."""
        place = self.stage
        return place.ids if isinstance(place, In) and place.refusal is None else None

    def next_ms(self) -> int | None:
        """When its next heartbeat or attempt to join is due; None while an answer is."""
        match self.stage:
            case Out(retry_at_ms=at_ms, awaits_answer=False):
                return at_ms
            case In(beat_at_ms=at_ms, asked_ms=None):
                return at_ms
            case Joined():
                return 0
            case _:
                return None

    # -- what a policy has it do -----------------------------------------------------------------

    def begin(self) -> None:
        """Forget what has happened to it. No answer follows."""
        self.stage = Out()
        self.joins = self._backoff_ms = 0

    def take_place(self, ids: AnchorIds, now_ms: int) -> None:
        """Continue with a place in the group."""
        session_ms = self._session_timeouts_ms[0]
        self.joins = self._backoff_ms = 0
        self.stage = In(ids, session_ms, until_ms=now_ms + session_ms, beat_at_ms=now_ms)

    def give_up(self, refusal: Refusal, now_ms: int) -> None:
        """Count as out of the group. It may try again now if it was in it, otherwise after a
        pause: a coordinator may refuse each round that it begins."""
        may_retry = isinstance(self.stage, In)
        self.stage = Out(refusal, now_ms, self.awaits_answer)
        if not may_retry:
            self.pause(now_ms)

    def pause(self, now_ms: int) -> None:
        """Join no sooner than after a pause, which becomes longer from time to time."""
        assert isinstance(self.stage, Out)
        self._backoff_ms = min(max(2 * self._backoff_ms, FIRST_BACKOFF_MS), LAST_BACKOFF_MS)
        self.stage = replace(self.stage, retry_at_ms=now_ms + self._backoff_ms)

    def join(
        self, now_ms: int, *, member_id: str = NO_MEMBER, names: Sequence[str] = ()
    ) -> JoinGroupRequest:
        """Join, or begin a generation. Without a member id it takes the place of an earlier member
        with its instance id. It offers the private protocol first, and then these `names`."""
        session_ms = self._session_timeouts_ms[0]
        request = JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=max(session_ms, self._rebalance_timeout_ms),
            member_id=member_id,
            group_instance_id=self._instance_id,
            protocol_type=self.join_metadata.protocol_type,
            protocols=tuple(
                JoinGroupProtocol(name=name, metadata=self.join_metadata.metadata)
                for name in dict.fromkeys((self.join_metadata.protocol, *names))
            ),
            reason=self._reason,
        )
        place = self.stage if isinstance(self.stage, In) else None
        self.joins += 1
        self.stage = Joining(request, now_ms, place)
        return request

    def sync(self, assignments: Mapping[str, bytes], now_ms: int) -> SyncGroupRequest:
        """Complete the round that it is in."""
        joined = self.stage
        assert isinstance(joined, Joined)
        ids = AnchorIds(
            member_id=joined.round.member_id,
            generation=joined.round.generation_id,
            instance_id=self._instance_id or "",
        )
        self.stage = Syncing(ids, joined.session_ms, now_ms)
        return SyncGroupRequest(
            group_id=self._group_id,
            generation_id=ids.generation,
            member_id=ids.member_id,
            group_instance_id=self._instance_id,
            protocol_type=self.join_metadata.protocol_type,
            protocol_name=joined.round.protocol_name,
            assignments=tuple(
                SyncGroupAssignment(member_id=member_id, assignment=assignment)
                for member_id, assignment in assignments.items()
            ),
        )

    def beat(self, now_ms: int) -> HeartbeatRequest:
        """Send a heartbeat."""
        place = self.stage
        assert isinstance(place, In)
        self.stage = replace(place, asked_ms=now_ms)
        return HeartbeatRequest(
            group_id=self._group_id,
            generation_id=place.ids.generation,
            member_id=place.ids.member_id,
            group_instance_id=self._instance_id,
        )

    def leave(self, ids: AnchorIds) -> LeaveGroupRequest:
        """Leave. A member that has taken its instance since stays."""
        self.stage = Leaving(ids)
        leaver = MemberIdentity(
            member_id=ids.member_id, group_instance_id=self._instance_id, reason=self._reason
        )
        return LeaveGroupRequest(group_id=self._group_id, members=(leaver,))

    def hurry(self, now_ms: int) -> None:
        """Send the next heartbeat now: something may have changed."""
        if isinstance(self.stage, In):
            self.stage = replace(self.stage, beat_at_ms=now_ms)

    # -- what becomes of it ----------------------------------------------------------------------

    def on_answer(self, answer: Struct, now_ms: int) -> Struct | None:
        """Take the answer to its request. Returns the next request, if it has to be sent right
        away."""
        match self.stage, answer:
            case Out(awaits_answer=True) as out, _:
                self.stage = replace(out, awaits_answer=False)
            case Joining() as joining, JoinGroupResponse():
                return self._on_joined(joining, answer, now_ms)
            case Syncing() as syncing, SyncGroupResponse(error_code=ErrorCode.NONE):
                self.joins = self._backoff_ms = 0
                self._confirm(syncing, now_ms)
            case In(asked_ms=int()) as place, HeartbeatResponse(error_code=ErrorCode.NONE):
                self._confirm(place, now_ms)
            case Syncing(), SyncGroupResponse(error_code=code):
                self._refuse(refusal_of("SyncGroup", code), None, now_ms)
            case In(asked_ms=int()) as place, HeartbeatResponse(error_code=code):
                self._refuse(refusal_of("Heartbeat", code), place, now_ms)
            case Leaving(), LeaveGroupResponse():
                self._on_left(answer, now_ms)
            case _:
                raise TypeError(f"{type(answer).__name__} answers no outstanding request")
        return None

    def on_no_answer(self, reason: str, now_ms: int) -> None:
        """The coordinator did not answer its request, which may be carried out, or later."""
        match self.stage:
            case Out() as out:
                self.stage = replace(out, awaits_answer=False)
            case Joining(place=place) | (In() as place):
                self._refuse(Refusal(Meaning.UNUSABLE, reason), place, now_ms)
            case _:
                self._refuse(Refusal(Meaning.UNUSABLE, reason), None, now_ms)

    def _on_joined(
        self, joining: Joining, answer: JoinGroupResponse, now_ms: int
    ) -> JoinGroupRequest | None:
        request, code = joining.request, answer.error_code
        repeats, took_place_in = joining.repeats, joining.took_place_in
        is_new = request.member_id == NO_MEMBER
        leads = answer.leader == answer.member_id
        if code == ErrorCode.INVALID_SESSION_TIMEOUT and len(self._session_timeouts_ms) > 1:
            self._session_timeouts_ms = self._session_timeouts_ms[1:]
            session_ms = self._session_timeouts_ms[0]
            rebalance_ms = max(session_ms, self._rebalance_timeout_ms)
            request = replace(
                request, session_timeout_ms=session_ms, rebalance_timeout_ms=rebalance_ms
            )
        elif code == ErrorCode.MEMBER_ID_REQUIRED and is_new:
            request = replace(request, member_id=answer.member_id)
        elif (
            code == ErrorCode.REBALANCE_IN_PROGRESS
            and joining.place is None
            and repeats < self._repeats_max
        ):
            repeats += 1
            self.joins -= 1  # it began no generation
        elif code:
            codes = {**OF_MEMBERS, **OF_JOINS} if joining.place is None else OF_MEMBERS
            self._refuse(refusal_of("JoinGroup", code, codes), joining.place, now_ms)
            return None
        elif is_new and (answer.skip_assignment or not leads):
            # It has taken the place of its predecessor, in a generation that an old broker does not
            # store. A JoinGroup under the new id begins one that every coordinator stores.
            request = replace(request, member_id=answer.member_id)
            took_place_in = answer.generation_id
        else:
            since = answer.generation_id if took_place_in is None else took_place_in
            self.stage = Joined(answer, request.session_timeout_ms, since)
            return None
        self.joins += 1
        self.stage = Joining(request, now_ms, joining.place, repeats, took_place_in)
        return request

    def _on_left(self, answer: LeaveGroupResponse, now_ms: int) -> None:
        codes = {answer.error_code, *(member.error_code for member in answer.members)}
        failures = codes - {ErrorCode.NONE} - OF_MEMBERS.keys()
        if failures:
            self._refuse(refusal_of("LeaveGroup", min(failures)), None, now_ms)
        elif ErrorCode.FENCED_INSTANCE_ID in codes:
            self._refuse(refusal_of("LeaveGroup", ErrorCode.FENCED_INSTANCE_ID), None, now_ms)
        else:
            self.stage = Out()

    def _confirm(self, latest: Syncing | In, now_ms: int) -> None:
        """The coordinator has taken the latest request: the session counts from its sending."""
        assert latest.asked_ms is not None
        self.stage = In(
            latest.ids,
            latest.session_ms,
            until_ms=latest.asked_ms + latest.session_ms,
            beat_at_ms=now_ms + round(HEARTBEAT_INTERVAL_MS * self._spread),
        )

    def _refuse(self, refusal: Refusal, place: In | None, now_ms: int) -> None:
        """A request was refused or lost. An unusable answer says nothing about its `place`, unless
        its session is over."""
        if refusal.meaning is Meaning.UNUSABLE and place is not None and now_ms < place.until_ms:
            beat_at_ms = now_ms + round(ANXIOUS_INTERVAL_MS * self._spread)
            self.stage = replace(place, asked_ms=None, refusal=refusal, beat_at_ms=beat_at_ms)
        else:
            self.stage = Out() if place is None else replace(place, asked_ms=None)
            self.give_up(refusal, now_ms)


def refusal_of(api: str, code: int, codes: Mapping[int, Meaning] = OF_MEMBERS) -> Refusal:
    """What the error code of an answer says."""
    meaning = codes.get(code, Meaning.UNUSABLE)
    reason = f"the cluster answered {api} with {name_of(code)}"
    if meaning in (Meaning.OTHERS, Meaning.HINDERED):
        reason = "another member is in the group"
    return Refusal(meaning, reason, api, code)
