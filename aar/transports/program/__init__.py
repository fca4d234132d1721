"""What every command has, whoever it serves: flags, settings, a model, a screen, an end."""
