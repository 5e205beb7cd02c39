"""The discrete-event simulator: the production scheduling cycle on a virtual clock over the simulated cloud.

No XML stands between them: `SimulatedPoolReader` and `SimulatedEnactor` implement the scheduler's ports on the
cloud's own objects, and pay for what changed only.
"""
