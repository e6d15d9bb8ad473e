"""The ports through which chaos reaches a cluster, by kind of target.

The classes of the harness that own a thing implement its port directly. So a new act stands in its protocol here, in
the cluster that can do it, and in its fault.
"""
