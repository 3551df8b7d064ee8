"""JoinGroup on a consumer group: admits a classic member and reconciles it (rules 5.2 to 5.5).

There is no barrier and no leader: the answer does not wait for other members.
"""

from collections.abc import Mapping

from coordinator.classic.protocols import is_acceptable
from coordinator.consumer.admission import check_instance, check_room, is_away
from coordinator.consumer.member_ids import member_id_from
from coordinator.consumer.member_slots import returns_in_person
from coordinator.consumer.phases import PhaseEvent, move_phase
from coordinator.consumer.reconcile import reconcile_member
from coordinator.consumer.removal import replace_member
from coordinator.consumer.selection import client_side_assignor
from coordinator.consumer.subscription import has_changed, put_member
from coordinator.consumer.target import update_target
from coordinator.consumer.temporary_assignments import take_slot
from coordinator.conversion.downgrade import downgrade_by_replacement, may_downgrade_without
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.embedded_protocol import owned_partitions, read_subscription, user_data_in
from coordinator.group.rolls import record_join
from coordinator.group.step_builder import StepBuilder
from coordinator.group.stray_commits import doubt_commits
from coordinator.interface.config import MigrationPolicy
from coordinator.interface.errors import GroupError
from coordinator.interface.events import JoinGroupReceived
from coordinator.interface.records import ClassicMetadata, EpochCause, Member
from coordinator.interface.replies import JoinGroupReply
from coordinator.interface.topics import Partition, Topics
from coordinator.interface.volatile_records import DeadlineKind, MemberPhase
from kafka_codecs.consumer_protocol import CONSUMER_PROTOCOL_TYPE, NO_GENERATION, Subscription
from kafka_codecs.error_codes import ErrorCode


def join(step: StepBuilder, event: JoinGroupReceived) -> None:
    """Decide a JoinGroup; the caller knows that the consumer group has members."""
    _check(step, event)
    if event.asks_for_id:
        # The id is not stored, so an abandoned one is free (rule 5.3).
        step.answer(
            event.token,
            JoinGroupReply(
                error=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id_from(event.fresh_id)
            ),
        )
        return
    _name, metadata = event.protocols[0]
    _version, subscription = read_subscription(
        metadata, refuse_with=ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    )
    _check_owns_nothing_if_unknown(step, event, subscription)
    _join(step, event, subscription)


def _check(step: StepBuilder, event: JoinGroupReceived) -> None:
    """The checks of rule 5.2 rows 4 to 6, 8 and 9."""
    group, config = step.consumer, step.config
    if (
        config.consumer_migration_policy is MigrationPolicy.DISABLED
        and group.has_native_members
        and not _is_classic_already(group, event)
    ):
        raise GroupError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            "the migration policy disabled keeps new classic members out of a consumer group that"
            " has native ones",
        )
    check_room(step, group, event.member_id, event.instance_id)
    classic_count = len(group.members) - group.native_count
    is_acceptable_list = is_acceptable(event.protocols, group.classic_offers, classic_count)
    if event.protocol_type != CONSUMER_PROTOCOL_TYPE or not is_acceptable_list:
        raise GroupError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            "the protocol type is not 'consumer', no protocol is common to all classic members, or"
            " one is listed twice",
        )
    if event.member_id and event.instance_id is not None:
        check_instance(group, event.instance_id, event.member_id)


def _is_classic_already(group: ConsumerGroup, event: JoinGroupReceived) -> bool:
    """DEV D60: whether the sender is already a classic member, which the policy `disabled` admits.

    The member may have joined under another policy. The group itself asks it to rejoin, and a
    refusal would end its client. A restarted static member is no new member either. Kafka refuses
    all of them, even if all members are classic and nothing is mixed.
    """
    member_id = event.member_id
    if not member_id and event.instance_id is not None:
        member_id = group.instances.get(event.instance_id, "")
    member = group.members.get(member_id)
    return member is not None and member.is_classic


def _check_owns_nothing_if_unknown(
    step: StepBuilder, event: JoinGroupReceived, subscription: Subscription
) -> None:
    """DEV D16: a member with an unknown id may join, but may not keep partitions.

    It was fenced and does not know. In Kafka it becomes a new member that uses its old partitions
    until SyncGroup, and whose last commits for them pass even if they have another owner. With
    UNKNOWN_MEMBER_ID it gives them up as lost.
    """
    is_known = not event.member_id or event.member_id in step.consumer.members
    if not is_known and subscription.owned_partitions:
        raise GroupError(
            ErrorCode.UNKNOWN_MEMBER_ID,
            f"{event.member_id!r} is not a member of the group and owns nothing here",
        )


