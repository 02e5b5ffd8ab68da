"""Example tasks of ease.ml, made from real data that installed packages ship."""
