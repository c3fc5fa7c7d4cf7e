"""Work that is shared out: threads of this process, or the workers of a cluster."""
