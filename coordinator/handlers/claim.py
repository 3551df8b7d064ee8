"""Whether the group is served here until an operator releases it, or only because of a setting.

Every group in the log counts as adopted unless a record says that a setting alone has it served
here. So what an earlier version has stored is adopted. DEV D70: in Kafka a group has one
coordinator.
"""

from coordinator.group.step_builder import StepBuilder
from coordinator.interface.errors import GroupError
from coordinator.interface.events import AdoptionEnded, ClaimReceived, Event
from coordinator.interface.records import (
    ClassicGroupMetadata,
    ClassicGroupValue,
    ReleaseRecord,
    ServedBySetting,
)
from coordinator.interface.replies import ClaimReply
from kafka_codecs.error_codes import ErrorCode

_EMPTY = ClassicGroupValue(protocol_type=None, generation=0, protocol=None, leader=None)


def claim(step: StepBuilder, event: ClaimReceived) -> None:
    """Keep the group here from now on. If it does not exist, it is stored as an empty one.

    Raises GroupError COORDINATOR_LOAD_IN_PROGRESS while the group moves to or from another
    coordinator.
    """
    state = step.state
    if state.is_leaving or state.adoption is not None:
        raise GroupError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "it changes its coordinator")
    if state.group is None:
        step.emit(ClassicGroupMetadata(value=_EMPTY))
    if state.release is not None:
        step.emit(ReleaseRecord(value=None))
    if state.is_served_by_setting:
        step.emit(ServedBySetting(is_so=False))
    step.answer(event.token, ClaimReply())


def follow_group(step: StepBuilder, event: Event) -> None:
    """At the end of a step that has made the group or deleted it: store whether a setting alone has
    it served here."""
    state = step.state
    if state.group is None:
        if state.is_served_by_setting:
            step.emit(ServedBySetting(is_so=False))
    elif step.config.is_served_by_setting and not isinstance(event, ClaimReceived | AdoptionEnded):
        step.emit(ServedBySetting(is_so=True))
