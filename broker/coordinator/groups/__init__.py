"""Consumer groups: the classic protocol (KIP-62, static members of KIP-345), the new one (KIP-848), and offsets."""
