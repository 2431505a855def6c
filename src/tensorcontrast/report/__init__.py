"""Looking at what was learned."""
