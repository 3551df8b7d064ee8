"""The metrics of clients reach the broker through the gateway (KIP-714). A broker asks for them
only if it has a plug-in that takes them."""

import shutil
from pathlib import Path

import trio

from kafka_codecs.apis import ApiKey
from tests.support.applications import MARKS, apis_in, check_alike, printed_lines
from tests.support.installs import run
from tests.support.java_programs import PROGRAMS
from tests.support.kafka_broker import KafkaCluster, running_kafka
from tests.support.kafka_jars import kafka_jars
from tests.support.kafka_release import QUICK_START
from tests.support.releases import NEWEST

pytestmark = MARKS

PROGRAM = "TelemetryClient"
PLUG_IN = PROGRAMS / "TelemetryReporter.java"


def test_metrics_of_a_producer_are_pushed_behind_the_gateway_as_at_the_broker(
    tmp_path: Path,
) -> None:
    jars, pushes = f"{kafka_jars(NEWEST)}/*", tmp_path / "pushes"
    run([f"{shutil.which('javac')}", "-cp", jars, "-d", f"{tmp_path}", f"{PLUG_IN}"])
    java_options = (*QUICK_START, "-cp", f"{jars}:{tmp_path}", f"-Dtelemetry.pushes={pushes}")

    async def check(kafka: KafkaCluster) -> None:
        await kafka.make_topic("numbers")
        lines, recorder = await check_alike(
            kafka,
            lambda servers, name: printed_lines(PROGRAM, jars, servers, "numbers", name, pushes),
        )
        assert lines == ["pushed"]
        assert apis_in(recorder) >= {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}

    settings = {"metric.reporters": "TelemetryReporter"}
    with running_kafka(NEWEST, 1, settings, java_options) as kafka:
        trio.run(check, kafka)
