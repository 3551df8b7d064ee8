"""What is wrong with a target that was computed outside the engine (rule 9.6)."""

from uuid import UUID

from coordinator.assignors.group_spec import NOTHING, Target
from coordinator.interface.topics import Partition, Topics
from coordinator.interface.volatile_records import Computation


def flaw_in(changed: Target, computation: Computation, topics: Topics) -> str:
    """Why the target cannot be installed, for people; empty if it can.

    Every partition of a subscribed topic must have exactly one owner, which subscribes to that
    topic. What counts is the group from which the target was computed.
    """
    strangers = sorted(changed.keys() - computation.members.keys())
    if strangers:
        return f"{strangers[0]!r} is not a member of the group"
    owners: dict[Partition, str] = {}
    for member_id, member in computation.members.items():
        for partition in changed.get(member_id, computation.target.get(member_id, NOTHING)):
            topic_id, number = partition
            if topic_id not in member.topic_ids:
                return f"{member_id!r} does not subscribe to the topic {_name(topic_id, topics)}"
            if not 0 <= number < computation.partition_counts[topic_id]:
                return f"there is no partition {_name(topic_id, topics)}-{number}"
            other_id = owners.setdefault(partition, member_id)
            if other_id != member_id:
                which = f"{_name(topic_id, topics)}-{number}"
                return f"the partition {which} went to both {other_id!r} and {member_id!r}"
    if len(owners) == sum(computation.partition_counts.values()):
        return ""
    return f"the partition {_first_missing(owners, computation, topics)} was assigned to no member"


def _first_missing(owners: dict[Partition, str], computation: Computation, topics: Topics) -> str:
    return next(
        f"{_name(topic_id, topics)}-{number}"
        for topic_id, count in computation.partition_counts.items()
        for number in range(count)
        if Partition(topic_id, number) not in owners
    )


def _name(topic_id: UUID, topics: Topics) -> str:
    """The name of a topic, or the id if it was deleted meanwhile or never existed."""
    topic = topics.by_id.get(topic_id)
    return str(topic_id) if topic is None else topic.name
