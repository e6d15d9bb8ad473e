"""Acts on the proxies of this host as its permits allow, and undoes what it did, as host.py does for its brokers.

A toxic or a cut exists only in the proxy server, which keeps running if the worker is killed. The next start of the
worker mends all proxies, whoever broke them. So the disk only has to hold which server it is (proxy_server.py). Shown
by tests/chaos/test_chaos_fault_host_proxies.py.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from chaos.fault_host.host import Refused
from chaos.fault_host.permits import Permits
from chaos.fault_host.proxy_permits import ProxyPermit, breakage_of
from chaos.fault_host.proxy_server import ProxyServerError, mend
from chaos.fault_host.proxy_servers import ProxyServers
from chaos.fault_host.site import BUSY_S, NotDone
from chaos.faults.probes import Door, probe_link, probe_load
from chaos.link_probe import LinkProbe, LoadProbe
from chaos.ports.security import ProbeAccess
from chaos.toxiproxy.calls import ToxiproxyError
from chaos.toxiproxy.states import ProxyState

RETRY_S: Final = 2.0
TOXICS_MAX: Final = 16  # per proxy
PROBE_MS_MAX: Final = 30_000
PROBE_BYTES_MAX: Final = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ToxicWanted:
    name: str
    type: str
    stream: str
    attributes: Mapping[str, int | str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeWanted:
    """A wanted probe. `size_bytes` 0: one round trip."""

    timeout_ms: int
    stream: str = "downstream"
    size_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyDone:
    """The action was done. It took effect between `from_ns` and `to_ns`, by the monotonic clock of this host."""

    from_ns: int
    to_ns: int
    state: ProxyState | None = None
    probe: LinkProbe | LoadProbe | None = None


@dataclass(slots=True, kw_only=True)
class _Proxy:
    """One proxy. Only code that holds its lock (`alone`) may change it."""

    name: str
    permit: ProxyPermit
    lock: threading.Lock = field(default_factory=threading.Lock)
    toxics: set[str] = field(default_factory=set)
    is_cut: bool = False
    due_s: float | None = None  # when it is mended without a request
    next_try_s: float = 0.0
    mended_because: str = ""  # why it was mended without a request, since it was last broken

    @property
    def is_broken(self) -> bool:
        return self.is_cut or bool(self.toxics)

    @property
    def title(self) -> str:
        return f"proxy {self.name} ({', '.join(self.permit.carries)})"

    def broken(self) -> None:
        """Call this before the action, so that an action that fails half-way is mended too."""
        if not self.is_broken:
            self.mended_because, self.next_try_s = "", 0.0
            self.due_s = time.monotonic() + self.permit.broken_at_most / 1000

    def whole_if_nothing_is_left(self) -> None:
        if not self.is_broken:
            self.due_s = None

    @contextmanager
    def alone(self, within_s: float = BUSY_S) -> Iterator[None]:
        if not self.lock.acquire(timeout=within_s):
            raise NotDone(f"the action before on {self.title} still goes on")
        try:
            yield
        except ToxiproxyError as error:
            raise NotDone(f"{self.title}: {error}", is_unknown=True) from error
        finally:
            self.lock.release()


class ProxyFaults:
    """Call `open` first. `say` is called with lines for the operator."""

    def __init__(self, permits: Permits, servers: ProxyServers, *, say: Callable[[str], object]) -> None:
        self._permits, self._servers, self._say = permits, servers, say
        self._proxies = {name: _Proxy(name=name, permit=permit) for name, permit in permits.proxies.items()}
        self._run_id = ""
        self._heard_s = time.monotonic()
        self._next_start_s = 0.0
        self._is_ending = False

    def open(self) -> None:
        """Start or find the proxy servers. Raises ProxyServerError."""
        if self._proxies:
            self._servers.open()
            self._say(f"{self._servers.described()}: " + ", ".join(self._titles()))

    def _titles(self) -> list[str]:
        return [f"{each.title} on {each.permit.listen}" for each in self._proxies.values()]

    # --- asked by the harness ---------------------------------------------------------------------------------------

    def act(
        self, action: str, name: str, *, toxic: ToxicWanted | None = None, probe: ProbeWanted | None = None
    ) -> ProxyDone:
        """Do one action. Raises Refused or NotDone, which say why nothing was done, or what is unknown."""
        proxy = self._proxies.get(name)
        if proxy is None:
            there = ", ".join(self._proxies) or "no proxy"
            raise Refused(f"{action} of proxy {name[:64]}: this host has {there} on its list")
        if probe is not None:  # without the lock, because it may take long and changes nothing
            return self._probe(proxy, probe)
        with proxy.alone():
            if self._is_ending:
                raise NotDone(f"{action} of {proxy.title}: this worker ends")
            match action:
                case "proxy_state":
                    now_ns = time.monotonic_ns()
                    state = self._servers.of(name).proxy(name)
                    return ProxyDone(from_ns=now_ns, to_ns=time.monotonic_ns(), state=state)
                case "proxy_cut":
                    return self._cut(proxy)
                case "proxy_join":
                    return self._join(proxy)
                case "toxic_add" if toxic is not None:
                    return self._add(proxy, toxic)
                case "toxic_remove" if toxic is not None:
                    return self._remove(proxy, toxic.name)
        raise Refused(f"there is no action {action[:40]!r}")

    def begin_run(self, run_id: str) -> None:
        """Another run uses this host from now on. What an earlier run left is mended."""
        if run_id != self._run_id:
            self._run_id = run_id
            self._mend_all("another run has begun")

    def heard(self) -> None:
        self._heard_s = time.monotonic()

    def step(self) -> None:
        """Called several times a second. Mends what is due, and everything if the harness was silent for too long.
        Starts the proxy server again if it has ended."""
        if not self._proxies:
            return
        now_s = time.monotonic()
        if not self._servers.is_alive() and now_s >= self._next_start_s:
            self._next_start_s = now_s + RETRY_S
            with suppress(NotDone):  # an action holds a proxy now; tried again the next time
                self._start_again()
        lost_s = self._permits.lost_after / 1000
        is_lost = now_s - self._heard_s > lost_s
        for proxy in self._proxies.values():
            is_due = proxy.due_s is not None and now_s > proxy.due_s
            if not proxy.is_broken or not (is_lost or is_due) or now_s < proxy.next_try_s:
                continue
            bound_s = proxy.permit.broken_at_most / 1000
            why = f"the harness was silent for {lost_s:g} s" if is_lost else f"it lasted {bound_s:g} s"
            self._mend_if_free(proxy, why)

    def heal(self) -> None:
        """At the end: mend everything. Nothing is broken after that."""
        self._is_ending = True
        self._mend_all("the worker ends")

    def close(self) -> None:
        """After `heal`. The proxies keep running, unless the operator has said otherwise."""
        if not self._proxies:
            return
        self.heal()
        stays = self._permits.proxies_outlive_worker
        if stays and self._servers.is_alive():
            self._say(
                f"the proxies stay, because links go through them: {self._servers.described()}; end it by its pid"
            )
        self._servers.close(ends=not stays)

    # --- actions ----------------------------------------------------------------------------------------------------

    def _cut(self, proxy: _Proxy) -> ProxyDone:
        self._require(proxy, "cut", "a cut")
        if proxy.is_cut:
            raise NotDone(f"{proxy.title} is cut by this worker already")
        proxy.broken()
        proxy.is_cut = True
        from_ns = time.monotonic_ns()
        state = self._servers.of(proxy.name).disable(proxy.name)
        return ProxyDone(from_ns=from_ns, to_ns=time.monotonic_ns(), state=state)

    def _join(self, proxy: _Proxy) -> ProxyDone:
        if not proxy.is_cut:
            raise NotDone(f"{proxy.title} is not cut by this worker{_early(proxy)}")
        from_ns = time.monotonic_ns()
        state = self._servers.of(proxy.name).enable(proxy.name)
        proxy.is_cut = False
        proxy.whole_if_nothing_is_left()
        return ProxyDone(from_ns=from_ns, to_ns=time.monotonic_ns(), state=state)

    def _add(self, proxy: _Proxy, toxic: ToxicWanted) -> ProxyDone:
        breakage = breakage_of(toxic.type, toxic.attributes)
        if breakage is None:
            raise Refused(f"a toxic {toxic.type[:40]!r} of {proxy.title}: no list allows it")
        self._require(proxy, breakage, f"{breakage} (toxic {toxic.type})")
        if toxic.name in proxy.toxics or len(proxy.toxics) >= TOXICS_MAX:
            raise NotDone(f"{proxy.title} has a toxic {toxic.name} already, or {TOXICS_MAX} others")
        proxy.broken()
        proxy.toxics.add(toxic.name)
        from_ns = time.monotonic_ns()
        self._servers.of(proxy.name).add_toxic(
            proxy.name, toxic.type, toxic.attributes, stream=toxic.stream, name=toxic.name
        )  # fmt: skip
        state = self._servers.of(proxy.name).proxy(proxy.name)
        return ProxyDone(from_ns=from_ns, to_ns=time.monotonic_ns(), state=state)

    def _remove(self, proxy: _Proxy, name: str) -> ProxyDone:
        if name not in proxy.toxics:
            raise NotDone(f"{proxy.title} has no toxic {name} of this worker{_early(proxy)}")
        from_ns = time.monotonic_ns()

        def forget() -> None:
            proxy.toxics.discard(name)
            proxy.whole_if_nothing_is_left()

        self._servers.of(proxy.name).retire_toxic(proxy.name, name, then=forget)
        return ProxyDone(
            from_ns=from_ns, to_ns=time.monotonic_ns(), state=self._servers.of(proxy.name).proxy(proxy.name)
        )

    def _require(self, proxy: _Proxy, breakage: str, what: str) -> None:
        if breakage not in proxy.permit.allow:
            raise Refused(f"{what} of {proxy.title}: this host's list allows {', '.join(proxy.permit.allow)} for it")

    def _probe(self, proxy: _Proxy, wanted: ProbeWanted) -> ProxyDone:
        """Probe through the proxy from this host, on the way that a client or another broker takes."""
        door = Door(address=proxy.permit.listen, access=ProbeAccess(is_tls=proxy.permit.tls))
        from_ns = time.monotonic_ns()
        timeout_ms = min(wanted.timeout_ms, PROBE_MS_MAX)
        found: LinkProbe | LoadProbe
        if wanted.size_bytes:
            size_bytes = min(wanted.size_bytes, PROBE_BYTES_MAX)
            found = probe_load(door, stream=wanted.stream, size_bytes=size_bytes, timeout_ms=timeout_ms)
        else:
            found = probe_link(door, timeout_ms=timeout_ms)
        return ProxyDone(from_ns=from_ns, to_ns=time.monotonic_ns(), probe=found)

    # --- mending without a request ----------------------------------------------------------------------------------

    def _mend_all(self, why: str) -> None:
        for proxy in self._proxies.values():
            # At the end, an action that is under way may break one that is whole yet.
            if (proxy.is_broken or proxy.lock.locked()) and not self._mend_if_free(proxy, why, within_s=BUSY_S):
                self._say(f"{proxy.title} could not be mended now: the action before still goes on")

    def _mend_if_free(self, proxy: _Proxy, why: str, within_s: float = 0.0) -> bool:
        """Mend the proxy. False if another action holds its lock now."""
        if not proxy.lock.acquire(timeout=within_s):
            return False
        try:
            proxy.next_try_s = time.monotonic() + RETRY_S
            mend(self._servers.of(proxy.name), proxy.name)
            _is_whole(proxy, why)
            told = f"{proxy.title} is whole: {why}"
        except (ToxiproxyError, OSError) as error:
            told = f"{proxy.title} could not be mended: {error}"
        finally:
            proxy.lock.release()
        self._say(told)
        return True

    def _start_again(self) -> None:
        """Start the server again. Its toxics and cuts ended with it."""
        ended = self._servers.label
        for proxy in self._proxies.values():
            with proxy.alone():
                if proxy.is_broken:
                    _is_whole(proxy, f"the {ended} there ended by itself")
        try:
            self._servers.open()
            self._say(f"the {ended} had ended: another one was started ({self._servers.described()})")
        except ProxyServerError as error:
            self._say(f"the {ended} has ended, and its links with it: {error}")


def _is_whole(proxy: _Proxy, why: str) -> None:
    proxy.toxics.clear()
    proxy.is_cut = False
    proxy.due_s = None
    proxy.mended_because = why


def _early(proxy: _Proxy) -> str:
    return f": it was mended before, because {proxy.mended_because}" if proxy.mended_because else ""
