"""Has a target computed by a member of the group (KIP-848, "Client Side Mode", rule 9.7).

This is one way to have it computed outside the engine, as a plug-in is another: see
`external_assignors.py`. A member is told in the answer to its heartbeat, asks for the group
(prepare), and sends the target (install). Which member that is, and until when, is decided in
`selection.py`.
"""

from collections.abc import Iterator

from coordinator.assignors import GroupSpec
from coordinator.assignors.group_spec import NOTHING
from coordinator.consumer.external_assignors import delegate
from coordinator.consumer.external_assignors import install as install_target
from coordinator.consumer.member_slots import end_slots
from coordinator.consumer.selection import choose, client_side_assignor, drop_lost_member
from coordinator.consumer.target import group_spec, is_target_due
from coordinator.group.client_assignors import (
    CLASSIC_VERSION,
    can_run,
    offers_of,
    versions_in_use,
)
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.embedded_protocol import user_data_in
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.errors import GroupError
from coordinator.interface.events import InstallAssignmentReceived, PrepareAssignmentReceived
from coordinator.interface.records import ClientAssignor, Member
from coordinator.interface.replies import (
    InstallAssignmentReply,
    PrepareAssignmentReply,
    PreparedMember,
)
from kafka_codecs.error_codes import ErrorCode

Call = PrepareAssignmentReceived | InstallAssignmentReceived


def is_told_to_compute(step: StepBuilder, member: Member) -> bool:
    """Whether the answer to this heartbeat tells the member to compute the target. It is repeated
    until the member asks for the group, because answers may be lost."""
    group = step.consumer
    if is_target_due(step):
        choose(step, member)
    is_chosen = group.chosen is not None and group.chosen.member_id == member.member_id
    return is_chosen and group.computation is None


def prepare(step: StepBuilder, event: PrepareAssignmentReceived) -> None:
    """Answer with the group as it is now. Raises GroupError: INVALID_REQUEST, GROUP_ID_NOT_FOUND,
    UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH."""
    member = _chosen(step, event)
    group, topics = step.consumer, step.topics
    assignor = client_side_assignor(group, step.config)
    in_use = versions_in_use(group.offers)
    if assignor is None or not can_run(offers_of(member), assignor, in_use):
        raise _not_chosen(event)
    end_slots(step)
    spec = group_spec(group, topics, step.config)
    step.check_time(spec.members, spec.partition_counts)
    delegate(step, assignor, spec, is_members=True)
    step.answer(
        event.token,
        PrepareAssignmentReply(
            group_epoch=group.epoch,
            assignor=assignor,
            members=tuple(_describe_members(group, spec, assignor)),
            topics=tuple(
                (topic_id, topics.by_id[topic_id].name, count)
                for topic_id, count in spec.partition_counts.items()
            ),
        ),
    )


def install(step: StepBuilder, event: InstallAssignmentReceived) -> None:
    """Install the target that the chosen member computed, or note why there is none.

    Raises GroupError as `prepare` does. INVALID_ASSIGNMENT is an answer, because it ends the
    computation.
    """
    _chosen(step, event)
    computation = step.consumer.computation
    if computation is None or computation.epoch != event.group_epoch:
        raise _not_chosen(event)
    why_not = f"the assignor gave the error {event.error}" if event.error else event.flaw
    strangers = sorted(event.metadata.keys() - computation.members.keys())
    if strangers:
        why_not = why_not or f"{strangers[0]!r} is not a member of the group"
    # A member that is not named gets nothing.
    target = {**dict.fromkeys(computation.members, NOTHING), **event.target}
    why_not = install_target(
        step, computation, target, event.metadata, why_not=why_not, error=event.error
    )
    is_invalid = why_not and not event.error
    step.answer(
        event.token,
        InstallAssignmentReply(
            error=ErrorCode.INVALID_ASSIGNMENT if is_invalid else ErrorCode.NONE, reason=why_not
        ),
    )


def _chosen(step: StepBuilder, event: Call) -> Member:
    """The sender, if it was chosen; in the KIP's order of checks."""
    if not event.member_id.strip() or event.member_epoch < 0:
        raise GroupError(ErrorCode.INVALID_REQUEST, "the member id is blank, or the epoch below 0")
    group = step.state.group
    if not isinstance(group, ConsumerGroup):
        reason = f"{step.state.group_id} is not a consumer group"
        raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, reason)
    member = group.members.get(event.member_id)
    if member is None:
        reason = f"{event.member_id!r} is not a member of the group"
        raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID, reason)
    epoch = group.assignments[event.member_id].member_epoch
    if event.member_epoch != epoch:
        reason = f"member epoch {event.member_epoch} is not the current one, {epoch}"
        raise GroupError(ErrorCode.STALE_MEMBER_EPOCH, reason)
    if group.chosen is not None:
        drop_lost_member(step, group.chosen)
    if group.chosen is None or group.chosen.member_id != event.member_id:
        raise _not_chosen(event)
    return member


def _not_chosen(event: Call) -> GroupError:
    reason = f"{event.member_id!r} is not, or no longer, the member that computes this target"
    return GroupError(ErrorCode.UNKNOWN_MEMBER_ID, reason)


def _describe_members(
    group: ConsumerGroup, spec: GroupSpec, assignor: str
) -> Iterator[PreparedMember]:
    for member_id, member in group.members.items():
        described = _description(member, assignor)
        yield PreparedMember(
            member_id=member_id,
            member_epoch=group.assignments[member_id].member_epoch,
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            topic_ids=spec.members[member_id].topic_ids,
            reason=described.reason,
            version=described.version,
            metadata=described.metadata,
            target=group.target_of(member_id),
        )


def _description(member: Member, assignor: str) -> ClientAssignor:
    """What a member says to the assignor; a classic one in its subscription (KIP-848, "JoinGroup
    Handling")."""
    if member.classic is None:
        return next(offered for offered in member.client_assignors if offered.name == assignor)
    return ClientAssignor(
        name=assignor,
        minimum_version=CLASSIC_VERSION,
        maximum_version=CLASSIC_VERSION,
        version=CLASSIC_VERSION,
        metadata=user_data_in(dict(member.classic.protocols)[assignor]),
    )
