"""Executed instructions and addresses: `Trace`, its file format, and the decoders of x86-64 and AArch64."""
