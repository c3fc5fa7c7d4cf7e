"""Whether the parts of a DAG fit together, checked before compiled code, which knows no bounds, follows them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numba import njit

from perfkit.dag.program import CALL, LEVELS, LOAD, READ, RETURN, STORE, BlockProgram, Ints
from perfkit.errors import DataError, counted

# Generous: kernels have frames of some hundred slots, and vectors of at most 64 elements of at most 64 bytes.
_LARGEST_FRAME, _LARGEST_SHAPE, _DEEPEST = 1 << 22, 1 << 20, 1 << 20
_SHORT = 20_000  # a stream for which loading a compiler takes longer than walking it


def check_stream(program: BlockProgram, stream: Ints) -> None:
    """Check every index of a DAG's tables and of its stream.

    Raises
    ------
    DataError
        Something points outside of what it points into: the message names the table.
    """
    _check_types(program, stream)
    blocks = len(program.block_addresses)
    _offsets("block_ops", program.block_ops, blocks, len(program.op))
    _offsets("block_phis", program.block_phis, blocks, len(program.phi_into))
    _offsets("phi_edges", program.phi_edges, len(program.phi_into), len(program.edge_from))
    _offsets("call_args", program.call_args, len(program.call_frame), len(program.arg_from))
    _same("block_origin", program.block_origin, blocks)
    for name in ("block_instructions", "block_covered"):
        _same(name, getattr(program, name), blocks)
        _within(name, getattr(program, name), 0, _LARGEST_FRAME)
    _within("delay", program.delay, -_LARGEST_SHAPE, _LARGEST_SHAPE)
    for name in ("left", "right", "into", "shape", "level", "call", "delay"):
        _same(name, getattr(program, name), len(program.op))
    _same("edge_slot", program.edge_slot, len(program.edge_from))
    _same("arg_into", program.arg_into, len(program.arg_from))
    _within("frame", program.frame, 0, _LARGEST_FRAME)
    if not len(program.frame):
        raise DataError("frame: expected the slots of at least one function")
    top = int(program.frame.max())
    for name in ("left", "right", "into", "edge_slot", "arg_from"):
        _within(name, getattr(program, name), -1, top)
    for name in ("phi_into", "arg_into"):
        _within(name, getattr(program, name), 0, max(top, 1))
    _within("op", program.op, 0, READ + 1)
    _within("level", program.level, -1, len(LEVELS))
    _within("shape", program.shape, 0, len(program.shapes))
    _within("shapes", program.shapes, 1, _LARGEST_SHAPE)
    _within("call", program.call, -1, len(program.call_frame))
    _within("call_frame", program.call_frame, 0, _LARGEST_FRAME)
    if (program.call[program.op == CALL] < 0).any():
        raise DataError("call: an operation that calls names no call")
    _within("block_addresses", program.block_addresses, 0, len(program.op) + 1)
    _check_stream(program, stream, blocks)


def _check_types(program: BlockProgram, stream: Ints) -> None:
    narrow = {"op": np.uint8, "shape": np.uint8, "level": np.int8}
    for name, table in program._asdict().items():
        kind = np.dtype(narrow.get(name, np.int64))
        wanted = 2 if name == "shapes" else 1
        if table.dtype != kind or table.ndim != wanted or (wanted == 2 and table.shape[1] != 2):
            raise DataError(
                f"{name}: expected {counted(wanted, 'dimensions')} of {kind}; found {table.shape} of {table.dtype}"
            )
    if stream.dtype != np.int64 or stream.ndim != 1:
        raise DataError(f"stream: expected one dimension of int64; found {stream.shape} of {stream.dtype}")


def _offsets(name: str, offsets: Ints, n: int, total: int) -> None:
    fits = len(offsets) == n + 1 and offsets[0] == 0 and offsets[-1] == total and (np.diff(offsets) >= 0).all()
    if not fits:
        raise DataError(f"{name}: expected {n + 1} offsets that rise from 0 to {total}")


def _same(name: str, table: Ints, n: int) -> None:
    if len(table) != n:
        raise DataError(f"{name}: expected {n} entries; found {len(table)}")


def _within(name: str, table: Any, low: int, end: int) -> None:
    if table.size and (int(table.min()) < low or int(table.max()) >= end):
        raise DataError(f"{name}: expected values from {low} to {end - 1}; found {table.min()} to {table.max()}")


def _check_stream(program: BlockProgram, stream: Ints, blocks: int) -> None:
    access = (program.op == LOAD) | (program.op == STORE)
    starts = program.block_ops
    per_block = np.array([access[a:b].sum() for a, b in pairwise(starts.tolist())], dtype=np.int64)
    wrong = np.flatnonzero(per_block != program.block_addresses)
    if wrong.size:
        raise DataError(
            f"block_addresses: block {wrong[0]} has {per_block[wrong[0]]} loads and stores and "
            f"{program.block_addresses[wrong[0]]} addresses"
        )
    # What an access without an address needs: a level of its own.
    unknown = program.level[access] < 0
    first = np.concatenate([[0], np.cumsum(per_block)]).astype(np.int64)
    steps = np.zeros(len(program.op), dtype=np.int64)
    steps[program.op == CALL], steps[program.op == RETURN] = 1, -1
    depth = np.array(
        [
            (np.cumsum(steps[a:b]).min(initial=0), steps[a:b].sum(), np.cumsum(steps[a:b]).max(initial=0))
            for a, b in pairwise(starts.tolist())
        ],
        dtype=np.int64,
    ).reshape(blocks, 3)
    walk = _walk if len(stream) > _SHORT else _walk.py_func
    at, why = walk(stream, program.block_addresses, first, unknown, depth, _DEEPEST)
    if why:
        told = {
            1: "names a block that the tables do not have",
            2: "ends within the addresses of a block",
            3: "has an access without an address whose level is not given",
            4: "returns from more functions than were called",
            5: f"calls functions over {_DEEPEST:,} deep",
        }[int(why)]
        raise DataError(f"stream: position {at} {told}")


@njit(cache=True)
def _walk(stream: Any, addresses: Any, first: Any, unknown: Any, depth: Any, deepest: Any) -> Any:
    """Follow the stream; return where it stops making sense, and which sense (0: all of it does)."""
    at, level = 0, 0
    n = stream.shape[0]
    while at < n:
        block = stream[at]
        if block < 0 or block >= addresses.shape[0]:
            return at, 1
        if at + 1 + addresses[block] > n:
            return at, 2
        for k in range(addresses[block]):
            if stream[at + 1 + k] < 0 and unknown[first[block] + k]:
                return at, 3
        if level + depth[block, 0] < 0:
            return at, 4
        if level + depth[block, 2] > deepest:
            return at, 5
        level += depth[block, 1]
        at += 1 + addresses[block]
    return at, 0
