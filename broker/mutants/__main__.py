"""`python -m broker.mutants FILE.properties`: a broker that is wrong on purpose. `harness.mutant` in the file says how.

Apart from that it is `python -m broker.node`, which knows nothing of mutants.
"""

from __future__ import annotations

import sys

from broker import mutants
from broker.node.__main__ import main
from broker.node.process.logs import Logger
from broker.node.settings.config import NodeConfig
from broker.node.settings.properties import ConfigError


def _apply(config: NodeConfig, logger: Logger) -> None:
    try:
        mutants.apply(config.own.harness_mutant)
    except mutants.MutantError as error:
        raise ConfigError(f"harness.mutant: {error}") from None
    logger.warning("mutant", name=config.own.harness_mutant, cause="harness.mutant: this broker is wrong on purpose")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], prepare=_apply))
