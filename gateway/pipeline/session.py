"""A Spark session: opened with settings that suit a small machine, ended with its JVM.

Owns the JVM and the settings that nobody has made. `spark-defaults.conf` wins over ours, and what
the caller gives wins over both, as everywhere with Spark. Must not know what is computed.
"""

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from gateway.pipeline.errors import PipelineError
from gateway.pipeline.java import java_home
from gateway.pipeline.voice import Voice

LOCAL = "local[*]"
"""What Spark takes for a master if nobody names one."""

EVERYWHERE = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    # Spark takes a table for small by the bytes of its compressed columns, and then sends millions
    # of rows to everybody. What is small is said where it is joined.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    # Whoever reads what is kept on disk holds so many batches of 10,000 rows; with 100, as usual,
    # ten million events were too much for a heap of 1 GiB.
    "spark.serializer.objectStreamReset": "1",
}
HERE = {
    # Spark's 200 are for a cluster; these are few for small inputs, and small for a heap of 1 GiB.
    "spark.sql.shuffle.partitions": "16",
    # Nobody else has to reach this driver, and it needs no network.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
"""What local mode adds, with or without processes of its own."""

_END_S_MAX = 20


@contextmanager
def open_session(
    app_name: str, *, master: str | None = None, settings: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Start a JVM and a session in it; at the end both are gone, whatever happened.

    `settings` are Spark's own, by name. It is local mode on all processors, unless `master` or
    Spark's own configuration says otherwise. Under spark-submit the JVM is the one that runs this
    program, and ends after it. For the main thread, one at a time. Raises PipelineError if it
    cannot start, and in place of what Spark raises inside.
    """
    given = dict(settings or {})
    if master is not None:
        given["spark.master"] = master
    voice = Voice()
    with java_home() as home, _jvm(home, app_name, given, voice) as gateway, _told_in_one_line():
        for logger in (logging.getLogger(), logging.getLogger("py4j.clientserver")):
            logger.addFilter(_is_no_interrupt)
        session = _start(gateway, given)
        try:
            yield session
        finally:
            voice.hush()  # to stop a job is an error to those who work on it
            _stop(session)


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    """Py4J writes a traceback for each Ctrl-C before it passes it on, and another one if the
    connection that it then closes is closed already."""
    return record.exc_info is None or not _follows_interrupt(record.exc_info[1])


@contextmanager
def _environment(java_home: Path) -> Iterator[None]:
    """What Spark's scripts can only be told by variables; those of the user come first."""
    before = dict(os.environ)
    os.environ["JAVA_HOME"] = str(java_home)
    # The end of the class path: a log4j2.properties in SPARK_CONF_DIR is found before this one.
    folders = (os.environ.get("SPARK_DIST_CLASSPATH"), str(Path(__file__).parent))
    os.environ["SPARK_DIST_CLASSPATH"] = os.pathsep.join(filter(None, folders))
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _jvm(
    java_home: Path, app_name: str, given: Mapping[str, str], voice: Voice
) -> Iterator[JavaGateway]:
    with _environment(java_home):
        gateway = _launch(app_name, given, voice)
    try:
        yield gateway
    finally:
        # Py4J has a thread that tells it of objects that are gone here, and is behind with that.
        gateway._gateway_client.is_connected = False
        jvm: subprocess.Popen[bytes] | None = gateway.proc
        if jvm is not None:  # else it is the parent of this process: spark-submit
            _end(jvm)
        SparkContext._gateway = SparkContext._jvm = None


def _end(jvm: subprocess.Popen[bytes]) -> None:
    """It ends by itself, in order, once nothing can come from its stdin any more."""
    try:
        jvm.communicate(timeout=_END_S_MAX)
    except subprocess.TimeoutExpired:
        jvm.kill()
        jvm.wait()


def _launch(app_name: str, given: Mapping[str, str], voice: Voice) -> JavaGateway:
    conf = SparkConf(loadDefaults=False).setAppName(app_name)
    conf.set("spark.ui.showConsoleProgress", "false")  # here, or Spark's script sets it to true
    conf.setAll(list(given.items()))
    # A group of its own: Ctrl-C is for this process to act on, and not for Python workers.
    how = {"stderr": voice.mouth, "process_group": 0}
    try:
        gateway = launch_gateway(conf, how)  # type: ignore[no-untyped-call]  # has no types
    except PySparkException:
        raise PipelineError(f"Spark did not start: {voice.reason()}") from None
    voice.pass_on()
    return gateway


def _start(gateway: JavaGateway, given: Mapping[str, str]) -> SparkSession:
    conf = SparkConf(_jvm=gateway.jvm)  # with all that was set in any of Spark's places
    conf.setAll(list(given.items()))  # a JVM that was there before us was not told
    is_local = (conf.get("spark.master") or LOCAL).startswith("local")
    ours = {**EVERYWHERE, **(HERE if is_local else {})}
    for name, value in ours.items():
        conf.setIfMissing(name, value)
    on_interrupt = signal.getsignal(signal.SIGINT)
    try:
        context = SparkContext(conf=conf, gateway=gateway)
    finally:
        # Not Spark's, which speaks to the JVM in the middle of an answer.
        signal.signal(signal.SIGINT, on_interrupt)
    if is_local and "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = sys.executable  # elsewhere this path may mean nothing
    return SparkSession(context)


def _stop(session: SparkSession) -> None:
    # In a thread with its own connection: that of this one may be in the middle of an answer.
    stopping = threading.Thread(target=session.stop, daemon=True)
    stopping.start()
    stopping.join(_END_S_MAX)


@contextmanager
def _told_in_one_line() -> Iterator[None]:
    """PipelineError for what Spark raises; the rest, which only the living JVM can tell, a note."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        if _follows_interrupt(error):
            raise KeyboardInterrupt from None
        text = str(error)
        told = PipelineError(f"Spark: {_in_one_line(error)}")
        told.add_note(text)
        raise told from None


def _in_one_line(error: Exception) -> str:
    """What went wrong; and of what happened in the JVM also why, in the end."""
    if not isinstance(error, Py4JJavaError):
        return str(error).strip().partition("\n")[0]
    what = why = error.java_exception
    while (cause := why.getCause()) is not None:
        why = cause
    told = [str(each.getMessage() or each).strip().partition("\n")[0] for each in (what, why)]
    return ": ".join(dict.fromkeys(told))


def _follows_interrupt(error: BaseException | None) -> bool:
    """PySpark speaks to the JVM while Ctrl-C unwinds it, though their connection is closed then."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None
