"""How the gateway's connections are protected, as the settings say."""

from dataclasses import dataclass, replace

from gateway.cluster.access import PLAIN_ACCESS, Access
from gateway.cluster.bearer_tokens import BearerTokens
from gateway.cluster.sasl import Credentials
from gateway.cluster.secret import Secret
from gateway.data_path.broker_names import BrokerNames
from gateway.settings import Settings, SettingsError
from gateway.transport import certificates
from gateway.transport.certificates import CertificateError, CertificateFiles, TlsContext


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """What protects the connections of a gateway."""

    own: Access = PLAIN_ACCESS
    """The gateway's own access to the cluster."""
    client_access: Access = PLAIN_ACCESS
    """The access of the connections that the gateway makes for its clients."""

    to_gateways: Access = PLAIN_ACCESS
    """The gateway's own access to the other gateways of its fleet."""

    listening: TlsContext | None = None
    """The TLS of the listeners, None without."""
    admin: TlsContext | None = None
    """The TLS of the admin API, None without."""

    @property
    def clients_authenticate(self) -> bool:
        """Whether the brokers want SASL."""
        return self.own.credentials is not None

    @property
    def certificates(self) -> tuple[TlsContext, ...]:
        """Everything that is made of certificate files."""
        known = (
            self.listening,
            self.admin,
            self.own.tls,
            self.client_access.tls,
            self.to_gateways.tls,
        )
        return tuple({id(tls): tls for tls in known if tls is not None}.values())


UNPROTECTED = Security()
"""Plain text on both sides."""


def security_of(settings: Settings) -> Security:
    """Raises SettingsError if a file cannot be used."""
    try:
        own = own_access(settings)
        return Security(
            own=own,
            client_access=_client_access(settings, own),
            to_gateways=_access_to_gateways(settings, own),
            listening=_listening(settings),
            admin=_admin(settings),
        )
    except CertificateError as error:
        raise SettingsError([str(error)]) from None


def _listening(settings: Settings) -> TlsContext | None:
    if settings.tls_cert is None:
        return None
    files = CertificateFiles(
        ca=settings.tls_client_ca, cert=settings.tls_cert, key=settings.tls_key
    )
    hosts = [settings.advertised_host]
    if settings.listen_sni is not None:
        hosts.append(BrokerNames(settings.listen_sni).host_of(1))
    return certificates.for_clients(files, tuple(hosts))


def _admin(settings: Settings) -> TlsContext | None:
    """Browsers and Prometheus have no certificates of their own: their token counts."""
    if settings.is_admin_local or settings.tls_cert is None:
        return None
    files = CertificateFiles(cert=settings.tls_cert, key=settings.tls_key)
    return certificates.for_clients(files)


def own_access(settings: Settings) -> Access:
    """The gateway's own access to the cluster. Raises CertificateError."""
    protocol = settings.upstream_security_protocol
    credentials = _credentials(settings) if protocol.startswith("sasl") else None
    if not protocol.endswith("ssl"):
        return Access(credentials=credentials)
    files = CertificateFiles(
        ca=settings.upstream_tls_ca,
        cert=settings.upstream_tls_cert,
        key=settings.upstream_tls_key,
    )
    return Access(tls=_to_brokers(settings, files), credentials=credentials)


def _credentials(settings: Settings) -> Credentials:
    mechanism, username = settings.upstream_sasl_mechanism, settings.upstream_sasl_username
    assert mechanism is not None
    assert username is not None
    password = password_of(settings)
    tokens = None
    if (url := settings.upstream_sasl_token_url) is not None:
        tokens = BearerTokens(
            url=url,
            client_id=username,
            secret=password,
            scope=settings.upstream_sasl_scope,
            ca=settings.upstream_sasl_token_ca,
        )
        tokens.check_ca()
    return Credentials(mechanism=mechanism, username=username, password=password, tokens=tokens)


def password_of(settings: Settings) -> Secret:
    """The password of the gateway's own user, or the secret of its client."""
    given = settings.upstream_sasl_password
    value = None if given is None else given.get_secret_value()
    return Secret(value, settings.upstream_sasl_password_file)


def _client_access(settings: Settings, own: Access) -> Access:
    """A client's connection does not show the gateway's certificate, because the cluster would take
    the client for the gateway. With SASL the principal is that of the exchange, whatever the
    certificate."""
    if own.credentials is not None:
        return Access(tls=own.tls)
    if own.tls is None or own.tls.files.cert is None:
        return own
    return Access(tls=_to_brokers(settings, replace(own.tls.files, cert=None, key=None)))


def _access_to_gateways(settings: Settings, own: Access) -> Access:
    """Other gateways' listeners are taken to be like this one's, with certificates of an authority
    that is also good for brokers."""
    if settings.tls_cert is None:
        return replace(own, tls=None)
    return replace(own, tls=own.tls or _to_brokers(settings, CertificateFiles()))


def _to_brokers(settings: Settings, files: CertificateFiles) -> TlsContext:
    return certificates.for_brokers(files, check_host=settings.upstream_tls_check_host)
