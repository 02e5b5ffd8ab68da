"""Example tasks of the tenant `sensors`."""
