"""A paper's table or figure, made again with the code that schedules: one file an experiment.

A module here with an object `EXPERIMENT` is one (see `experiment.Experiment`); `registry` finds them.
"""
