"""The process's limit on open files, and how many connections fit into it."""

import resource

import structlog

log = structlog.get_logger()

CONNECTIONS_MAX = 100_000
"""The most connections unless the operator asks for more. Idle ones take about a gigabyte."""
FILES_PER_CONNECTION = 2
"""The client's socket and the upstream socket."""
FILES_BESIDES = 256
"""Other files: listeners, pipes, the gateway's connections to the cluster, and Python's own."""


def connections_within(wanted: int | None) -> int:
    """The number of connections that the process may have: `wanted`, by default CONNECTIONS_MAX, or
    what the limit on open files allows. It raises that limit, whose usual value of 1024 is low."""
    connections = CONNECTIONS_MAX if wanted is None else wanted
    allowed = _allow_open_files(connections * FILES_PER_CONNECTION + FILES_BESIDES)
    besides = min(FILES_BESIDES, allowed // 2)
    fitting = max(1, (allowed - besides) // FILES_PER_CONNECTION)
    if fitting >= connections:
        return connections
    if wanted is not None:
        log.warning("open_files_limited", limit=allowed, max_connections=fitting)
    return fitting


def _allow_open_files(wanted: int) -> int:
    """Raise the limit on open files to `wanted` if possible. Returns the limit."""
    allowed, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY or allowed >= wanted:
        return wanted
    if hard_limit != resource.RLIM_INFINITY:
        wanted = min(wanted, hard_limit)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard_limit))
    return wanted
