"""An MCP server for the issues of a GitLab."""
