"""no_accept: nobody accepts connections. The listener's queue is full, so the kernel drops connection requests.

A connect() then hangs. It succeeds some seconds after the toxic is gone, when its SYN is sent again (after 1 s, 3 s, 7
s on Linux). It looks like a host behind a firewall that drops packets, or like a host that is too busy to accept. With
`end_open` open connections first end with RST, so that clients must connect. The proxy performs it. Bytes of
connections that stay open pass.
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
