"""Has a target computed by a member of the group (KIP-848, "Client Side Mode")."""

from coordinator.group.step_builder import StepBuilder
from coordinator.interface.errors import GroupError
from coordinator.interface.events import InstallAssignmentReceived, PrepareAssignmentReceived
from kafka_codecs.error_codes import ErrorCode


def prepare(_step: StepBuilder, event: PrepareAssignmentReceived) -> None:
    """Answer with the group as it is now. Raises GroupError UNKNOWN_MEMBER_ID."""
    _refuse(event)


def install(_step: StepBuilder, event: InstallAssignmentReceived) -> None:
    """Install the target that the chosen member computed. Raises GroupError UNKNOWN_MEMBER_ID."""
    _refuse(event)


def _refuse(event: PrepareAssignmentReceived | InstallAssignmentReceived) -> None:
    why = f"{event.member_id!r} was not chosen to compute the target"
    raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID, why)
