"""Logs misbehaviour of clients: the first occurrence at once, later ones as a count per interval.

Occurrences are counted per kind and address, for a limited number of them. A client that sends
garbage can therefore fill neither the log nor the memory.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import structlog
import trio

log = structlog.get_logger()

INTERVAL_S = 60.0
"""The interval between two lines of one kind about one address."""
KINDS_MAX = 1_000
"""Pairs of kind and address counted apart. Beyond that, new addresses are counted together."""

OTHER_CLIENTS = "(others)"


@dataclass(slots=True)
class _Occurrences:
    at_s: float
    more: int = 0
    fields: dict[str, Any] = field(default_factory=dict)


class Complaints:
    """Call `tell` at each occurrence, and `sum_up` regularly."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """All occurrences by kind."""
        self._said: dict[tuple[str, str], _Occurrences] = {}

    def tell(self, event: str, client_host: str, **fields: object) -> None:
        """Log the occurrence, or count it if the last line is too recent."""
        self.counts[event] += 1
        if (event, client_host) not in self._said and len(self._said) >= KINDS_MAX:
            client_host = OTHER_CLIENTS
        said = self._said.get((event, client_host))
        if said is not None and trio.current_time() - said.at_s < INTERVAL_S:
            said.more += 1
            said.fields = fields
            return
        more = {"more": said.more} if said is not None and said.more else {}
        self._said[event, client_host] = _Occurrences(trio.current_time())
        log.warning(event, client_host=client_host, **fields, **more)

    def sum_up(self) -> None:
        """Log the counts of finished intervals, and forget those without occurrences."""
        now_s = trio.current_time()
        for (event, client_host), said in tuple(self._said.items()):
            if now_s - said.at_s < INTERVAL_S:
                continue
            del self._said[event, client_host]
            if said.more:
                self._said[event, client_host] = _Occurrences(now_s)
                log.warning(event, client_host=client_host, **said.fields, more=said.more)
