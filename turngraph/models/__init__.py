"""Chat models and embedders by name."""
