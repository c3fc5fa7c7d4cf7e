"""A compiled reader of delimited plain numbers, several times as fast as general ones.

It takes what large tables of counts consist of, digits with at most a decimal point, and gives up at anything else;
`perfkit.readers.grid` then reads the text with Arrow, which takes everything.
"""

import numpy as np
from numba import njit

_ZERO, _NINE, _POINT, _NEWLINE, _RETURN = 48, 57, 46, 10, 13
# Up to here a whole number and a power of ten are exact, so that their quotient is the nearest number to the decimal.
_MAX_DIGITS = 15
_POWERS = 10.0 ** np.arange(_MAX_DIGITS + 1)


@njit(nogil=True, cache=True)
def parse_numbers(data: np.ndarray, delimiter: int, to: np.ndarray, out: np.ndarray) -> int:
    """Read rows of numbers into ``out``, column ``i`` of the text into row ``to[i]`` of it.

    Parameters
    ----------
    data : (n,) uint8
        The text, without header.
    delimiter : int
        The character between the cells.
    to : (columns,) int64
        Where each column goes.
    out : (columns, rows) float64
        Filled with the numbers; NaN where a cell is empty.

    Returns
    -------
    int
        The number of rows; -1 where a cell is not a plain number, or a row has not as many cells as there are columns.
    """
    n, columns = data.size, to.size
    at, row = 0, 0
    while at < n:
        if data[at] == _NEWLINE:
            at += 1
            continue
        if data[at] == _RETURN and at + 1 < n and data[at + 1] == _NEWLINE:
            at += 2
            continue
        for column in range(columns):
            value, digits, decimals = 0, 0, -1
            while at < n:
                c = data[at]
                if _ZERO <= c <= _NINE:
                    value = value * 10 + (c - _ZERO)
                    digits += 1
                elif c == _POINT and decimals < 0:
                    decimals = digits
                else:
                    break
                at += 1
            if digits > _MAX_DIGITS or row >= out.shape[1]:
                return -1
            if digits == 0:
                if decimals >= 0:
                    return -1
                out[to[column], row] = np.nan
            elif decimals < 0 or decimals == digits:
                out[to[column], row] = value
            else:
                out[to[column], row] = value / _POWERS[digits - decimals]
            if column < columns - 1:
                if at >= n or data[at] != delimiter:
                    return -1
                at += 1
        if at < n and data[at] == _RETURN:
            at += 1
        if at < n:
            if data[at] != _NEWLINE:
                return -1
            at += 1
        row += 1
    return row
