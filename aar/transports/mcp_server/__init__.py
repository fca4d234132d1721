"""Aar as an MCP server: other agents prompt its sessions, look after them and cancel what they began."""
