"""The proxies that an operator lets run on this host: where each listens, its upstream, and what may be done to it.

Addresses come only from this file. The harness only names a proxy and a fault. Shown by
tests/chaos/test_chaos_fault_host_permits.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Final

from pydantic import Field, field_validator, model_validator

from broker.door.addresses import AddressError, parse_address
from chaos.faults import FAULTS
from chaos.fields import Duration, StrictModel
from runlog.files.nearest import nearest_name

# What the faults of links need (chaos/faults). `cut` switches a proxy off; the others are toxics.
_PERMITS: Final = tuple(spec.host_permit for spec in FAULTS.values() if spec.is_of_links and spec.host_permit)
BREAKAGES: Final = tuple(dict.fromkeys(permit.word for permit in _PERMITS))
KAFKA: Final = "kafka_"  # begins the names of toxics that know Kafka's requests. They need `requests: true`.
LINKS_MAX: Final = 64  # per proxy
ProxyName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
_LINK: Final = re.compile(r"(?:(?P<kind>controller):)?(?P<source>client|\d{1,10})->(?P<target>\d{1,10})")


class ProxyPermit(StrictModel):
    """One proxy of this host."""

    listen: str = Field(max_length=300, description="host:port that the connections come to, and nothing else")
    upstream: str = Field(max_length=300, description="host:port that they are passed on to: the broker's own listener")
    carries: tuple[str, ...] = Field(
        min_length=1, max_length=LINKS_MAX, description="client->1, 2->1, controller:2->1: all connections that come"
    )
    allow: tuple[str, ...] = Field(
        min_length=1,
        description=", ".join(word for word in BREAKAGES if not word.startswith(KAFKA))
        + "; with `requests` also the faults whose names begin with kafka_",
    )
    requests: bool = Field(
        default=False,
        description="it may read Kafka's requests, and tell the harness which records of a run's topics the broker "
        "took; never what is in them",
    )
    tls: bool = Field(default=False, description="the broker's listener speaks TLS, which passes through the proxy")
    broken_at_most: Duration = Field(default=300_000, description="then the worker mends it by itself")

    @field_validator("listen", "upstream")
    @classmethod
    def _is_address(cls, text: str) -> str:
        try:
            host, port = parse_address(text)
        except AddressError as error:
            raise ValueError(str(error)) from error
        if not host or not port:
            raise ValueError(f"expected host:port, got {text!r}")
        return text

    @field_validator("allow")
    @classmethod
    def _are_known(cls, words: tuple[str, ...]) -> tuple[str, ...]:
        return known_words(words, BREAKAGES)

    @model_validator(mode="after")
    def _leads_elsewhere(self) -> ProxyPermit:
        if self.listen == self.upstream:
            raise ValueError(f"listen and upstream are the same address, {self.listen}")
        if len(self.links) < len(self.carries):
            raise ValueError("carries names a link twice")
        of_kafka = [word for word in self.allow if word.startswith(KAFKA)]
        if of_kafka and not self.requests:
            raise ValueError(f"allow has {', '.join(of_kafka)}: that needs `requests: true`")
        if self.requests and (len(self.links) > 1 or not self.carries[0].strip().startswith("client->")):
            raise ValueError("requests: is for a proxy that carries the clients of one broker and nothing else")
        if self.requests and self.tls:
            raise ValueError("requests: nobody but client and broker can read what TLS carries; leave one of them out")
        return self

    @property
    def links(self) -> frozenset[str]:
        """The name of a link as faults use it: client-1, internal-2-1, controller-2-1. Raises ValueError for any other
        text."""
        return frozenset(link_name(text) for text in self.carries)


def link_name(text: str) -> str:
    found = _LINK.fullmatch(text.strip())
    if found is None or (found["kind"] and found["source"] == "client"):
        raise ValueError(f"carries: {text!r} is no link: write client->1, 2->1 or controller:2->1, with broker ids")
    if found["source"] == "client":
        return f"client-{int(found['target'])}"
    source, target = int(found["source"]), int(found["target"])
    if source == target:
        raise ValueError(f"carries: {text!r} leads from a broker to itself")
    return f"{found['kind'] or 'internal'}-{source}-{target}"


def known_words(words: tuple[str, ...], known: Sequence[str]) -> tuple[str, ...]:
    """The words of an `allow`. Raises ValueError for one that permits nothing."""
    for word in words:
        if word not in known:
            near = nearest_name(word, known)
            raise ValueError(
                f"{word!r} permits nothing; " + (f"did you mean {near!r}?" if near else f"there are {', '.join(known)}")
            )
    return words


def shared_problem(proxies: Mapping[str, ProxyPermit]) -> str:
    """What two proxies have both although only one may. Empty if nothing is wrong."""
    listens: dict[str, str] = {}
    links: dict[str, str] = {}
    for name, proxy in proxies.items():
        if (other := listens.setdefault(proxy.listen, name)) != name:
            return f"proxies {other} and {name} both listen on {proxy.listen}"
        for link in sorted(proxy.links):
            if (other := links.setdefault(link, name)) != name:
                return f"proxies {other} and {name} both carry {link}"
    return ""


def breakage_of(toxic_type: str, attributes: Mapping[str, int | str]) -> str | None:
    """The permit that such a toxic needs. None for a toxic that is never allowed.

    An attribute that is left out is 0, as at the proxy server: a `bandwidth` without a rate is a stall.
    """
    of_type = [permit for permit in _PERMITS if permit.toxic and permit.toxic == toxic_type]
    fitting = [permit for permit in of_type if _has(attributes, permit.attributes)]
    # The fault that names the most attributes is meant, and not one that allows any.
    return max(fitting, key=lambda permit: len(permit.attributes)).word if fitting else None


def _has(attributes: Mapping[str, int | str], wanted: Mapping[str, int]) -> bool:
    return all((attributes.get(name) or 0) == value for name, value in wanted.items())
