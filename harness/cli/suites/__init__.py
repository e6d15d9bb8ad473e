"""Commands about suites, scenarios and faults, which start nothing: `harness validate`, `harness init`, `harness list`
and `harness schema`.

- `commands`: their options
- `inspect`: what there is, and whether a file is right
- `fault_words`: a fault in words
- `init`: files to begin with
"""
