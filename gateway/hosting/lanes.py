"""What an adoption has asked the group's coordinator, and has no answer to."""

from collections import deque

from gateway.hosting.adoption_steps import Ask, Lane
from kafka_codecs.declaration import Struct


class Lanes:
    """The requests under way on each lane, answered in this order."""

    def __init__(self) -> None:
        self._asked: dict[Lane, deque[Struct]] = {}

    def __contains__(self, lane: Lane) -> bool:
        """Whether a request is under way."""
        return lane in self._asked

    def count(self, lane: Lane) -> int:
        """How many are under way."""
        return len(self._asked.get(lane, ()))

    def ask(self, lane: Lane, message: Struct) -> Ask:
        """Note a request that has to be sent."""
        self._asked.setdefault(lane, deque()).append(message)
        return Ask(lane, message)

    def take(self, lane: Lane) -> Struct:
        """The oldest request, which has ended."""
        message = self._asked[lane].popleft()
        if not self._asked[lane]:
            del self._asked[lane]
        return message
