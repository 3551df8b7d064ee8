"""Starts a Spark session with settings for a small machine, and ends it together with its JVM.

As usual with Spark, `spark-defaults.conf` overrides these settings, and the caller's settings
override both. Executors get our packages with the job, so that they run exactly this code.
Dependencies are not sent, because some have compiled parts.
"""

import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import IO
from zipfile import ZipFile

from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException, PySparkImportError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

import coordinator
import gateway
import kafka_codecs
from gateway.pipeline import PipelineError
from gateway.pipeline.installed import java_environment
from gateway.readable import escape

_STDERR_BYTES_MAX = 1 << 16
"""What is read of the JVM's stderr."""


def lines_of_jvm(stderr: IO[bytes], begin: int = 0) -> list[str]:
    """The lines that the JVM has written from there on. It shares the file's position."""
    data = os.pread(stderr.fileno(), _STDERR_BYTES_MAX, begin)
    lines = data.decode(errors="replace").splitlines()
    return [escape(line.rstrip().expandtabs()) for line in lines if line.strip()]


def start_problem(lines: Sequence[str]) -> str:
    """The line with the reason of a JVM that has failed to start."""
    telling = [line.strip() for line in lines if "Exception" in line or "rror" in line]
    return next(iter([*telling, *lines]), "its JVM said nothing")


PACKAGES: tuple[ModuleType, ...] = (gateway, coordinator, kafka_codecs)


def send_own_code(context: SparkContext, *further: ModuleType) -> None:
    """Let executors run Python functions of our packages and of further ones, whatever is installed
    there."""
    # An executor fetches the archive before its next task, so the archive lives with the session.
    archive = Path(context._temp_dir, "groupferry.zip")
    pack(archive, *further)
    searched = list(sys.path)
    context.addPyFile(str(archive))
    sys.path[:] = searched  # this process imports the installed packages


def send_to_machines(spark: SparkSession) -> None:
    """Send the packages to the workers, unless all Python functions run on this machine, with the
    packages of this process."""
    if is_remote():
        with tempfile.TemporaryDirectory(prefix="groupferry-code-") as folder:
            archive = Path(folder, "groupferry.zip")
            pack(archive)
            spark.addArtifacts(str(archive), pyfile=True)
    elif not str(spark.sparkContext.master).startswith("local"):
        send_own_code(spark.sparkContext)


def pack(archive: Path, *further: ModuleType) -> None:
    """Pack the modules of our packages, and of further ones, into a zip file that Python can import
    from."""
    with ZipFile(archive, "w") as packed:
        for package in (*PACKAGES, *further):
            folder = Path(package.__path__[0])
            modules = sorted(folder.rglob("*.py"))
            for module in modules:
                packed.write(module, Path(package.__name__, module.relative_to(folder)))
            # A folder without this file would give way to any installed package of its name.
            for bare in {module.parent for module in modules}:
                if not (bare / "__init__.py").exists():
                    name = Path(package.__name__, bare.relative_to(folder), "__init__.py")
                    packed.writestr(str(name), "")


LOCAL = "local[*]"
"""Spark's master if none is configured."""

EVERYWHERE = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    # Python parses and folds: little is left for such code.
    "spark.sql.codegen.wholeStage": "false",
    # Rows with files or many lines are long.
    "spark.sql.execution.arrow.maxBytesPerBatch": f"{4 << 20}",
    "spark.sql.parquet.enableVectorizedReader": "false",
    # PySpark would record the line of our code behind each column, with several calls to the JVM.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
