"""Runs over HTTP: other programs give Aar a task with a POST, and wait, poll, or read along."""
