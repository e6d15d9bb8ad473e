"""Brokers of somebody else on their hosts, by way of the workers there.

- `host_answers`: what is asked of the workers, and their answers in terms of the run
- `host_links`: links whose proxies run on those hosts
- `host_requests`: the Produce requests that these proxies saw
- `host_exits`: which brokers ended by themselves
"""
