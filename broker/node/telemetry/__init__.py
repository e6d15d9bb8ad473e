"""What clients push of their own metrics (KIP-714): the rules, and the file that it lands in."""
