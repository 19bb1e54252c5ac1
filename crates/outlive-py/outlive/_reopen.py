"""Opens unpickled objects again: what is there, never a new one."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from ._outlive import Domain

_Thing = TypeVar("_Thing", covariant=True)


class _Opens(Protocol[_Thing]):
    def open(self, name: str, *, domain: Domain, **options: Any) -> _Thing: ...


def reopen_domain(path: str, group: int | None) -> Domain:
    return Domain.open(path, group=group)


def reopen(kind: _Opens[_Thing], name: str, domain: Domain, options: dict[str, bool]) -> _Thing:
    return kind.open(name, domain=domain, **options)
