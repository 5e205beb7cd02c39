"""The phases of a decision, which `decide` lists in their order, and the parts that they share."""
