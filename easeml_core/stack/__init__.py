"""The local stack: every server of one machine, configured, started, watched and stopped as one."""
