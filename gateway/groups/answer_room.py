"""How long an answer about many groups may become: decided before it is built.

Must not know what the answer says.
"""

from gateway.data_path.entries import bytes_of
from kafka_codecs.declaration import Struct

ANSWER_BYTES_MAX = 64 * 1024 * 1024
"""What one answer may say of hosted groups, as much as we take from a broker."""

TOO_LONG = f"the answer would be longer than {ANSWER_BYTES_MAX} bytes: ask about fewer groups"


class AnswerRoom:
    """What is left of one answer."""

    def __init__(self) -> None:
        self._left = ANSWER_BYTES_MAX

    @property
    def is_full(self) -> bool:
        """Whether something did not fit; then nothing does that comes after it."""
        return self._left < 0

    def takes(self, part: Struct) -> bool:
        """Whether this part of the answer fits as well."""
        self._left -= bytes_of(part, self._left)
        return not self.is_full
