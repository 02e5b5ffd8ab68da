"""Example tasks of the tenant `clinic`."""
