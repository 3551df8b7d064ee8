"""Commits in flight whose sender is perhaps no longer their member's present process."""

from dataclasses import replace

from coordinator.group.step_builder import StepBuilder
from coordinator.interface.volatile_records import CommitStarted


def doubt_commits(step: StepBuilder, member_id: str) -> None:
    """DEV D34: make the commits in flight of a member that joins stray.

    A new process may come back with the id of one that crashed. It would otherwise fetch what its
    predecessor's commit changes a moment later, and then take that commit back.
    """
    for commit, in_flight in [*step.state.commits.items()]:
        if in_flight.member_id == member_id and not in_flight.has_rejoined:
            step.emit(CommitStarted(commit, replace(in_flight, has_rejoined=True)))
