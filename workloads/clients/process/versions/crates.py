"""librdkafka in a version of one's choice, built by cargo from the sources that the crate rdkafka-sys carries.

librdkafka has no registry of its own. A version of rdkafka-sys carries one version of it and goes with some versions of
the crate rdkafka, which our program uses. So what can be had is a list, and it stands here.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from workloads.clients.process.build import Built, start_rust
from workloads.clients.process.making import run_step
from workloads.clients.process.rust import compile_rust
from workloads.clients.process.shipped import sources
from workloads.clients.process.versions.installers import NoSuchVersion, Tool

CARGO: Final = Tool("cargo", "install Rust 1.85 or newer (rustup.rs)")
_LOCK: Final = "Cargo.lock"
_MANIFEST: Final = "Cargo.toml"


class Carried(NamedTuple):
    bindings: str  # the version of rdkafka-sys
    crate: str  # The version of the crate rdkafka.
    features: str = ""  # Our program's features. An older crate needs some.


# From crates.io: rdkafka-sys names the librdkafka that it carries behind the "+" of its version.
CARRIED: Final[Mapping[str, Carried]] = {
    "1.6.1": Carried("4.0.0", "0.27.0", "before-28"),
    "1.7.0": Carried("4.1.0", "0.27.0", "before-28"),
    "1.8.2": Carried("4.2.0", "0.28.0", "before-29"),
    "1.9.2": Carried("4.5.0", "0.33.2", "before-37"),
    "2.2.0": Carried("4.6.0", "0.34.0", "before-37"),
    "2.3.0": Carried("4.8.0", "0.37.0"),
    "2.10.0": Carried("4.9.0", "0.38.0"),
    "2.12.1": Carried("4.10.0", "0.39.0"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LibrdkafkaCrate:
    language: str = "rust"
    registry: str = "crates.io"
    tools: Sequence[Tool] = (CARGO, Tool("make", "install make and a C compiler (apt install build-essential)"))

    @property
    def sources(self) -> Mapping[str, str]:
        own = {name: text for name, text in sources(self.language).items() if name != _LOCK}
        return {**own, "carried": repr(CARRIED)}

    def install(self, client: str, version: str, directory: Path) -> Mapping[str, str]:
        if version not in CARRIED:
            why = f"{self.registry} has no rdkafka-sys with librdkafka {version} that our program goes with"
            raise NoSuchVersion(client, why, version, CARRIED)
        carried = CARRIED[version]
        manifest = directory / _MANIFEST
        text = manifest.read_text(encoding="utf-8")
        for crate, wanted in (("rdkafka", carried.crate), ("rdkafka-sys", carried.bindings)):
            text = re.sub(rf'^({crate} = {{ version = "=)[^"]+', rf"\g<1>{wanted}", text, flags=re.MULTILINE)
        manifest.write_text(text, encoding="utf-8")
        features = ["--features", carried.features] if carried.features else []
        compile_rust(client, directory, features)
        lock = tomllib.loads((directory / _LOCK).read_text(encoding="utf-8"))
        rustc = run_step(client, ["rustc", "--version"], directory).split()[1]
        crates = {package["name"]: package["version"] for package in lock["package"] if package["name"] != "client"}
        return {**crates, "librdkafka": version, "rust": rustc}

    def start(self, directory: Path) -> Built:
        return start_rust(directory)
