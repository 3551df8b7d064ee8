"""Offsets of a group of either kind: the engine checks, the cluster stores (rules 2.9, 3.15).

DEV D34: checking here and storing there is not atomic. An accepted commit is therefore in flight,
and its partitions count as held by its committer, until the cluster has answered it or can no
longer store it. A commit in flight is stray if its answer was lost, if its committer is gone or has
joined again, or if it named no member and members joined since. Until it ends, its partitions can
be neither committed nor fetched, because an offset could go back.

Deleting a group also deletes its offsets, so it is here too.
"""

from dataclasses import replace

from coordinator.classic.offsets import check_commit as check_classic_commit
from coordinator.classic.rebalance import maybe_complete_join
from coordinator.classic.subscriptions import topics_in_force
from coordinator.consumer.offsets import check_commit as check_consumer_commit
from coordinator.consumer.offsets import check_fetch as check_consumer_fetch
from coordinator.consumer.offsets import gone_topics
from coordinator.conversion.empty_group import remove_empty_consumer_group
from coordinator.conversion.upgrade import remove_classic_group
from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.errors import GroupError
from coordinator.interface.events import (
    DeleteGroupReceived,
    OffsetCommitEnded,
    OffsetCommitReceived,
    OffsetDeleteReceived,
    OffsetFetchReceived,
)
from coordinator.interface.replies import DeleteGroupReply, OffsetDeleteReply, OffsetReply
from coordinator.interface.topics import Partition
from coordinator.interface.volatile_records import (
    CommitEnded,
    CommitInFlight,
    CommitStarted,
    DeadlineKind,
    Token,
)
from kafka_codecs.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from kafka_codecs.error_codes import ErrorCode

# The committer of a commit without a member: an admin, or a consumer that uses assign().
NO_MEMBER = ""


def commit(step: StepBuilder, event: OffsetCommitReceived) -> None:
    """Decide whether a commit may go to the cluster. Raises GroupError: the codes of the kind of
    group, and COORDINATOR_LOAD_IN_PROGRESS because of a stray commit."""
    gone = frozenset[str]()
    match step.state.group:
        case ClassicGroup():
            check_classic_commit(step, event)
        case ConsumerGroup():
            check_consumer_commit(step, event)
            if gone := gone_topics(step, event):
                gone_ids = step.topics.ids(gone)
                stored = frozenset(p for p in event.partitions if p.topic_id not in gone_ids)
                event = replace(event, partitions=stored)
        case None:
            _check_simple_commit(event)
    _check_no_stray_commit(step, event.partitions)
    if event.member_id or not event.is_transactional:
        step.emit(CommitStarted(event.token, _in_flight(step, event)))
    step.answer(event.token, OffsetReply(gone=gone))


def _in_flight(step: StepBuilder, event: OffsetCommitReceived) -> CommitInFlight:
    """The commit in flight, with the partitions that it keeps held.

    A member of a consumer group may commit, at its own epoch, partitions that it does not hold
    (rule 3.15); those stay free for others. In a classic group only the leader knows the
    assignment. A commit without a member, such as an admin's reset of an empty group, holds
    nothing.
    """
    held, group = event.partitions, step.state.group
    if group is None or event.member_id not in group.members:
        return CommitInFlight(member_id=NO_MEMBER, partitions=event.partitions, held=frozenset())
    if isinstance(group, ConsumerGroup):
        current = group.assignments.get(event.member_id)
        held &= current.held_partitions.keys() if current else frozenset()
    return CommitInFlight(member_id=event.member_id, partitions=event.partitions, held=held)


def commit_ended(step: StepBuilder, event: OffsetCommitEnded) -> None:
    """Record that the cluster answered, or that its answer was lost. In the second case a timer or
    the driver ends the commit later."""
    in_flight = step.state.commits.get(event.commit)
    if in_flight is None:
        return
    if event.answer_lost:
        step.emit(CommitStarted(event.commit, replace(in_flight, answer_lost=True)))
        if (hold_ms := step.config.lost_commit_hold_ms) is not None:
            step.arm(DeadlineKind.LOST_COMMIT, str(event.commit), hold_ms)
    else:
        end_commit(step, event.commit)


