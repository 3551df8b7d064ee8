"""A small world in which a hosted group goes back to the cluster.

It begins with a group that was adopted, and that native consumers have joined since. The machine of
the release and both engines are the shipped ones; the anchor keeps its place by itself.
"""

from dataclasses import dataclass, replace

from coordinator.handlers.release import may_begin
from coordinator.interface.events import (
    JOIN_EPOCH,
    ConsumerHeartbeatReceived,
    JoinGroupReceived,
    ReleaseBegan,
    ReleaseMoved,
    Request,
    SyncGroupReceived,
)
from coordinator.interface.replies import (
    ConsumerHeartbeatReply,
    JoinGroupReply,
    Reply,
    SyncGroupReply,
)
from gateway.hosting.adoption_steps import (
    Answered,
    GaveUp,
    Heard,
    Lane,
    Stored,
    StoreFailed,
    TimePassed,
    Treatment,
)
from gateway.hosting.release import Releasing
from gateway.hosting.release_steps import HandedOver, NativeJoined, StoreRelease
from gateway.hosting.states import ReleaseStage
from kafka_codecs.consumer_protocol import Assignment, encode_assignment
from kafka_codecs.declaration import Struct
from kafka_codecs.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kafka_codecs.error_codes import ErrorCode
from tests.simulation.explorer.adoption_world import UNTIMELY, AdoptionWorld, Sending
from tests.simulation.explorer.promises import promise
from tests.simulation.explorer.small_cluster import GROUP
from tests.simulation.explorer.small_consumers import HEARTBEAT_INTERVAL_MS
from tests.simulation.explorer.small_world import Move
from tests.simulation.explorer.upstream import the_gateway


