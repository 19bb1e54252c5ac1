"""Every class's example runs."""

from __future__ import annotations

import doctest
import inspect
import os
import queue
import threading

import numpy as np
import pytest

import outlive
import outlive.bag

CLASSES = [thing for thing in vars(outlive).values() if inspect.isclass(thing)]
CLASSES += [outlive.bag.Reader, outlive.bag.Writer, outlive.bag.Message]
WITH_EXAMPLES = [thing for thing in CLASSES if ">>>" in (thing.__doc__ or "")]


@pytest.mark.parametrize("thing", WITH_EXAMPLES, ids=lambda thing: thing.__name__)
def test_example(thing: type, folder: str) -> None:
    words = dict(vars(outlive), outlive=outlive, folder=folder, np=np, os=os, threading=threading, stdlib_queue=queue)
    runner = doctest.DocTestRunner(optionflags=doctest.IGNORE_EXCEPTION_DETAIL)
    test = doctest.DocTestParser().get_doctest(thing.__doc__ or "", words, thing.__name__, None, None)
    out: list[str] = []
    runner.run(test, out=out.append, clear_globs=True)
    assert runner.summarize(verbose=False).failed == 0, "".join(out)


def test_every_class_says_what_it_is_and_most_show_it() -> None:
    for thing in CLASSES:
        assert thing.__doc__, thing
    assert len(WITH_EXAMPLES) >= 15
