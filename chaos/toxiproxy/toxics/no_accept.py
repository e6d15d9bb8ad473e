"""no_accept: nobody accepts connections: the listener's queue is full, so the kernel drops what asks for one.

A connect() then hangs, and succeeds some seconds after the toxic is gone, when its SYN is sent again (after 1 s, 3 s,
7 s on Linux): a host behind a firewall that drops, or one that is too busy to accept. With `end_open` what is open ends
with RST first, so that clients must connect. The proxy performs it; bytes of connections that stay open pass.
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
