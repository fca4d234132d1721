"""An MCP server for Signal, over a running signal-cli REST API."""
