"""Watches the certificate files."""

from collections.abc import Sequence

import structlog
import trio

from gateway.transport.certificates import CertificateError, TlsContext

log = structlog.get_logger()

LOOK_INTERVAL_S = 10.0
"""How often to look for changed files."""


def reload_certificates(contexts: Sequence[TlsContext]) -> None:
    """Load the files that have changed, and log what became of it. Connections stay open, with the
    certificates that they began with."""
    for context in contexts:
        files = ", ".join(map(str, context.files))
        try:
            if context.reload():
                log.info("certificates_reloaded", files=files)
        except CertificateError as error:
            log.error("certificates_not_reloaded", reason=str(error))  # noqa: TRY400  # no bug


async def watch_certificates(contexts: Sequence[TlsContext]) -> None:
    """Reload whatever changes, until cancelled."""
    while True:
        await trio.sleep(LOOK_INTERVAL_S)
        reload_certificates(contexts)
