"""Bugs in how members compute targets and install them."""

from dataclasses import replace

from coordinator.consumer import client_side, selection
from coordinator.group.client_assignors import offer_for
from coordinator.group.consumer_group import ConsumerGroup, ConsumerRecord
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.records import Member, TargetAssignmentMetadata
from tests.simulation.invariants import Invariant
from tests.simulation.planted_bugs.bug import Patch, noticed_by

CHOSEN = client_side._chosen


@noticed_by(Invariant.COMPUTED)
def a_target_is_installed_twice(patch: Patch) -> None:
    """After an installation the member is still the chosen one."""
    applied = ConsumerGroup.apply

    def apply(group: ConsumerGroup, record: ConsumerRecord) -> None:
        chosen, computation = group.chosen, group.computation
        applied(group, record)
        if isinstance(record, TargetAssignmentMetadata) and chosen is not None:
            group.chosen, group.computation = chosen, computation

    patch.setattr(ConsumerGroup, "apply", apply)


@noticed_by(Invariant.COMPUTED)
def a_stale_epoch_may_compute(patch: Patch) -> None:
    """Nobody compares the member epoch of the member that computes the target."""

    def chosen(step: StepBuilder, event: client_side.Call) -> Member:
        group = step.state.group
        current = getattr(group, "assignments", {}).get(event.member_id)
        if current is not None and current.member_epoch >= 0:
            event = replace(event, member_epoch=current.member_epoch)
        return CHOSEN(step, event)

    patch.setattr(client_side, "_chosen", chosen)


@noticed_by(Invariant.COMPUTED)
def any_member_may_install(patch: Patch) -> None:
    """Any client that names the right epochs installs a target."""

    def chosen(step: StepBuilder, event: client_side.Call) -> Member:
        group = step.state.group
        current = getattr(group, "assignments", {}).get(event.member_id)
        if current is None or current.member_epoch != event.member_epoch:
            return CHOSEN(step, event)
        return step.consumer.members[event.member_id]

    patch.setattr(client_side, "_chosen", chosen)


@noticed_by(Invariant.COMPUTED)
def versions_are_ignored(patch: Patch) -> None:
    """A member is chosen although it does not handle the versions of all."""
    patch.setattr(
        selection, "can_run", lambda offers, assignor, _in_use: offer_for(assignor, offers)
    )
