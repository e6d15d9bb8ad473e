"""Client quotas (KIP-13, KIP-124, KIP-219, KIP-546): who may send and fetch how much, and who waits.

client_quotas has the rates and the limits, and is pure. charges counts one request, part is what the kernel asks.
Limits are records of the metadata, which the controller checks and keeps (broker/controller/quotas.py).
"""
