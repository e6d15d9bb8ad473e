"""A CycloneDX bill of materials from the lock files: `python .ci/sbom.py OUT`. The same locks, the same file.

Names, versions, package URLs and SHA-256 sums of every file that the lock lets in. Licences are not in a lock and so
not here. Shown by tests/repository/test_repository_supply.py.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
import uuid
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LOCKS = (ROOT / "requirements.lock", ROOT / "requirements-dev.lock")
_PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)(?:\s*;\s*([^\\]+?))?\s*\\?$")
_HASH = re.compile(r"^\s+--hash=sha256:([0-9a-f]{64})\s*\\?$")


class LockError(ValueError):
    """A line of the lock file that says neither package nor hash."""


def read_lock(text: str) -> dict[tuple[str, str], list[str]]:
    """SHA-256 sums by name and version, in the file's order."""
    found: dict[tuple[str, str], list[str]] = {}
    sums: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        if pin := _PIN.match(line):
            sums = found.setdefault((re.sub(r"[-_.]+", "-", pin[1]).lower(), pin[2]), [])
        elif digest := _HASH.match(line):
            sums.append(digest[1])
        else:
            raise LockError(f"line {number}: expected name==version or --hash=sha256:..., got {line[:60]!r}")
    return found


def bill(lock: str, name: str, version: str) -> dict[str, Any]:
    """The document; its serial number is derived from what it holds."""
    root = f"pkg:pypi/{name}@{version}"
    components = [
        {
            "type": "library",
            "bom-ref": f"pkg:pypi/{package}@{release}",
            "name": package,
            "version": release,
            "purl": f"pkg:pypi/{package}@{release}",
            "hashes": [{"alg": "SHA-256", "content": digest} for digest in sums],
        }
        for (package, release), sums in sorted(read_lock(lock).items())
    ]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, root + lock)}",
        "version": 1,
        "metadata": {
            "component": {"type": "application", "bom-ref": root, "name": name, "version": version, "purl": root}
        },
        "components": components,
        "dependencies": [{"ref": root, "dependsOn": [item["bom-ref"] for item in components]}],
    }


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        sys.stderr.write("usage: python .ci/sbom.py OUT\n")
        return 2
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    lock = "".join(path.read_text(encoding="utf-8") for path in LOCKS)
    # The environment may lack the project itself, so the version is read as the build reads it.
    package = re.search(
        project["tool"]["hatch"]["version"]["pattern"], (ROOT / "harness/__init__.py").read_text("utf-8")
    )
    assert package is not None
    document = bill(lock, str(project["project"]["name"]), package["version"])
    out = Path(arguments[0])
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
