"""Example tasks of the tenant `vision`."""
