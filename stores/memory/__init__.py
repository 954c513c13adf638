"""The derived memory index: chunks, postings, vectors, and their search."""
