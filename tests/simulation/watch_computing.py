"""Checks who computes targets and installs them (rule 9.7). It inspects only what members are told
and what they send."""

from collections.abc import Iterable

from coordinator.engine import Step
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.state import GroupState
from coordinator.interface.events import (
    Event,
    InstallAssignmentReceived,
    PrepareAssignmentReceived,
)
from coordinator.interface.records import Member
from coordinator.interface.replies import ConsumerHeartbeatReply, PrepareAssignmentReply, Reply
from kafka_codecs.error_codes import ErrorCode
from tests.simulation.invariants import Invariant, require

REFUSALS = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}


class ComputingWatch:
    """A member that is told to compute handles all versions in use. Only the last one that asked
    for the group installs a target: with its epoch, that of the answer, and once."""

    def __init__(self) -> None:
        self._asked: tuple[str, int] | None = None
        """Who has the group last, and the group epoch of that."""
        self._epochs: dict[str, int] = {}
        """The member epochs before this step."""

    def after_load(self, state: GroupState) -> None:
        self._asked = None
        self.record(state)

    def after_step(self, state: GroupState, event: Event, step: Step) -> None:
        group = state.group
        for _token, reply in step.replies:
            if isinstance(reply, ConsumerHeartbeatReply) and reply.should_compute:
                assert isinstance(group, ConsumerGroup)
                self._check_able(group, reply.member_id or "")
        match event:
            case PrepareAssignmentReceived(member_id=member_id):
                for reply in _replies(step):
                    if isinstance(reply, PrepareAssignmentReply) and not reply.error:
                        self._asked = member_id, reply.group_epoch
            case InstallAssignmentReceived():
                if any(reply.error not in REFUSALS for reply in _replies(step)):
                    self._check_installer(event)
                    self._asked = None
            case _:
                pass

    def _check_able(self, group: ConsumerGroup, member_id: str) -> None:
        versions = {_version(member) for member in group.members.values()}
        for assignor in group.members[member_id].client_assignors:
            are_handled = all(
                assignor.minimum_version <= version <= assignor.maximum_version
                for version in versions
            )
            require(are_handled, Invariant.COMPUTED, member_id, "cannot handle", sorted(versions))

    def _check_installer(self, event: InstallAssignmentReceived) -> None:
        installs = event.member_id, event.group_epoch
        require(installs == self._asked, Invariant.COMPUTED, installs, "but asked", self._asked)
        epoch = self._epochs.get(event.member_id)
        require(event.member_epoch == epoch, Invariant.COMPUTED, event, "at epoch", epoch)

    def record(self, state: GroupState) -> None:
        """The group has moved."""
        self._epochs = {}
        if isinstance(state.group, ConsumerGroup):
            assignments = state.group.assignments
            self._epochs = {id_: assignment.member_epoch for id_, assignment in assignments.items()}


def _replies(step: Step) -> Iterable[Reply]:
    return (reply for _token, reply in step.replies)


def _version(member: Member) -> int:
    """Each client of the simulator supports one assignor."""
    return -1 if member.is_classic else member.client_assignors[0].version
