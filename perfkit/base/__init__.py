"""What every room builds on: the contract of results, reading and writing files, work on threads or a cluster."""
