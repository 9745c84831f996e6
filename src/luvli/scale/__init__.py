"""Ray: `luvli predict --engine ray` and `luvli serve --engine ray` (extra `luvli[scale]`)."""
