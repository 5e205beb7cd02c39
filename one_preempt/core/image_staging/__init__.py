"""When images are transferred to the nodes, and what of them is kept there (VW07 section 6): one policy a file."""
