"""Bugs in what a statement proves that comes late (DEV D90).

`test_late_statements.py` has a scene for each: random runs need thousands of seeds to find them.
"""

from dataclasses import replace

from coordinator.interface.events import ConsumerHeartbeatReceived
from coordinator.interface.volatile_records import Grant
from coordinator.native import statements
from tests.simulation.invariants import Invariant
from tests.simulation.planted_bugs.bug import Patch, noticed_by


@noticed_by(Invariant.GRANTED, Invariant.SINGLE_OWNER)
def a_second_late_statement_counts(patch: Patch) -> None:
    """The second of two native heartbeats counts on whichever connection it comes."""
    real = statements._has_heard

    def has_heard(grant: Grant | None, event: ConsumerHeartbeatReceived) -> bool:
        is_second = grant is not None and grant.is_doubted and event.follows_answers
        return is_second or real(grant, event)

    patch.setattr(statements, "_has_heard", has_heard)


@noticed_by(Invariant.GRANTED, Invariant.SINGLE_OWNER)
def a_connection_is_new_if_its_member_has_not_used_it(patch: Patch) -> None:
    """A second statement counts on a connection that is newer than those with an answer."""
    real = statements._has_heard

    def has_heard(grant: Grant | None, event: ConsumerHeartbeatReceived) -> bool:
        return real(grant and replace(grant, newest_connection=grant.connection), event)

    patch.setattr(statements, "_has_heard", has_heard)
