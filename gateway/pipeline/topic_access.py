"""How Spark's Kafka source reaches a protected cluster, with the gateway's own settings.

Spark shows a source's options in its plans, its errors and its event log, so no option has a
secret in it. Kafka's config providers fetch the secrets where they are used: the JAAS configuration
from the environment of the JVM, the private key from its file.
"""

from collections.abc import Mapping

from gateway.cluster.access import Access
from gateway.cluster.bearer_tokens import BearerTokens
from gateway.cluster.sasl import Credentials
from gateway.transport.certificates import TlsContext

JAAS_VARIABLE = "GROUPFERRY_REPORT_JAAS"
"""The variable that has the JAAS configuration, in the environment of the JVM only."""
_SECURITY = "org.apache.kafka.common.security"
_PROVIDERS = {
    "config.providers": "env,directory",
    "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
    "config.providers.directory.class": (
        "org.apache.kafka.common.config.provider.DirectoryConfigProvider"
    ),
}


def source_options(access: Access) -> Mapping[str, str]:
    """Spark's options. None is secret."""
    kinds = ("PLAINTEXT", "SSL") if access.credentials is None else ("SASL_PLAINTEXT", "SASL_SSL")
    options = {
        "security.protocol": kinds[access.tls is not None],
        **(_of_tls(access.tls) if access.tls else {}),
        **(_of_credentials(access.credentials) if access.credentials else {}),
    }
    return {f"kafka.{name}": value for name, value in options.items()}


def secret_variables(access: Access) -> Mapping[str, str]:
    """What the JVM needs in its environment. Raises UpstreamRefused if a secret cannot be read."""
    return {JAAS_VARIABLE: _jaas(access.credentials)} if access.credentials else {}


def _of_tls(tls: TlsContext) -> Mapping[str, str]:
    files = tls.files
    options = {"ssl.endpoint.identification.algorithm": "https" if tls.checks_host else ""}
    if files.ca is not None:
        options |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": f"{files.ca}"}
    if files.cert is not None:
        key = (files.key or files.cert).absolute()
        chain = files.cert.absolute()
        options |= {
            **_PROVIDERS,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": f"${{directory:{key.parent}:{key.name}}}",
            "ssl.keystore.certificate.chain": f"${{directory:{chain.parent}:{chain.name}}}",
        }
    return options


def _of_credentials(credentials: Credentials) -> Mapping[str, str]:
    options = {
        **_PROVIDERS,
        "sasl.mechanism": credentials.mechanism,
        "sasl.jaas.config": f"${{env:{JAAS_VARIABLE}}}",
    }
    if (tokens := credentials.tokens) is not None:
        handler = f"{_SECURITY}.oauthbearer.OAuthBearerLoginCallbackHandler"
        options |= {
            "sasl.login.callback.handler.class": handler,
            "sasl.oauthbearer.token.endpoint.url": tokens.url,
        }
    return options


def _jaas(credentials: Credentials) -> str:
    if (tokens := credentials.tokens) is not None:
        return _entry("oauthbearer.OAuthBearerLoginModule", _of_tokens(tokens))
    kind = "plain.Plain" if credentials.mechanism == "PLAIN" else "scram.Scram"
    password = credentials.password.read()
    return _entry(f"{kind}LoginModule", {"username": credentials.username, "password": password})


def _of_tokens(tokens: BearerTokens) -> Mapping[str, str]:
    options = {"clientId": tokens.client_id, "clientSecret": tokens.secret.read()}
    if tokens.scope:
        options["scope"] = tokens.scope
    if tokens.ca is not None:
        options |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": f"{tokens.ca}"}
    return options


def _entry(module: str, options: Mapping[str, str]) -> str:
    pairs = " ".join(f"{name}={_quoted(value)}" for name, value in options.items())
    return f"{_SECURITY}.{module} required {pairs};"


def _quoted(text: str) -> str:
    """Kafka reads these escapes as Java's StreamTokenizer does."""
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"}
    return '"' + "".join(escapes.get(each, each) for each in text) + '"'
