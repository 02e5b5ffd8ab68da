"""Example tasks of the tenant `archive`."""
