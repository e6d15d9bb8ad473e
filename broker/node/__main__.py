"""`python -m broker.node FILE.properties`: runs one broker. The exit code is 0 after SIGTERM, 2 for a wrong
configuration, 3 for a port or directory that cannot be used, 4 if the storage of the quorum failed, and 1 for a
defect."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import uvloop

from broker.log.disk_faults import FaultyFileSystem
from broker.log.errors import LogError
from broker.log.filesystem import LOCAL, FileSystem
from broker.node.broker import Broker
from broker.node.cluster.failures import QuorumFailedError
from broker.node.cluster.meta_properties import StorageMismatchError
from broker.node.process.clock import set_wrong_by
from broker.node.process.descriptors import raise_descriptor_limit
from broker.node.process.logs import Logger
from broker.node.settings.config import NodeConfig
from broker.node.settings.properties import ConfigError, load_config
from broker.wire.record_check import PURE_VARIABLE, use_compiled

GC_THRESHOLD = 20_000  # net allocations between two collections of young objects; Python's default is 700
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # numbers of mallopt's parameters in <malloc.h>
# so much free memory stays at the end of the heap before it is returned to the kernel
KEPT_MEMORY_BYTES = 32 * 1024 * 1024
EXIT_CONFIGURATION = 2
EXIT_ENVIRONMENT = 3
EXIT_QUORUM_STORAGE = 4
EXIT_DEFECT = 1


async def serve(config: NodeConfig, logger: Logger) -> None:
    """Runs one broker until SIGTERM or SIGINT. If an error ends the broker, raises that error."""
    loop = asyncio.get_running_loop()
    stop_asked = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop_asked.set)
    filesystem: FileSystem = LOCAL
    if config.own.harness_disk_faults is not None:
        filesystem = FaultyFileSystem(LOCAL, str(config.own.harness_disk_faults))
    if config.own.harness_clock_control is not None:
        set_wrong_by(config.own.harness_clock_control)
    broker = Broker(config=config, logger=logger, filesystem=filesystem)
    await broker.start()
    _spare_memory_work()
    waiting: asyncio.Future[object] = asyncio.ensure_future(stop_asked.wait())
    failing: asyncio.Future[object] = asyncio.ensure_future(broker.failed)
    await asyncio.wait({waiting, failing}, return_when=asyncio.FIRST_COMPLETED)
    if broker.failed.done():
        broker.failed.result()
    await broker.stop()


def _spare_memory_work() -> None:
    """Call this once everything is imported.

    The garbage collector then no longer examines modules and tables. It rarely has anything to do, because requests
    make no reference cycles. The process also keeps the memory of a large payload for the next one. Otherwise the
    kernel gives it new pages each time, and to clear them costs as much as to copy the payload (measured with fetches
    of 1 MB).
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD, 20, 50)
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return  # the C library has no mallopt
    mallopt(M_MMAP_THRESHOLD, KEPT_MEMORY_BYTES)
    mallopt(M_TRIM_THRESHOLD, KEPT_MEMORY_BYTES)


def _as_it_is(config: NodeConfig, logger: Logger) -> None:
    """Refuses a setting that only another entry point supports: nothing here may depend on broker.mutants."""
    if config.own.harness_mutant:
        raise ConfigError(f"harness.mutant={config.own.harness_mutant}: start it by python -m broker.mutants")


def main(arguments: list[str], prepare: Callable[[NodeConfig, Logger], None] = _as_it_is) -> int:
    """`prepare` is called before the broker creates anything. It may raise ConfigError."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m broker.node FILE.properties\n")
        return EXIT_CONFIGURATION
    try:
        config, warnings = load_config(Path(arguments[0]))
    except (ConfigError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_CONFIGURATION
    logger = Logger(config.node_id)
    for warning in warnings:
        logger.warning("configuration", message=repr(warning))
    try:
        prepare(config, logger)
    except ConfigError as error:
        sys.stderr.write(f"{arguments[0]}: {error}\n")
        return EXIT_CONFIGURATION
    is_compiled = use_compiled(not os.environ.get(PURE_VARIABLE))
    logger.info("record_check", compiled=is_compiled)
    raise_descriptor_limit()
    try:
        uvloop.run(serve(config, logger))
    except QuorumFailedError as error:
        is_storage = isinstance(error.__cause__, OSError)
        exit_code = EXIT_QUORUM_STORAGE if is_storage else EXIT_DEFECT
        logger.error("quorum_failed", exit_code=exit_code, cause=repr(str(error)))
        if not is_storage:
            traceback.print_exception(error)
        return exit_code
    except (OSError, LogError, StorageMismatchError, ValueError) as error:
        logger.error("cannot_run", cause=repr(f"{type(error).__name__}: {error}"))
        return EXIT_ENVIRONMENT
    logger.info("stopped")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
