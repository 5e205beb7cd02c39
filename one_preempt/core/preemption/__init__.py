"""Which running leases leave so that a request can start (CCPE13, section 6).

`victim_choice.choose_victims` is the one way in: it takes a `problem.PreemptionProblem` and one policy and returns
a `Choice` or a `NoChoice`. A policy is one file here with an object `POLICY`: it picks among candidate sets, knows
nothing of hosts, and does nothing.
"""
