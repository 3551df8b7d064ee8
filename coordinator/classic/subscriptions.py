"""What the members of a classic group subscribe to and own, and watching topics for the leader.

Normally the leader watches the topics. DEV D11: after a downgrade without a rebalance the leader
does not know that it leads, and neither does a static leader that restarts with JoinGroup v8 or
older. A grown topic would stay unnoticed until the next rebalance. The group therefore checks its
topics at heartbeats until a join phase elects a leader that knows.
"""

from dataclasses import replace

from coordinator.group.classic_group import ClassicGroup
from coordinator.group.embedded_protocol import owned_partitions, read_assignment
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.errors import GroupError
from coordinator.interface.records import COOPERATIVE_STICKY, ClassicGroupMember
from coordinator.interface.volatile_records import ClassicCoreMoved
from kafka_codecs import WireError
from kafka_codecs.consumer_protocol import CONSUMER_PROTOCOL_TYPE, decode_subscription


def subscribed_topics(group: ClassicGroup) -> frozenset[str] | None:
    """The topics in the members' subscriptions for the selected protocol. None if unknown: no
    protocol is selected, the type is not `consumer`, or bytes are unreadable (rule 2.9)."""
    if group.core.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return None
    names: set[str] = set()
    for member in group.members.values():
        topics = _topics_of(member, group)
        if topics is None:
            return None
        names |= topics
    return frozenset(names)


def subscribes_alike(
    group: ClassicGroup, before: ClassicGroupMember, after: ClassicGroupMember
) -> bool:
    """Whether a member subscribes to the same topics as before, as far as that is known."""
    if group.core.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return True
    wanted = _topics_of(before, group), _topics_of(after, group)
    return None in wanted or wanted[0] == wanted[1]


def has_to_rejoin(step: StepBuilder, member: ClassicGroupMember) -> bool:
    """Whether the present generation makes a cooperative member give up partitions. It rejoins once
    it has done so, and only then another member can get them (KIP-429)."""
    group = step.classic
    if group.core.protocol != COOPERATIVE_STICKY:
        return False
    try:
        _version, subscription = decode_subscription(member.metadata_for(group.core.protocol))
        assigned = read_assignment(member.assignment).assigned_partitions
    except (WireError, GroupError):
        return False
    owned = owned_partitions(subscription.owned_partitions, step.topics)
    return not owned <= owned_partitions(assigned, step.topics)


def _topics_of(member: ClassicGroupMember, group: ClassicGroup) -> frozenset[str] | None:
    try:
        _version, subscription = decode_subscription(member.metadata_for(group.core.protocol))
    except WireError:
        return None
    return frozenset(subscription.topics)


def topics_in_force(group: ClassicGroup) -> frozenset[str] | None:
    """The topics of the current generation; new subscriptions count from the next one on. For a
    group that was just loaded or downgraded, the topics of its members."""
    return subscribed_topics(group) if group.core.topics is None else group.core.topics


def have_topics_changed(step: StepBuilder) -> bool:
    """Whether a topic changed since this generation began, as far as that is known. A leader that
    was away has missed the change."""
    core = step.classic.core
    if core.topics is None or core.topics_hash is None:
        return False
    return step.topics.metadata_hash(core.topics) != core.topics_hash


def watch_topics(step: StepBuilder) -> None:
    """Start watching for changes, compared with the present topics."""
    group = step.classic
    topics_hash = step.topics.metadata_hash(subscribed_topics(group) or ())
    step.emit(ClassicCoreMoved(replace(group.core, unwatched_hash=topics_hash)))


def notice_unwatched_change(step: StepBuilder) -> bool:
    """Whether a topic changed that no leader watches. Checks once per version of the topic
    image."""
    group = step.classic
    core = group.core
    if core.unwatched_hash is None or core.topics_checked == step.topics.version:
        return False
    step.emit(ClassicCoreMoved(replace(core, topics_checked=step.topics.version)))
    names = subscribed_topics(group) or frozenset()
    return step.topics.metadata_hash(names) != core.unwatched_hash
