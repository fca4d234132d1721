"""Runs: tasks that other programs give Aar, in sessions that stay open between them."""
