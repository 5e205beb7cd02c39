"""Which cluster of several gets how many of the requests from other sites (JPDC12 section 4.1).

The policies are found by their files, as those of other families: a module here with an object `POLICY`.
"""
