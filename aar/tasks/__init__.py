"""Tasks: prompts that are kept in a file, done when somebody asks for it or when they are due."""
