"""The process's limit on open files, and how many connections fit into it."""

import resource

import structlog

from gateway.settings import Settings

log = structlog.get_logger()

FILES_PER_CONNECTION = 2
"""The client's socket and the upstream socket."""
FILES_BESIDES = 256
"""Other files: listeners, pipes, the gateway's connections to the cluster, and Python's own."""


def within_open_files(settings: Settings) -> Settings:
    """Raise the limit on open files, whose usual value of 1024 is far below our own limit. If it
    cannot be raised enough, allow fewer connections."""
    allowed = _allow_open_files(settings.max_connections * FILES_PER_CONNECTION + FILES_BESIDES)
    besides = min(FILES_BESIDES, allowed // 2)
    fitting = max(1, (allowed - besides) // FILES_PER_CONNECTION)
    if fitting >= settings.max_connections:
        return settings
    log.warning("open_files_limited", limit=allowed, max_connections=fitting)
    return settings.model_copy(update={"max_connections": fitting})


def _allow_open_files(wanted: int) -> int:
    """Raise the limit on open files to `wanted` if possible. Returns the limit."""
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY or allowed >= wanted:
        return wanted
    if most != resource.RLIM_INFINITY:
        wanted = min(wanted, most)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
    return wanted
