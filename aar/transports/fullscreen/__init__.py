"""The full-screen interface: `aar tui --fixed`. Everything in it reads the session's journal; nothing calls it back."""
