"""The phases of a decision, which `decide` lists in their order, and in folders what several of them share."""
