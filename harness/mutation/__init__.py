"""The chaos scenarios against wrong brokers and clients with bugs: what a scenario must catch, and whether it does."""
