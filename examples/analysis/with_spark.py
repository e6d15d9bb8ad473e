"""Which acknowledged records are nowhere in the log? `python with_spark.py RUN_DIR [MASTER]`: an anti join."""

import re
import sys

from pyspark.sql import SparkSession

run = re.sub(r"([\[\]{}*?\\])", r"\\\1", sys.argv[1])  # Spark reads a path as a pattern
master = sys.argv[2] if len(sys.argv) > 2 else "local[2]"
builder = SparkSession.builder
if master.startswith("local"):  # a session of its own listens on loopback alone
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    builder = builder.config("spark.ui.enabled", "false")
session = (builder.remote(master) if master.startswith("sc://") else builder.master(master)).getOrCreate()
send, log = (session.read.parquet(f"{run}/{name}") for name in ("send", "log"))
who = ["cell", "producer", "incarnation", "seq"]
lost = send.where("status = 0").join(log.select(who), who, "left_anti")
lost.groupBy("cell").count().orderBy("cell").show(1000, truncate=False)
session.stop()
