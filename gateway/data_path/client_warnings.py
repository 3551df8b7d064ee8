"""Logs misbehaviour of clients, and counts it for the metrics.

A client that sends garbage cannot fill the log: `gateway.repeated_lines` limits all lines.
"""

from collections import Counter

import structlog

log = structlog.get_logger()


class ClientWarnings:
    """Call `warn` at each occurrence."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """All occurrences by kind."""

    def warn(self, event: str, client_host: str, **fields: object) -> None:
        """Log the occurrence."""
        self.counts[event] += 1
        log.warning(event, client_host=client_host, **fields)
