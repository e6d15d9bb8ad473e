"""Docker as a place for reference brokers: the network (network.py), one container (container.py), the layout."""
