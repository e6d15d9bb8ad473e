"""What stands between a broker that we did not write and its C library: a wrong clock and a failing disk on demand.

`interposer.c` is loaded into the process with LD_PRELOAD (build.py compiles it, once a source) and obeys a mapped file
(page.py). So Apache Kafka gets the disk faults of the reference broker and a clock of its own without a privilege, and
only on its segment files. A broker without it is untouched.
"""
