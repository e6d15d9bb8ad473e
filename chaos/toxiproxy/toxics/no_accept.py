"""no_accept: no connection is accepted. The listener's queue is full, so the kernel drops connection requests.

A connect() then hangs. It succeeds some seconds after the toxic was removed, when its SYN is sent again (on Linux after
1 s, 3 s and 7 s). To a client it looks like a host behind a firewall that drops packets, or like a host that is too
busy to accept. With `end_open` open connections first end with RST, so that clients must connect again. Otherwise the
bytes of open connections pass. The proxy performs it.
"""

from __future__ import annotations

from chaos.toxiproxy.toxic import Attribute, ToxicSpec
from chaos.toxiproxy.toxics.noop import Noop

SPEC = ToxicSpec(
    type="no_accept",
    attributes=(Attribute(name="end_open", default=1, maximum=1),),
    make=Noop,
    stops_accepting=True,
)
