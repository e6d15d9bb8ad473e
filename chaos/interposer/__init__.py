"""A library between an Apache Kafka broker and its C library. It gives the broker a wrong clock and a failing disk on
demand.

`interposer.c` is loaded into the process with LD_PRELOAD and reads its rules from a mapped file (fault_page.py).
build.py compiles it, once for each version of the source. So Apache Kafka gets the disk faults of the reference broker
and a clock of its own, and no privilege is needed. Disk faults act only on its segment files. A broker without the
library is not affected.
"""
