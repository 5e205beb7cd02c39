"""What a simulated cloud is asked to run: workload traces, models, and what is done to them before they are replayed.

A workload is a value (`workload.Workload`). `swf` and `lwf` read and write files, `lublin99` draws from a model;
`annotate`, `inject` and `scaling` make one workload out of another. Nothing here knows the scheduler.
"""
