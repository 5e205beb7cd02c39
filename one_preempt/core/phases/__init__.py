"""The phases of a decision, one file each, in the order in which `decide` calls them."""
