"""May this request enter, and under which terms: LEASE attributes, the administrator's rules, gangs."""
