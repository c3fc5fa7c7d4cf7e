"""What came with the system, told by its name.

Nothing large is imported here: the process that a program is recorded in needs this, and must not load NumPy, whose
libraries change how that program's ``printf`` works (they register conversions of their own).
"""

from functools import lru_cache

STUB = "@plt"  # behind a function's name, as objdump writes it: the code by which a program calls it in a library
_SYSTEM = ("/usr/", "/lib/", "/opt/", "/nix/", "/snap/", "/proc/", "/dev/", "/sys/", "/etc/")
_TOOLCHAIN = ("/rustc/", "/rustlib/", "/rust/deps/", "/.cargo/registry/", "/lib/gcc/", "/include/c++/")


@lru_cache(maxsize=4096)  # asked about each of a trace's instructions
def is_system(file: str) -> bool:
    """Whether a source file came with the compiler or a library, and is not the user's own.

    Examples
    --------
    >>> is_system("/usr/include/c++/12/bits/stl_vector.h"), is_system("/srv/ada/solver.cpp")
    (True, False)
    """
    return file.startswith(_SYSTEM) or any(part in file for part in _TOOLCHAIN)
