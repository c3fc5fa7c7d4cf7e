"""Which dataclasses of a package can be changed after they were made."""

import dataclasses
import importlib
import inspect
import pkgutil


def mutable_dataclasses(package: str, *, known: tuple[str, ...] = ()) -> list[str]:
    """Return the dataclasses of a package and those below that are not frozen, without the known ones."""
    found = set[str]()
    root = importlib.import_module(package)
    names = [package, *(m.name for m in pkgutil.walk_packages(root.__path__, f"{package}."))]
    for module in (importlib.import_module(name) for name in names if not name.endswith(("_child", "__main__"))):
        for name, kind in inspect.getmembers(module, inspect.isclass):
            own = kind.__module__ == module.__name__ and dataclasses.is_dataclass(kind)
            if own and not kind.__dataclass_params__.frozen:
                found.add(name)
    return sorted(found - set(known))
