"""The share coordinator: what each share group has done of each partition, kept in `__share_group_state` (KIP-932)."""