HERE = {
    # A sort of lines would fill most of the heap before it spills, and gains nothing by that.
    "spark.memory.fraction": "0.3",
    # The tasks that fold. Few rows are merged into fewer.
    "spark.sql.shuffle.partitions": "53",
    # Only this machine connects to the driver, and it works without a network.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
"""Further settings for local mode, including local-cluster."""

SCHEME = "sc://"
"""Begins the URL of a server."""

# PySpark looks these up in the JVM at every use, and each time the JVM searches all its jars.
_LOOKED_UP_ONCE = (
    "functions",
    "org.apache.spark.sql.functions",
    "PythonSQLUtils",
    "PythonUtils",
)

_END_S_MAX = 20

_JVM_ENDED = (
    "Spark's JVM ended, probably for lack of memory: --conf spark.driver.memory=SIZE gives it more"
)


@contextmanager
def open_session(
    app_name: str,
    *,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """Start a JVM and a session in it. Both end with the block, whatever happens.

    `settings` are Spark's own, by name. The session runs locally on all processors unless `master`
    or Spark's configuration says otherwise. Under spark-submit it uses the JVM that runs this
    program, and with a `master` of Spark Connect that of its server. Call it in the main thread,
    one session at a time. Raises PipelineError if the session cannot start, and in place of Spark's
    exceptions inside the block.
    """
    given = dict(settings or {})
    if master is not None and master.startswith(SCHEME):
        session_settings = {
            name: value for name, value in EVERYWHERE.items() if "spark.sql." in name
        }
        with (
            as_pipeline_errors(),
            _connect(app_name, master, {**session_settings, **given}) as session,
        ):
            yield session
        return
    if master is not None:
        given["spark.master"] = master
    with (
        tempfile.TemporaryFile() as stderr,
        _jvm(java_environment(), app_name, given, stderr) as gateway,
        as_pipeline_errors(),
    ):
        for logger in (logging.getLogger(), logging.getLogger("py4j.clientserver")):
            logger.addFilter(_is_no_interrupt)
        started_at = os.fstat(stderr.fileno()).st_size
        session = _start(gateway, given)
        try:
            yield session
        finally:
            # Stopping prints errors about unfinished jobs.
            for line in lines_of_jvm(stderr, started_at):
                sys.stderr.write(f"{line}\n")
            _stop(session)


@contextmanager
def _connect(app_name: str, url: str, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """A session, which ends with the block. PySpark notes in the environment that it is remote.
    Raises PipelineError."""
    before = dict(os.environ)
    try:
        session = SparkSession.builder.remote(url).appName(app_name).getOrCreate()
        try:
            for name, value in settings.items():
                session.conf.set(name, value)
            yield session
        finally:
            session.stop()
    except PySparkImportError as error:
        raise PipelineError(f"Spark Connect needs the extra connect: {error}") from None
    finally:
        os.environ.clear()
        os.environ.update(before)


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    """Py4J logs a traceback for each Ctrl-C before passing it on, and another one if it then closes
    a closed connection."""
    return record.exc_info is None or not _follows_interrupt(record.exc_info[1])


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set these variables, and those that Spark's scripts read; of the latter the user's own values
    come first."""
    before = dict(os.environ)
    # This folder is last on the class path, so a log4j2.properties in SPARK_CONF_DIR wins.
    folders = (os.environ.get("SPARK_DIST_CLASSPATH"), str(Path(__file__).parent))
    os.environ["SPARK_DIST_CLASSPATH"] = os.pathsep.join(filter(None, folders))
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _jvm(
    variables: Mapping[str, str],
    app_name: str,
    given: Mapping[str, str],
    stderr: IO[bytes],
) -> Iterator[JavaGateway]:
    with _environment(variables):
        gateway = _launch(app_name, given, stderr)
    try:
        yield gateway
    finally:
        # A Py4J thread reports objects that were collected here, and may lag behind.
        gateway._gateway_client.is_connected = False
        jvm: subprocess.Popen[bytes] | None = gateway.proc
        if jvm is not None:  # under spark-submit the JVM is our parent process
            _end(jvm)
        SparkContext._gateway = SparkContext._jvm = None


def _end(jvm: subprocess.Popen[bytes]) -> None:
    """Wait for the JVM, which ends once its stdin is closed."""
    try:
        jvm.communicate(timeout=_END_S_MAX)
    except subprocess.TimeoutExpired:
        jvm.kill()
        jvm.wait()


def _launch(app_name: str, given: Mapping[str, str], stderr: IO[bytes]) -> JavaGateway:
    conf = SparkConf(loadDefaults=False).setAppName(app_name)
    conf.set("spark.ui.showConsoleProgress", "false")  # otherwise Spark's script sets it to true
    conf.setAll(list(given.items()))
    # The JVM gets its own process group, so that Ctrl-C reaches this process but no Python worker.
    how = {"stderr": stderr, "process_group": 0}
    try:
        return launch_gateway(conf, how)  # type: ignore[no-untyped-call]  # has no types
    except PySparkException:
        problem = start_problem(lines_of_jvm(stderr))
        raise PipelineError(f"Spark did not start, look at JAVA_HOME: {problem}") from None


def _start(gateway: JavaGateway, given: Mapping[str, str]) -> SparkSession:
    conf = SparkConf(_jvm=gateway.jvm)  # includes all of Spark's configuration sources
    conf.setAll(list(given.items()))  # a JVM that was already running does not have them
    is_local = (conf.get("spark.master") or LOCAL).startswith("local")
    for name, value in {**EVERYWHERE, **(HERE if is_local else {})}.items():
        conf.setIfMissing(name, value)
    on_interrupt = signal.getsignal(signal.SIGINT)
    try:
        context = SparkContext(conf=conf, gateway=gateway)
    finally:
        # Restore our handler: Spark's would use the JVM connection in the middle of an answer.
        signal.signal(signal.SIGINT, on_interrupt)
    if is_local and "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = sys.executable  # on other machines this path may not exist
    for name in _LOOKED_UP_ONCE:
        setattr(gateway.jvm, name, getattr(gateway.jvm, name))
    return SparkSession(context)


def _stop(session: SparkSession) -> None:
    # In a new thread with its own connection: this thread's may be in the middle of an answer.
    stopping = threading.Thread(target=session.stop, daemon=True)
    stopping.start()
    stopping.join(_END_S_MAX)


@contextmanager
def as_pipeline_errors() -> Iterator[None]:
    """Turn Spark's exceptions into PipelineError. A note keeps the full text, which only the living
    JVM can provide."""
    try:
        yield
    except (PySparkException, Py4JError, ConnectionError) as error:
        if _follows_interrupt(error):
            raise KeyboardInterrupt from None
        if isinstance(error, ConnectionError):  # nobody listens
            raise PipelineError(_JVM_ENDED) from None
        try:
            text, summary = str(error), _summary(error)
        except (OSError, Py4JError):  # only the JVM knows the text, and it has ended
            raise PipelineError(_JVM_ENDED) from None
        failure = PipelineError(f"Spark: {summary}")
        failure.add_note(text)
        raise failure from None


def _summary(error: Exception) -> str:
    """What went wrong and, for an exception of the JVM, its root cause."""
    if not isinstance(error, Py4JJavaError):
        return str(error).strip().partition("\n")[0]
    what = reason = error.java_exception
    while (cause := reason.getCause()) is not None:
        reason = cause
    reasons = [
        str(error.getMessage() or error).strip().partition("\n")[0] for error in (what, reason)
    ]
    return ": ".join(dict.fromkeys(reasons))


def _follows_interrupt(error: BaseException | None) -> bool:
    """Whether an error follows from Ctrl-C: PySpark may use its closed connection while
    unwinding."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None
