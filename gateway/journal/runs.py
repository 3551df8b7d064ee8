"""The runs of a state log: which process had started before this one.

A reader of events needs to know that, because a process without a line about any group leaves no
gap in the sequences of groups.
"""

import structlog

from gateway.state_log.last_events import GATEWAY_RECORD, LastEvents
from gateway.state_log.log import StateLog, StateLogError

log = structlog.get_logger()


async def record_run(state_log: StateLog, at_ms: int) -> int | None:
    """Store that this run has started. Returns the run that had started before; None if there was
    none, or if the log does not answer."""
    try:
        before = state_log.last_events(GATEWAY_RECORD)
        started = LastEvents(sequence=state_log.run_id, lines=(), at_ms=at_ms)
        await state_log.append(GATEWAY_RECORD, (started,))
    except StateLogError as error:
        log.warning("run_not_recorded", reason=str(error))
        return None
    return None if before is None else before.sequence
