#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# A workload of Python's, as work.c: reads "belowN THREADS CALLS", makes CALLS calls of fix_add() below N
# frames of Python more than there are, and says how many ns that took, on the CPU and in all.
import ctypes
import os
import sys
import time

WARM_UP = 8
add = ctypes.PyDLL(sys.argv[0] + ".so").fix_add


def calls_of(cnt):
    for _ in range(cnt):
        add(1, 2)


def loop(cnt):
    calls_of(WARM_UP)
    cpu, wall = time.thread_time_ns(), time.monotonic_ns()
    calls_of(cnt - WARM_UP)
    print(time.thread_time_ns() - cpu, time.monotonic_ns() - wall, flush=True)


def below(n, cnt):
    if n:
        below(n - 1, cnt)
    else:
        loop(cnt)


os.sched_setaffinity(0, {int(sys.argv[1])})
for line in sys.stdin:
    name, _, cnt = line.split()
    below(int(name[5:]), int(cnt))
