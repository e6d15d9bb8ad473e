"""What a finding is for others: which findings are one, what they say to a person, and files that show them again.

- `causes`: which findings have one cause
- `known_findings`: those that the user knows and allows
- `story`: a finding as text
- `exports`: a finding as a test, a scenario, and commands of the client protocol
- `junit`: the search as junit.xml
"""
