"""Standard input and output as the wire of a protocol: whole lines in, whole lines out."""
