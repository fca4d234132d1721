"""Stand-alone MCP servers: web, GitLab and Signal. Aar itself does not import them; any MCP client can start them."""
