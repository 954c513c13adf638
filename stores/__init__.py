"""Everything that touches disk."""
