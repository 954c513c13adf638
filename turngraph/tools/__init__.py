"""The six tools: read, write, edit, exec, memory_search, memory_get."""
