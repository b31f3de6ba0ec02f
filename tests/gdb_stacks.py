# SPDX-License-Identifier: BSD-2-Clause
"""Counts the stacks of a function's calls, as gdb finds them.

Run by gdb: -x, with FUNC_FILE (the path of the library), FUNC_OFFSET (of the function's first
instruction in it) and OUT in the environment; or SYSCALL, the name of a system call, and OUT.
Writes a line for each stack: the number of calls, and FILE:OFFSET of the last byte of the call in each frame, the caller first; inlined frames and those that a tail call has left
are no frames here.
"""
import collections
import os

import gdb

stacks = collections.Counter()
maps = []


def read_maps():
    maps.clear()
    with open(f'/proc/{gdb.selected_inferior().pid}/maps', encoding='utf-8') as lines:
        for line in lines:
            words = line.split(maxsplit=5)
            low, high = (int(word, 16) for word in words[0].split('-'))
            maps.append((low, high, int(words[2], 16), words[5].strip() if words[5:] else ''))


def place(pc):
    for again in (False, True):
        if again:
            read_maps()
        for low, high, offset, path in maps:
            if low <= pc < high and path.startswith('/'):
                return f'{path}:{pc - low + offset:#x}'
    return f'-:{pc:#x}'


def add_stack(frame):
    frames = []
    while frame:
        if frame.type() not in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME):
            frames.append(place(frame.pc() - 1))
        frame = frame.older()
    # Above the dynamic linker's first frame gdb takes the words of argv for frames.
    while frames and frames[-1].startswith('-:'):
        frames.pop()
    stacks[' '.join(frames)] += 1


class Call(gdb.Breakpoint):
    def stop(self):
        add_stack(gdb.newest_frame().older())
        return False


def count_calls():
    gdb.execute('catch load ' + os.path.basename(os.environ['FUNC_FILE']))
    gdb.execute('run')
    read_maps()
    low, offset = next((m[0], m[2]) for m in maps if m[3] == os.environ['FUNC_FILE'])
    gdb.execute('delete')
    Call(f'*{low - offset + int(os.environ["FUNC_OFFSET"], 0):#x}', internal=True)
    gdb.execute('continue')


def count_system_calls():
    # A stop at the entry, and one at the return.
    gdb.execute('catch syscall ' + os.environ['SYSCALL'])
    gdb.execute('run')
    entry = True
    while gdb.selected_inferior().pid:
        if entry:
            add_stack(gdb.newest_frame())
        entry = not entry
        gdb.execute('continue')


def main():
    for line in ('pagination off', 'confirm off', 'backtrace past-main on', 'backtrace limit 200',
                 'debuginfod enabled off', 'breakpoint pending on'):
        gdb.execute(f'set {line}')
    count_system_calls() if 'SYSCALL' in os.environ else count_calls()
    with open(os.environ['OUT'], 'w', encoding='utf-8') as out:
        for stack, calls in sorted(stacks.items()):
            print(calls, stack, file=out)


main()
