"""What clients do wrong, in the log: a line at once, then one per interval with how many more.

Kept per kind and address, for a limited number of them, so that whoever sends garbage can fill
neither the log nor the memory.
"""

from dataclasses import dataclass, field
from typing import Any

import structlog
import trio

log = structlog.get_logger()

INTERVAL_S = 60.0
"""How often the same is said of the same address."""
KINDS_MAX = 1_000
"""Kinds and addresses that are told apart; beyond that, what is new counts as everybody's."""

EVERYBODY = "(others)"


@dataclass(slots=True)
class _Said:
    at_s: float
    more: int = 0
    fields: dict[str, Any] = field(default_factory=dict)


class Complaints:
    """`tell` at each occasion, `sum_up` now and then."""

    def __init__(self) -> None:
        self._said: dict[tuple[str, str], _Said] = {}

    def tell(self, event: str, client_host: str, **fields: object) -> None:
        """Say it, or count it if the same was said of the address not long ago."""
        if (event, client_host) not in self._said and len(self._said) >= KINDS_MAX:
            client_host = EVERYBODY
        said = self._said.get((event, client_host))
        if said is not None and trio.current_time() - said.at_s < INTERVAL_S:
            said.more += 1
            said.fields = fields
            return
        more = {"more": said.more} if said is not None and said.more else {}
        self._said[event, client_host] = _Said(trio.current_time())
        log.warning(event, client_host=client_host, **fields, **more)

    def sum_up(self) -> None:
        """Say how often it happened since, and forget what has ended."""
        now_s = trio.current_time()
        for (event, client_host), said in tuple(self._said.items()):
            if now_s - said.at_s < INTERVAL_S:
                continue
            del self._said[event, client_host]
            if said.more:
                self._said[event, client_host] = _Said(now_s)
                log.warning(event, client_host=client_host, **said.fields, more=said.more)
