"""Watches the certificate files, and says what is wrong with them."""

from collections.abc import Sequence

import structlog
import trio

from gateway.transport.certificates import CertificateError, TlsContext
from gateway.transport.fitness import why_unfit

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
                check_certificate(context)
        except CertificateError as error:
            log.error("certificates_not_reloaded", reason=str(error))  # noqa: TRY400  # no bug


def check_certificate(context: TlsContext) -> None:
    """Log the names for which clients refuse the certificate."""
    for host in context.hosts:
        if (reason := why_unfit(context.files, host)) is not None:
            file = str(context.files.cert)
            log.warning("certificate_unfit", host=host, file=file, reason=reason)


async def watch_certificates(contexts: Sequence[TlsContext]) -> None:
    """Reload whatever changes, until cancelled."""
    while True:
        await trio.sleep(LOOK_INTERVAL_S)
        reload_certificates(contexts)
