"""Bounds an answer about many groups before it is built."""

from collections.abc import Callable

from gateway.data_path.entries import bytes_of
from gateway.data_path.errors import TooMuchHeld
from gateway.data_path.held_requests import COUNTED_FROM_BYTES
from gateway.hosting.answers import GroupApi, RefusalReason, code_for
from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import ErrorCode

ANSWER_BYTES_MAX = 64 * 1024 * 1024
"""The part of one answer that is about hosted groups; the same limit as for a broker's answer."""
MEMORY_PER_BYTE = 4
"""What a byte of an answer takes until it is sent: its parts, their encoding and the frame."""

TOO_LONG = f"the answer would be longer than {ANSWER_BYTES_MAX} bytes: ask about fewer groups"

Refusal = tuple[ErrorCode, str]
"""The code and the reason for the groups that are left out."""


class AnswerBudget:
    """The bytes left in one answer. From a certain length on they count towards the client's share
    of what all long requests and answers take together."""

    def __init__(self, hold: Callable[[int], None]) -> None:
        """`hold` counts this many bytes of memory until the client has its answer. May raise
        TooMuchHeld."""
        self._left = ANSWER_BYTES_MAX
        self._uncounted = 0
        self._hold = hold
        self.refusal: Refusal | None = None
        """Why a part did not fit, if so. No later part fits either."""

    def take(self, part: Struct) -> None:
        """Count a part of the answer, which fits unless there is a `refusal` then."""
        count_bytes = bytes_of(part, self._left)
        self._left -= count_bytes
        self._uncounted += count_bytes
        if self._left < 0:
            self.refusal = ErrorCode.UNKNOWN_SERVER_ERROR, TOO_LONG
        elif self._uncounted >= COUNTED_FROM_BYTES:
            try:
                self._hold(MEMORY_PER_BYTE * self._uncounted)
                self._uncounted = 0
            except TooMuchHeld as error:
                self.refusal = (
                    code_for(RefusalReason.LOADING, GroupApi.ADMIN),
                    f"{error}: ask again",
                )
