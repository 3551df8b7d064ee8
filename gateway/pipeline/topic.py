"""Reads the lines of a topic into which gateways write their events, with Spark's Kafka source.

Spark needs extra jars for that source: those of `kafka_source.xml`.
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

from gateway.cluster.access import PLAIN_ACCESS, Access
from gateway.cluster.errors import UpstreamRefused
from gateway.cluster.librdkafka import client_config
from gateway.pipeline.errors import PipelineError
from gateway.pipeline.topic_access import secret_variables, source_options
from gateway.settings import Address

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
    jvm: Any = spark.sparkContext._jvm
    is_known = all(jvm.System.getenv(name) for name in topic.secrets())
    if not is_known or not str(spark.sparkContext.master).startswith("local"):
        raise PipelineError(
            f"{topic} needs SASL: read it in local mode and without spark-submit, so that no"
            " secret leaves this machine"
        )


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
