"""An MCP server that searches the web, reads pages and reads feeds."""
