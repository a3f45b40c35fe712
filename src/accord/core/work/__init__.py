"""Edge 2, work to backend: derive, negotiate, plan, emulate."""