@dataclass(slots=True, eq=False)
class ReleaseWorld(AdoptionWorld):
    """One state of the world."""

    has_fault: bool = False
    """Whether something has happened after which a commit may be refused."""

    @property
    def may_release(self) -> bool:
        """Whether a release can begin."""
        is_hosted = self.machine is None and self.treatment is Treatment.HOSTED
        return is_hosted and bool(self.here.state.group) and may_begin(self.here.state)

    @property
    def releasing(self) -> Releasing | None:
        """The machine of the release."""
        machine: object = self.machine
        return machine if isinstance(machine, Releasing) else None

    # -- moves -----------------------------------------------------------------------------------

    def play(self, move: Move) -> None:
        """Make a move. Raises BrokenPromiseError."""
        verb = move.partition(" ")[0]
        self.is_excused |= verb == "release"
        self.has_fault |= verb in UNTIMELY or verb.partition("-")[0] in UNTIMELY
        AdoptionWorld.play(self, move)

    def _play(self, verb: str, what: str) -> None:
        if verb != "release":
            AdoptionWorld._play(self, verb, what)
            return
        self._tell_here(ReleaseBegan())
        self._resume()

    def _resume(self) -> None:
        """Go on with the release that the log has, if there is one."""
        release = self.here.state.release
        if release is not None and release.is_under_way:
            machine = Releasing(GROUP, the_gateway().guise, release, self.now_ms)
            self.machine = machine  # type: ignore[assignment]
            self._feed(TimePassed())

    def _settle(self) -> None:
        AdoptionWorld._settle(self)
        machine = self.releasing
        if machine is not None and machine.is_ready(self._commits_in_flight()):
            self._feed(HandedOver(self.upstream.keep(self.now_ms)))  # type: ignore[arg-type]
            AdoptionWorld._settle(self)

    def _commits_in_flight(self) -> int:
        guarded = sum(each.route == "guarded" for each in self.sendings.values())
        return len(self.here.state.commits) + guarded

    def _wait(self) -> None:
        if self.releasing is not None and self.releasing.stage is ReleaseStage.RECALLING:
            self.upstream.keep(self.now_ms)
        AdoptionWorld._wait(self)

    def _members(self) -> set[str]:
        release = self.here.state.release
        if release is None or release.group is None:
            return AdoptionWorld._members(self)
        return {member.member_id for member in release.group.members}

    def _treat(self, name: str, event: Request) -> None:
        """As `GroupRelease` admits requests."""
        machine, is_join = self.releasing, isinstance(event, JoinGroupReceived)
        is_relayed = self.treatment is Treatment.FORWARDED
        if is_relayed and is_join and machine is not None and machine.is_native_due:
            self.waiting[name] = event
        else:
            AdoptionWorld._treat(self, name, event)

    def _watch(self, name: str, reply: Reply) -> None:
        AdoptionWorld._watch(self, name, reply)
        is_native = isinstance(reply, ConsumerHeartbeatReply) and not reply.error
        if self.releasing is not None and is_native and name in self.behind:
            self._feed(NativeJoined())  # type: ignore[arg-type]

    # -- recalled members ------------------------------------------------------------------------

    def _recall(self, name: str, event: Request) -> None:
        """As `Recall` answers in a group with native members."""
        machine = self.releasing
        if machine is None or not machine.has_natives:
            AdoptionWorld._recall(self, name, event)
            return
        match event:
            case ConsumerHeartbeatReceived() if event.member_id in self._members():
                self._recall_native(name, event)
            case SyncGroupReceived() if name in self.recalled:
                nothing = encode_assignment(Assignment(assigned_partitions=()), 0)
                self._hear(name, SyncGroupReply(assignment=nothing))
            case JoinGroupReceived() if event.member_id in self._members() and self._claims(event):
                self._feed(Heard(event.member_id))
                self.recalled[name] = event.member_id
                self._hear(
                    name,
                    JoinGroupReply(
                        member_id=event.member_id,
                        generation=1,
                        protocol_name=event.protocols[0][0],
                        leader="groupferry",
                    ),
                )
            case _:
                AdoptionWorld._recall(self, name, event)

    def _recall_native(self, name: str, event: ConsumerHeartbeatReceived) -> None:
        reply = ConsumerHeartbeatReply(
            member_id=event.member_id,
            member_epoch=event.member_epoch,
            heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
        )
        if event.member_epoch == JOIN_EPOCH:
            self.waiting[name] = event
            self._feed(GaveUp(event.member_id))
        elif event.member_epoch < JOIN_EPOCH:
            self._feed(GaveUp(event.member_id, comes_back=False))
            self._hear(name, reply)
        elif name in self.recalled and event.owned == frozenset():
            self._feed(Heard(event.member_id))
            self._hear(name, ConsumerHeartbeatReply(error=ErrorCode.FENCED_MEMBER_EPOCH))
        else:
            self._feed(Heard(event.member_id))
            self.recalled[name] = event.member_id
            self._hear(name, replace(reply, assignment=frozenset()))

    def _hear(self, name: str, reply: Reply) -> None:
        """DEV D49: the gateway passes no GROUP_ID_NOT_FOUND on to a member."""
        is_lost = reply.error == ErrorCode.GROUP_ID_NOT_FOUND and name in self.behind
        if is_lost and self._consumer(name).epoch > JOIN_EPOCH:
            reply = ConsumerHeartbeatReply(error=ErrorCode.UNKNOWN_MEMBER_ID)
        AdoptionWorld._hear(self, name, reply)

    # -- commits ---------------------------------------------------------------------------------

    def _route(self, name: str, sending: Sending) -> None:
        machine = self.releasing
        if machine is None or machine.treatment is not Treatment.RECALLED:
            if machine is not None:
                sending.route = "relayed"
            else:
                AdoptionWorld._route(self, name, sending)
            return
        is_kept = machine.stage is ReleaseStage.RECALLING
        guard = self.upstream.keep(self.now_ms) if is_kept else None
        if guard is None or sending.make.member_id not in self._members():
            self._committed(name, sending, ErrorCode.REBALANCE_IN_PROGRESS)
        else:
            sending.route, sending.ids = "guarded", guard

    def _committed(self, name: str, sending: Sending, code: int) -> None:
        if sending.route in ("hosted", "guarded"):
            promise(
                self.has_fault or not code,
                f"a commit of {name} under the anchor's ids gets {ErrorCode(code).name}",
            )
        AdoptionWorld._committed(self, name, sending, code)

    # -- the machine -----------------------------------------------------------------------------

    def _carry_out(self, how: str, name: str) -> None:
        effect = self.pending[name]
        if not isinstance(effect, StoreRelease):
            AdoptionWorld._carry_out(self, how, name)
            return
        del self.pending[name]
        if how != "fail":
            self._tell_here(ReleaseMoved(release=effect.release))
        self._feed(Stored() if how == "answer" else StoreFailed("the disk is gone"))

    def _arrive(self, message: Struct, lane: Lane | None) -> None:
        if not isinstance(message, DescribeGroupsRequest):
            AdoptionWorld._arrive(self, message, lane)
        elif lane is not None:
            told = DescribeGroupsResponse(groups=(self.upstream.describe(),))
            self._feed(Answered(lane, told))

    def _restart(self, *, keeps_requests: bool) -> None:
        AdoptionWorld._restart(self, keeps_requests=keeps_requests)
        self._resume()
