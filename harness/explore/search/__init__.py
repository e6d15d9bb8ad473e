"""Which trial comes next, and what a search learns from it. It starts nothing and has no clock.

- `search`: the order of the trials, and when a suspicion is confirmed and small enough
- `screening`: single disturbances that share a run
- `repetition`: when what was repeated is a finding
- `pace`: which kind of program has had more than its share of the time
- `room`: how many trials take place side by side
- `novelty`: what a trial met that none before had met, and programs made from those that did
- `corpus`: what a search leaves for later ones
- `diary`: what was tried, for the page
"""
