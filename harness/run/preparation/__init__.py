"""What happens before the first measured cell: brokers get warm, and the load generator is measured by itself.

- `warm_up`: load that is not measured, for brokers that become faster while they run
- `ceiling_measurement`: what the load generator of this host can reach
- `host_ceilings`: the same for load hosts
- `null_broker`: the broker that stores nothing, which both are measured against
"""
