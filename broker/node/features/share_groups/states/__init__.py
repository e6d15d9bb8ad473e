"""The share coordinator. It keeps, in `__share_group_state`, which records of a partition each share group has
processed (KIP-932)."""
