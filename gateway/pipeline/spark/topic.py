"""Reads the lines of a topic into which gateways write their events, with Spark's Kafka source.

Spark needs extra jars for that source: those of `kafka_source.xml`. Spark shows a source's options
in its plans, its errors and its event log, so no option has a secret in it. Kafka's config
providers fetch the secrets where they are used: the JAAS configuration from the environment of the
JVM, the private key from its file.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.utils import is_remote

from gateway.cluster.access import PLAIN_ACCESS, Access
from gateway.cluster.bearer_tokens import BearerTokens
from gateway.cluster.errors import UpstreamRefused
from gateway.cluster.librdkafka import client_config
from gateway.cluster.sasl import Credentials
from gateway.pipeline import PipelineError
from gateway.settings import Address
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
    pairs = " ".join(f"{name}={_quote(value)}" for name, value in options.items())
    return f"{_SECURITY}.{module} required {pairs};"


def _quote(text: str) -> str:
    """Kafka reads these escapes as Java's StreamTokenizer does."""
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"}
    return '"' + "".join(escapes.get(letter, letter) for letter in text) + '"'


CLIENT_ID = "groupferry-report"
CLUSTER_TIMEOUT_S = 15.0
BATCH_RECORDS_MAX = 200_000
"""Records in one batch of a stream."""
POM = Path(__file__).with_name("kafka_source.xml")


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsTopic:
    """A topic and its cluster."""

    name: str
    upstream: Sequence[Address]
    access: Access = PLAIN_ACCESS

    def __str__(self) -> str:
        return f"topic {self.name} at {self.bootstrap_servers}"

    @property
    def bootstrap_servers(self) -> str:
        """The upstream as Kafka clients take it."""
        return ",".join(map(str, self.upstream))

    def secrets(self) -> Mapping[str, str]:
        """What the JVM needs in its environment to read the topic. Raises PipelineError."""
        try:
            return secret_variables(self.access)
        except UpstreamRefused as error:
            raise PipelineError(str(error)) from None


def require_topic(topic: EventsTopic) -> None:
    """Check that the topic exists, which would take Spark minutes. Raises PipelineError."""
    try:
        admin = AdminClient(dict(client_config(topic.upstream, CLIENT_ID, topic.access)))
        known = admin.list_topics(timeout=CLUSTER_TIMEOUT_S).topics
    except KafkaException as error:
        raise PipelineError(f"{topic}: {error.args[0].str()}") from None
    except UpstreamRefused as error:
        raise PipelineError(str(error)) from None
    if topic.name not in known:
        raise PipelineError(f"{topic}: there is no such topic")


def topic_lines(spark: SparkSession, topic: EventsTopic) -> DataFrame:
    """`file`, `place`, `block` (null) and `line` of all current records. Raises PipelineError."""
    _require_secrets(spark, topic)
    return _lines(spark.read, topic)


def growing_topic_lines(
    spark: SparkSession, topic: EventsTopic, batch_records_max: int = BATCH_RECORDS_MAX
) -> DataFrame:
    """The same as a stream, from the first record on. Raises PipelineError."""
    _require_secrets(spark, topic)
    return _lines(spark.readStream.option("maxOffsetsPerTrigger", batch_records_max), topic)


def _require_secrets(spark: SparkSession, topic: EventsTopic) -> None:
    """Spark would end with a parser's error. Raises PipelineError."""
    if not topic.access.credentials:
        return
    if is_remote() or not _has_secrets(spark, topic):
        raise PipelineError(
            f"{topic} needs SASL: read it in local mode and without spark-submit, so that no"
            " secret leaves this machine"
        )


def _has_secrets(spark: SparkSession, topic: EventsTopic) -> bool:
    """Whether the JVM has them, and nobody else needs them."""
    jvm: Any = spark.sparkContext._jvm
    is_known = all(jvm.System.getenv(name) for name in topic.secrets())
    return is_known and str(spark.sparkContext.master).startswith("local")


def _lines(reader: DataFrameReader | DataStreamReader, topic: EventsTopic) -> DataFrame:
    try:
        records = (
            reader.format("kafka")
            .option("kafka.bootstrap.servers", topic.bootstrap_servers)
            .options(**source_options(topic.access))
            .option("subscribe", topic.name)
            .option("startingOffsets", "earliest")
            # Records that were deleted before they are read show up as gaps in the sequences.
            .option("failOnDataLoss", "false")
            .load()
        )
    except (AnalysisException, Py4JJavaError):
        raise PipelineError(
            "Spark lacks its Kafka source: pass --jars 'jars/*' after fetching the jars with"
            f" {fetch_command(Path('jars'))}"
        ) from None
    return records.select(
        F.format_string("kafka:%s/%d", "topic", "partition").alias("file"),
        F.format_string("offset %d", "offset").alias("place"),
        F.lit(None).cast("long").alias("block"),
        # A record may have no value, or one that is not text.
        F.coalesce(F.make_valid_utf8(F.col("value").cast("string")), F.lit("")).alias("line"),
    )


def fetch_command(folder: Path) -> str:
    """The command that downloads the jars into a folder."""
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={folder.absolute()}"]
    return shlex.join(["mvn", "-f", str(POM), *goal])