def end_commit(step: StepBuilder, commit_token: Token) -> None:
    """Release the partitions of this commit. A join phase may be waiting for that."""
    step.emit(CommitEnded(commit_token))
    step.disarm(DeadlineKind.LOST_COMMIT, str(commit_token))
    if isinstance(step.state.group, ClassicGroup):
        maybe_complete_join(step)


def fetch(step: StepBuilder, event: OffsetFetchReceived) -> None:
    """Decide whether offsets may be fetched from the cluster. Raises GroupError: the codes of a
    consumer group, and COORDINATOR_LOAD_IN_PROGRESS because of a stray commit."""
    if isinstance(step.state.group, ConsumerGroup):
        check_consumer_fetch(step, event)
    _check_no_stray_commit(step, event.partitions)
    step.answer(event.token, OffsetReply())


def delete(step: StepBuilder, event: OffsetDeleteReceived) -> None:
    """Decide which offsets may be deleted: those of topics that no member subscribes to.

    Raises GroupError NON_EMPTY_GROUP if the members speak another embedded protocol.
    """
    names = frozenset(event.topic_names)
    match step.state.group:
        case ConsumerGroup() as group:
            subscribed = names & group.subscribers.keys()
        case ClassicGroup(core=core) as group if group.members:
            if core.protocol_type != CONSUMER_PROTOCOL_TYPE:
                raise GroupError(ErrorCode.NON_EMPTY_GROUP, "the group has members")
            # While the subscriptions are unknown, every topic counts as subscribed (rule 2.9).
            known = topics_in_force(group)
            subscribed = names if known is None else names & known
        case _:
            subscribed = frozenset()
    step.answer(
        event.token,
        OffsetDeleteReply(subscribed=subscribed, group_exists=step.state.group is not None),
    )


def delete_group(step: StepBuilder, event: DeleteGroupReceived) -> None:
    """Delete an empty group. Raises GroupError NON_EMPTY_GROUP."""
    group = step.state.group
    if group is not None and group.members:
        raise GroupError(ErrorCode.NON_EMPTY_GROUP, f"the group has {len(group.members)} members")
    match group:
        case ClassicGroup():
            remove_classic_group(step)
        case ConsumerGroup():
            remove_empty_consumer_group(step)
        case None:
            pass
    step.answer(event.token, DeleteGroupReply())


def _check_simple_commit(event: OffsetCommitReceived) -> None:
    """Without a group, only commits without a generation are accepted (rule 2.9)."""
    if event.epoch < 0:
        return
    if event.knows_member_epochs:
        raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, "the group does not exist")
    raise GroupError(ErrorCode.ILLEGAL_GENERATION, "the group does not exist")


def _check_no_stray_commit(step: StepBuilder, partitions: frozenset[Partition] | None) -> None:
    """Raises GroupError COORDINATOR_LOAD_IN_PROGRESS while the cluster may still store a stray
    commit of these partitions: its answer was lost, or its member has joined again, or is gone and
    another one (such as a static member's new incarnation) has the partitions, or it named no
    member and the group now has members."""
    if partitions is not None and not any(map(step.state.committing.__contains__, partitions)):
        return
    group = step.state.group
    committers = (group.members if group is not None else ()) or (NO_MEMBER,)
    for in_flight in step.state.commits.values():
        is_stray = (
            in_flight.answer_lost or in_flight.has_rejoined or in_flight.member_id not in committers
        )
        if is_stray and (partitions is None or not partitions.isdisjoint(in_flight.partitions)):
            raise GroupError(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                "the cluster may still store an earlier commit of these partitions",
            )
