"""The network side: listeners, connections, channels to peers, and the limits that prevent one peer from harming
others.

It knows no API: a request goes to the function that is given as `dispatch`.
"""
