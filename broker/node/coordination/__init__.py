"""The coordinators of this broker: consumer groups and transactions over the partitions of their internal topics."""