def _join(step: StepBuilder, event: JoinGroupReceived, subscription: Subscription) -> None:
    group = step.consumer
    epoch_before = group.epoch
    member_id = event.member_id or member_id_from(event.fresh_id)
    if step.state.commits:
        doubt_commits(step, member_id)
    takes_over_native = _take_over(step, event, member_id)
    if is_away(group, member_id):
        # DEV D26: like a returning native member (rule 3.3). In Kafka the answer may have
        # generation -2.
        replace_member(step, member_id, member_id)
    before = group.members.get(member_id)
    state = step.state
    may_be_back = bool(state.member_slots or state.departed)
    is_back = may_be_back and returns_in_person(step, member_id, event)
    if state.member_slots and before is None and event.instance_id is None and not is_back:
        before = take_slot(step, member_id, event)
        gives_back = group.epoch > epoch_before
        takes_over_native = before is not None and not before.is_classic and not gives_back
    record_join(step, event, before)
    after = _describe_member(event, member_id, subscription, before)
    why_else = EpochCause.REBALANCE_INTERRUPTED if is_back else None
    if before is not None and _has_new_metadata(step, before, after):
        why_else = why_else or EpochCause.ASSIGNOR_CHANGED
    put_member(step, before, after, why_else=why_else)
    held = group.assignments[member_id].held_partitions if member_id in group.assignments else {}
    owned = owned_by_sender(subscription, held, step.topics)
    subscription_changed = has_changed(before, after)
    if takes_over_native and may_downgrade_without(step, ()):
        reconcile_member(step, after, owned, subscription_changed=subscription_changed)
        downgrade_by_replacement(step, event, member_id, generation=epoch_before)
        return
    update_target(step, rejoining=member_id)
    reconcile_member(step, after, owned, subscription_changed=subscription_changed)
    move_phase(step, member_id, PhaseEvent.JOINED)
    step.arm(DeadlineKind.SESSION, member_id, event.session_timeout_ms)
    step.answer(
        event.token,
        JoinGroupReply(
            member_id=member_id,
            generation=group.assignments[member_id].member_epoch,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol_name=event.protocols[0][0],
        ),
    )


def owned_by_sender(
    subscription: Subscription, held: Mapping[Partition, int], topics: Topics
) -> frozenset[Partition]:
    """DEV D5: the partitions that count as owned by the sender of a JoinGroup. `held` has the
    partitions that the group granted it, assigned or pending revocation, with their assignment
    epochs.

    A classic member gives up a partition by omitting it from its list, and Kafka believes every
    list. But a delayed or repeated JoinGroup lists what the client owned earlier. Here a list
    proves something only about partitions granted up to the list's generation. Partitions granted
    later count as owned, and the member is asked again. An eager client that revoked everything
    states its generation and an empty list, which proves exactly that.

    A subscription without a generation is believed, as in Kafka. It comes from an older client (v0,
    v1), from a client that starts, or from librdkafka's eager assignors, which always send -1.
    """
    stated = owned_partitions(subscription.owned_partitions, topics)
    if subscription.generation_id <= NO_GENERATION:
        return stated
    granted_later = {p for p, epoch in held.items() if epoch > subscription.generation_id}
    return stated | granted_later


def _has_new_metadata(step: StepBuilder, before: Member, after: Member) -> bool:
    """Whether the member rejoins in order to say something new to a client-side assignor (rule
    9.7). If it was told to rejoin, it says what has become of the last target, and a new one for
    that would make it rejoin for ever."""
    group, member_id = step.consumer, after.member_id
    if before.classic is None or after.classic is None:
        return False
    if group.phases.get(member_id) is not MemberPhase.STABLE or not group.is_settled(member_id):
        return False
    assignor = client_side_assignor(group, step.config)
    if assignor is None:
        return False
    was, now = (
        user_data_in(dict(classic.protocols).get(assignor, b""))
        for classic in (before.classic, after.classic)
    )
    return was != now


def _take_over(step: StepBuilder, event: JoinGroupReceived, member_id: str) -> bool:
    """Replace the holder of the instance id, live or not, if the client has no member id (rule
    5.3). True if the holder was a native member."""
    group = step.consumer
    if event.instance_id is None or event.instance_id not in group.instances:
        return False
    holder_id = group.instances[event.instance_id]
    was_native = not group.members[holder_id].is_classic
    if not event.member_id:
        replace_member(step, holder_id, member_id)
    return was_native


def _describe_member(
    event: JoinGroupReceived, member_id: str, subscription: Subscription, before: Member | None
) -> Member:
    """The member after this JoinGroup (rule 5.4). A classic member has no regular expression
    (KAFKA-19720)."""
    instance_id = event.instance_id
    if instance_id is None and before is not None:
        instance_id = before.instance_id
    return Member(
        member_id=member_id,
        instance_id=instance_id,
        rack_id=subscription.rack_id or (before.rack_id if before else None),
        client_id=event.client_id,
        client_host=event.client_host,
        rebalance_timeout_ms=event.rebalance_timeout_ms,
        topic_names=tuple(sorted(set(subscription.topics))),
        server_assignor=before.server_assignor if before else None,
        classic=ClassicMetadata(
            session_timeout_ms=event.session_timeout_ms, protocols=event.protocols
        ),
    )
