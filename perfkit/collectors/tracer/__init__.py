"""Tracing: run code and record its instructions and addresses. :class:`perfkit.collectors.Tracer` is the way in."""
