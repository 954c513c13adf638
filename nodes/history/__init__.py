"""History as a provider accepts it: small passes over the working set, each with its decisions."""
