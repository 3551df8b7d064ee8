"""Bounds an answer about many groups before it is built."""

from gateway.data_path.entries import bytes_of
from kafka_codecs.declaration import Struct

ANSWER_BYTES_MAX = 64 * 1024 * 1024
"""The part of one answer that is about hosted groups; the same limit as for a broker's answer."""

TOO_LONG = f"the answer would be longer than {ANSWER_BYTES_MAX} bytes: ask about fewer groups"


class AnswerRoom:
    """The bytes left in one answer."""

    def __init__(self) -> None:
        self._left = ANSWER_BYTES_MAX

    @property
    def is_full(self) -> bool:
        """Whether a part did not fit. No later part fits either."""
        return self._left < 0

    def takes(self, part: Struct) -> bool:
        """Count a part of the answer. Returns whether it still fits."""
        self._left -= bytes_of(part, self._left)
        return not self.is_full
