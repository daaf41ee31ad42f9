"""Names to objects: registries that import a module when its entry is first needed, and lazy package attributes."""

from __future__ import annotations

import functools
import pkgutil
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from evenhand.errors import UsageError, unknown_name

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")
Registered = TypeVar("Registered")


class Registry(Generic[T]):
    """Objects of one kind by id.

    An object registers itself where it is defined, with `@registry.register("my-id")`. The registry finds it there:
    `get("my-id")` first tries the module `my_id` of each package, then imports all of them. Other distributions add
    objects through an entry point group.

    Args:
        kind: what the objects are, for error messages ("measure").
        packages: the packages whose modules define the objects.
        group: the entry point group of other distributions, or an empty string for none.
        aliases: former ids and the present ones; `get` accepts them, `ids` does not list them.
    """

    def __init__(
        self, kind: str, packages: tuple[str, ...], *, group: str = "", aliases: Mapping[str, str] | None = None
    ) -> None:
        self.kind = kind
        self._aliases = dict(aliases or {})
        self._packages = packages
        self._group = group
        self._objects: dict[str, T] = {}
        self._complete = False

    def register(self, id: str) -> Callable[[Registered], Registered]:
        """Return a decorator that registers an object under an id."""

        def add(item: Registered) -> Registered:
            self.add(id, item)  # type: ignore[arg-type]
            return item

        return add

    def add(self, id: str, item: T) -> None:
        """Register an object; the same definition may be registered again, as when a module is reloaded."""
        present = self._objects.get(id)
        if present is not None and _origin(present) != _origin(item):
            raise UsageError(f"the {self.kind} {id!r} is registered twice: {_origin(present)} and {_origin(item)}")
        self._objects[id] = item

    def get(self, id: str) -> T:
        """Return the object with this id."""
        id = self._aliases.get(id, id)
        if id not in self._objects:
            self._import_module_of(id)
        if id not in self._objects:
            self._import_all()
        if id not in self._objects:
            points = self._entry_points()
            if id not in points:
                raise unknown_name(self.kind, id, self.ids())
            self._objects[id] = self._load(points[id])
        return self._objects[id]

    def ids(self) -> list[str]:
        """Return every id: ours in the order of the packages, then those of other distributions."""
        self._import_all()
        registered = sorted(self._objects, key=self._position)
        return [*registered, *(name for name in self._entry_points() if name not in self._objects)]

    def values(self) -> list[T]:
        """Return every object, in the order of `ids`."""
        return [self.get(id) for id in self.ids()]

    def __contains__(self, id: object) -> bool:
        id = self._aliases.get(id, id) if isinstance(id, str) else id
        if isinstance(id, str) and id not in self._objects:
            self._import_module_of(id)  # one module instead of all
        return id in self._objects or id in self.ids()

    def _import_module_of(self, id: str) -> None:
        stem = id.replace("-", "_")
        for package in self._packages:
            if stem.isidentifier() and find_spec(f"{package}.{stem}") is not None:
                import_module(f"{package}.{stem}")

    def _import_all(self) -> None:
        if self._complete:
            return
        self._complete = True
        for package in self._packages:
            for module in pkgutil.iter_modules(import_module(package).__path__):
                import_module(f"{package}.{module.name}")

    def _position(self, id: str) -> tuple[int, str]:
        """Sort key: the package that defines the object, then its id."""
        origin = _origin(self._objects[id])
        own = (index for index, package in enumerate(self._packages) if origin.startswith(f"{package}."))
        return next(own, len(self._packages)), id

    def _entry_points(self) -> dict[str, EntryPoint]:
        return _found_entry_points(entry_points, self._group, tuple(sys.path)) if self._group else {}

    def _load(self, point: EntryPoint) -> T:
        try:
            item: T = point.load()
        except Exception as error:  # another distribution's module may fail in any way
            raise UsageError(
                f"the {self.kind} {point.name!r} ({point.value}) could not be loaded: {error}",
                hint="update or remove the package that provides it",
            ) from error
        return item


def entry_points(group: str) -> Iterable[EntryPoint]:
    """Return the entry points of a group; `importlib.metadata` is imported here because it is slow to import."""
    from importlib import metadata

    return metadata.entry_points(group=group)


@functools.lru_cache(maxsize=32)
def _found_entry_points(
    find: Callable[[str], Iterable[EntryPoint]], group: str, path: tuple[str, ...]
) -> dict[str, EntryPoint]:
    """Look once on each import path: the metadata of all installed packages are read, which takes up to 30 ms."""
    return {point.name: point for point in find(group)}


def _origin(item: object) -> str:
    return f"{getattr(item, '__module__', '')}.{getattr(item, '__qualname__', repr(item))}"


STUB_LINE = re.compile(r"^from (?P<module>[\w.]+) import (?P<attribute>\w+) as (?P<name>\w+)(?:  #.*)?$", re.MULTILINE)


def stub_names(package: str, file: str) -> dict[str, str]:
    """Return the public names of a package and their locations, for `lazy_attribute`.

    They are read from the stub `__init__.pyi` beside the package's `__init__.py`: editors and type checkers read the
    same lines. `scripts/package_stubs.py` writes the stubs of registries.
    """
    lines = STUB_LINE.finditer(Path(file).with_suffix(".pyi").read_text(encoding="utf-8"))
    return {
        line["name"]: f"{package}.{line['attribute']}"
        if line["module"] == package
        else f"{line['module']}:{line['attribute']}"
        for line in lines
    }


def lazy_attribute(package: str, targets: Mapping[str, str], name: str) -> object:
    """Resolve an attribute of a package on first use; call it from the package's `__getattr__`.

    A target is `module:attribute`, or `module` for the module itself; a leading dot makes the module relative.
    """
    if name not in targets:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    module, _, attribute = targets[name].partition(":")
    loaded = import_module(module, package)
    return getattr(loaded, attribute) if attribute else loaded
