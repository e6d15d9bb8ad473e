"""The sections of a broker's settings, by subject. A part of the node takes the sections that it needs, so its imports
show which settings can change what it does."""
