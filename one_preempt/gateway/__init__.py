"""The gateway between zones: it says where an external request goes, and never acts in a zone itself.

`desk.py` answers users' commands, `upkeep.py` looks at the zones; both go by the ledger alone, so that the process may
be killed at any moment (docs/decisions/0064).
"""
