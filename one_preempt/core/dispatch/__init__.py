"""In which order external requests go to the clusters that get shares of them (JPDC12 section 4.2).

The policies are found by their files, as those of other families: a module here with an object `POLICY`.
"""
