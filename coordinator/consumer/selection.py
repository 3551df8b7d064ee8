"""Which assignor a group uses, and which member runs one of its own (rules 3.6, 9.7)."""

from coordinator.assignors import ASSIGNORS
from coordinator.group.client_assignors import (
    can_run,
    offer_for,
    offers_of,
    overlap,
    select_assignor,
    versions_in_use,
)
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.config import GroupConfig
from coordinator.interface.errors import GroupError
from coordinator.interface.events import STATIC_LEAVE_EPOCH
from coordinator.interface.records import Member
from coordinator.interface.volatile_records import ChosenMember, ComputationFailed, MemberChosen
from kafka_codecs.error_codes import ErrorCode

METADATA_BYTES_MAX = 16 * 1024 * 1024
"""The limit for the metadata of all members together, which the chosen member gets in one answer.
A larger group uses a server-side assignor."""
OFFERS_MAX = 100
"""The limit for the different lists of assignors in a group, because each selection looks at all.
Beyond, the group uses a server-side assignor."""
COMPUTATION_MS_MAX = 300_000
"""The longest rebalance timeout that counts for a computation, Java's default. A consumer may state
24 days, and the whole group would wait for it."""


def preferred_assignor(group: ConsumerGroup, config: GroupConfig) -> str:
    """The group's assignor: a client-side one if possible, otherwise a server-side one."""
    client_side = client_side_assignor(group, config)
    return server_side_assignor(group, config) if client_side is None else client_side


def server_side_assignor(group: ConsumerGroup, config: GroupConfig) -> str:
    """The server-side assignor that most members request; by default the first configured one, also
    in place of a plug-in that was removed since."""
    votes = group.assignor_votes
    if votes:
        preferred = max(sorted(votes), key=votes.__getitem__)
        if preferred in ASSIGNORS or preferred in config.consumer_assignors:
            return preferred
    return config.consumer_assignors[0]


def client_side_assignor(group: ConsumerGroup, config: GroupConfig) -> str | None:
    """The client-side assignor of the group; None if it uses a server-side one."""
    if not config.client_side_assignors:
        return None
    if group.metadata_bytes > METADATA_BYTES_MAX or len(group.offers) > OFFERS_MAX:
        return None
    return select_assignor(group.offers)


def check_versions(step: StepBuilder, before: Member | None, after: Member) -> None:
    """Raises GroupError UNSUPPORTED_ASSIGNOR if no other member handles a version that the member
    handles."""
    if before is not None and offers_of(before) == offers_of(after):
        return
    if not after.client_assignors or not isinstance(step.state.group, ConsumerGroup):
        return
    if len(step.consumer.offers) > OFFERS_MAX:  # the group uses a server-side assignor
        return
    counts = step.consumer.offers.fork()
    if after.member_id in step.consumer.members:
        counts.remove([offers_of(step.consumer.members[after.member_id])])
    if not overlap(offers_of(after), counts):
        raise GroupError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            "no other member handles the versions that the member does, of any assignor",
        )


def choose(step: StepBuilder, member: Member) -> None:
    """Choose the member that sends this heartbeat to compute the target, if it can. A member that
    failed is chosen again once all other members that can compute have failed, too."""
    group = step.consumer
    assignor = client_side_assignor(group, step.config)
    in_use = versions_in_use(group.offers)
    if assignor is None or not can_run(offers_of(member), assignor, in_use):
        return
    if member.member_id in group.tried:
        able = {o: n for o, n in group.offers.items() if can_run(o, assignor, in_use)}
        failed = [id_ for id_ in group.tried if offers_of(group.members[id_]) in able]
        if len(failed) < sum(able.values()) or failed[0] != member.member_id:
            return
    until_ms = step.now_ms + min(member.rebalance_timeout_ms, COMPUTATION_MS_MAX)
    step.emit(MemberChosen(ChosenMember(member.member_id, until_ms)))


def drop_lost_member(step: StepBuilder, chosen: ChosenMember) -> None:
    """Let another member compute the target, or the group itself, if the chosen one is too late,
    has gone or cannot do it any more. It is not fenced."""
    group = step.consumer
    if step.now_ms >= chosen.until_ms:
        step.emit(
            ComputationFailed(
                epoch=group.epoch,
                assignor=preferred_assignor(group, step.config),
                reason=f"{chosen.member_id!r} did not install a target in time",
                retry_at_ms=step.now_ms,
            )
        )
    elif not _can_go_on(step, chosen.member_id):
        step.emit(MemberChosen(None))


def _can_go_on(step: StepBuilder, member_id: str) -> bool:
    """Whether the chosen member can still deliver the target. A computation under way counts even
    if the group has changed since, unless the group now uses a server-side assignor."""
    group = step.consumer
    member, current = group.members.get(member_id), group.assignments.get(member_id)
    assignor = client_side_assignor(group, step.config)
    # One that left and joins again in this step has no assignment yet, and has not been told.
    if member is None or current is None or assignor is None:
        return False
    if current.member_epoch == STATIC_LEAVE_EPOCH:
        return False
    offers = offers_of(member)
    if group.computation is None:
        return can_run(offers, assignor, versions_in_use(group.offers))
    offer = offer_for(group.computation.assignor, offers)
    return offer is not None and offer.is_native
