"""A library between a broker that we did not write and its C library: it gives a wrong clock and a failing disk on
demand.

`interposer.c` is loaded into the process with LD_PRELOAD (build.py compiles it, once for each source) and obeys a
mapped file (page.py). So Apache Kafka gets the disk faults of the reference broker and its own clock without a
privilege. Disk faults act only on its segment files. A broker without the library is not affected.
"""
