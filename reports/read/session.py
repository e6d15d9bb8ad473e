"""Makes the Spark session: of this process, of a standalone cluster, or of a Spark Connect server.

The analysis itself gets a session and never makes one. Shown by tests/reports/test_reports_session.py.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession

from reports.read.spark_bounds import ServerWatch, bounded, end_process, timeout_s_of
from reports.read.spark_jvm import EndingJvm, own_jvm
from reports.read.spark_needs import (
    SparkUnavailableError,
    addresses_of,
    is_connect,
    is_local,
    is_on_this_host,
    require_what_it_takes,
)

_AMAZON = ".amazonaws.com"
SMALL_RUN_BYTES = 16 << 20  # 5 to 25 million rows; below this the JVM's second compiler costs more than it gives

# Of a JVM that lives for half a minute. On two cores G1 is chosen, whose threads cost more than they save there. Each
# time that loaded classes outgrow a threshold, the whole heap is collected: the threshold is set above what an analysis
# loads. For the same reason the heap has its whole size from the start; what is not used of it is not touched.
# With one compiler a JVM reserves 48 MiB for compiled code. The JVM that our tests share filled them with some hundred
# cells, and then it ended. What is reserved costs nothing until it is used.
_SHORT_LIVED = (
    "-XX:TieredStopAtLevel=1",
    "-XX:ReservedCodeCacheSize=240m",
    "-XX:+UseSerialGC",
    "-XX:MetaspaceSize=256m",
    "-Xms1g",
    "-Xmn320m",
)
# spark-submit starts a JVM of its own, which only puts the command of the other one together.
_LAUNCHER = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

# What is settled when a JVM starts; a Connect server has its own and refuses to change them.
_OF_THE_SERVER = (
    "spark.driver.",
    "spark.executor.",
    "spark.ui.",
    "spark.local.",
    "spark.buffer.",
    "spark.sql.warehouse.",
)


def session_settings(*, master: str, small: bool, scratch: str) -> dict[str, str]:
    """Settings of the session. The reasons of the unusual ones stand beside them.

    How joins and shuffles are planned is a matter of the machines that do them. On this host it is ours; a cluster or a
    Connect server has its own settings, and who runs it knows better.
    """
    # As a URI: Spark divides the options at blanks, and a path with one ended as "class not found".
    java_options = [f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').resolve().as_uri()}"]
    if small:
        java_options.extend(_SHORT_LIVED)
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g" if small else "2g",
        "spark.driver.extraJavaOptions": " ".join(java_options),
        "spark.local.dir": scratch,
        "spark.sql.warehouse.dir": f"{scratch}/warehouse",
        "spark.sql.session.timeZone": "UTC",
        # Cell ids are text, also when they look like numbers or dates.
        "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.ansi.enabled": "false",
    }
    if is_local(master):
        # Parquet is so small on disk that Spark would broadcast ten million rows: only hinted broadcasts are allowed.
        settings |= {
            "spark.sql.shuffle.partitions": "2" if small else "4",
            "spark.sql.autoBroadcastJoinThreshold": "-1",
            "spark.sql.adaptive.enabled": "false",
        }
    if small and is_local(master):
        settings["spark.executor.extraJavaOptions"] = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
        # Every sort and hash table takes a page at least: with the default of 16 MB they cost more than their work.
        settings["spark.buffer.pageSize"] = "1m"
    return settings


def bucket_settings(endpoint: str, region: str) -> dict[str, str]:
    """Of Spark's connector for buckets (s3a), which finds credentials where the AWS tools have them, and the server
    not everywhere there. So no setting of ours holds a secret."""
    providers = ("EnvironmentVariableCredentialsProvider", "ProfileCredentialsProvider")
    settings = {
        "spark.hadoop.fs.s3a.aws.credentials.provider": ",".join(
            f"software.amazon.awssdk.auth.credentials.{name}" for name in providers
        )
    }
    if not endpoint.endswith(_AMAZON):  # a server of somebody's own has its buckets in paths, not in names of hosts
        settings |= {"spark.hadoop.fs.s3a.endpoint": endpoint, "spark.hadoop.fs.s3a.path.style.access": "true"}
    if region:
        settings["spark.hadoop.fs.s3a.endpoint.region"] = region
    return settings


def utf8_locale(environment: Mapping[str, str]) -> dict[str, str]:
    """What to set so that a JVM can name every file: it takes the encoding of paths from the locale. In the C locale it
    ended over a path with an umlaut, and pyspark waited for it without end."""
    value = next((environment[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if environment.get(name)), "")
    is_utf8 = value.lower().replace("-", "").endswith("utf8")
    return {} if is_utf8 else {"LC_ALL": "C.UTF-8"}


def user_without_name() -> str | None:
    """What to call the user of this process where the system's user database does not know it, as in a container that
    was started with `--user N`. None if it has a name."""
    uid = os.geteuid()
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return f"uid-{uid}"
    return None


class Session:
    """A Spark session with a scratch directory; both are gone when the block ends, and so is the JVM of the session.

    Its start has a bound, and a server elsewhere must do one small job first: an application that gets no worker waits
    for ever. Raises SparkUnavailableError. Its end has a bound too, and raises nothing: all answers are there by then.
    """

    def __init__(
        self,
        *,
        master: str,
        small: bool,
        bucket_server: tuple[str, str] | None = None,
        conf: Mapping[str, str] | None = None,
    ) -> None:
        """`bucket_server`: endpoint and region of the server whose buckets are read. `conf`: the user's settings, which
        come after ours."""
        self._conf = dict(conf or {})
        self._master = master
        self.is_small = small
        self._bucket_server = bucket_server
        self._scratch = tempfile.TemporaryDirectory(prefix="reports-spark-")
        self._open = ExitStack()
        self.spark: SparkSession | None = None
        self._jvm: EndingJvm | None = None  # asked to end, not yet waited for

    def __enter__(self) -> SparkSession:
        """Starts it, if it has not been started yet."""
        if self.spark is not None:
            return self.spark
        require_what_it_takes(self._master)
        try:
            with bounded(f"starting Spark on {self._master}", timeout_s_of(self._master), self.give_up):
                self.spark = self._start()
                if addresses_of(self._master):
                    self.spark.range(1).count()
        except SparkUnavailableError:
            raise
        except Exception as error:  # py4j, gRPC and Spark have families of their own; all mean that there is no Spark
            self.__exit__()
            first = next(iter(str(error).strip().splitlines()), "")
            raise SparkUnavailableError(
                f"Spark on {self._master} cannot be used: {type(error).__name__}: {first}"
            ) from error
        if is_connect(self._master):
            self._open.enter_context(ServerWatch(self._master, end=self.give_up))
        return self.spark

    def _start(self) -> SparkSession:
        settings = session_settings(master=self._master, small=self.is_small, scratch=self._scratch.name)
        if self._bucket_server is not None:
            settings |= bucket_settings(*self._bucket_server)
        if not is_on_this_host(self._master):
            del settings["spark.driver.host"], settings["spark.driver.bindAddress"]
        settings |= self._conf
        os.environ.update(utf8_locale(os.environ))
        # Typed loosely: the builder's methods are decorated and lose their types.
        builder: Any = SparkSession.builder
        builder = builder.appName("reports")
        if is_connect(self._master):
            spark: SparkSession = builder.remote(self._master).getOrCreate()
            for key, value in settings.items():
                if key in self._conf or not key.startswith(_OF_THE_SERVER):
                    spark.conf.set(key, value)
            return spark
        if is_on_this_host(self._master):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ.setdefault("SPARK_HOME", _find_spark_home())  # else spark-submit starts a Python to find it
        os.environ.setdefault("SPARK_LAUNCHER_OPTS", _LAUNCHER)
        name = user_without_name()
        if name is not None:
            settings["spark.jars.ivy"] = f"{self._scratch.name}/ivy"  # else below a home that the JVM does not find
            _start_jvm_as(name, settings)
        builder = builder.master(self._master)
        for key, value in settings.items():
            builder = builder.config(key, value)
        started: SparkSession = builder.getOrCreate()
        return started

    def give_up(self, text: str) -> None:
        """Ends this process and its JVM at once. Also from another thread, while Spark starts."""
        shutil.rmtree(self._scratch.name, ignore_errors=True)
        jvm = own_jvm()
        if jvm is not None:
            jvm.kill()
        end_process(text)

    def let_go(self) -> None:
        """Nothing more will be asked: Spark may end while the caller goes on."""
        self._open.close()
        spark, self.spark = self.spark, None
        jvm = None if is_connect(self._master) else own_jvm()
        if jvm is not None:
            self._jvm = EndingJvm(jvm)
        elif spark is not None:  # somebody else's JVM, which goes on
            what = f"stopping Spark on {self._master}"
            with bounded(what, timeout_s_of(self._master), self.give_up), contextlib.suppress(Exception):
                spark.stop()

    def __exit__(self, *_: object) -> None:
        self.let_go()
        if self._jvm is not None and not self._jvm.wait_until_gone():
            print(f"reports: Spark's JVM {self._jvm.pid} was killed and has not gone", file=sys.stderr, flush=True)
        self._jvm = None
        with contextlib.suppress(OSError):  # a JVM that has not gone may still write to it
            self._scratch.cleanup()


def _start_jvm_as(name: str, settings: Mapping[str, str]) -> None:
    """Hadoop asks the system for the user's name and ends where there is none, so it is told before it asks."""
    SparkContext._ensure_initialized(conf=SparkConf().setAll(list(settings.items())))
    assert SparkContext._jvm is not None
    users: Any = SparkContext._jvm.org.apache.hadoop.security.UserGroupInformation  # Java's, without types
    users.setLoginUser(users.createRemoteUser(name))
