"""The ledger, kept: in a database (`sql_lease_store`) or in memory (`memory_lease_store`)."""
