"""When hosts are on: what they draw, and whether room comes from waking one or from preempting.

The energy policies are found by their files, as those of other families: a module here with an object `POLICY`.
"""
