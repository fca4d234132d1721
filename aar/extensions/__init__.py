"""Extensions: Python files of the user, of a project or of installed packages that add tools, hooks and commands."""
