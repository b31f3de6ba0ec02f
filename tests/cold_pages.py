# SPDX-License-Identifier: BSD-2-Clause
"""Runs `cold_pages.py PROGRAM LINES [FILE]`: PROGRAM, a copy of the fixture cold, LINES times.

Before each line, and before the end, all pages of the segment with .eh_frame are dropped: from the
process, and from the page cache. Status 77 if they can't be. With FILE, PROGRAM waits in a system
call before the end until FILE is there.
"""
import ctypes
import os
import signal
import subprocess
import sys
import time

MADV_PAGEOUT = 21
PIDFD_OPEN, PROCESS_MADVISE = 434, 440
PAGE = 4096

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]


class iovec(ctypes.Structure):
    _fields_ = [('base', ctypes.c_void_p), ('len', ctypes.c_size_t)]


def segments(pid, path):
    """The mappings of the file that can only be read: start, length, offset."""
    with open(f'/proc/{pid}/maps') as maps:
        for line in maps:
            fields = line.split()
            if fields[-1] == path and fields[1] == 'r--p':
                start, end = (int(word, 16) for word in fields[0].split('-'))
                yield start, end - start, int(fields[2], 16)


def main():
    path, lines = os.path.realpath(sys.argv[1]), int(sys.argv[2])
    until = sys.argv[3:]
    program = subprocess.Popen([path] + until, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    program.stdout.readline()
    pidfd = libc.syscall(PIDFD_OPEN, program.pid, 0)
    fd = os.open(path, os.O_RDONLY)
    size = os.fstat(fd).st_size
    seen = libc.mmap(None, size, 1, 1, fd, 0)
    here = list(segments(program.pid, path))

    def drop():
        for _ in range(100):
            left = False
            for start, length, offset in here:
                io = iovec(start, length)
                libc.syscall(PROCESS_MADVISE, pidfd, ctypes.byref(io), ctypes.c_long(1), MADV_PAGEOUT, 0)
                os.posix_fadvise(fd, offset, length, os.POSIX_FADV_DONTNEED)
                pages = ctypes.create_string_buffer(length // PAGE)
                end = min(length, size - offset)
                libc.mincore(seen + offset, end, pages)
                left |= any(byte & 1 for byte in pages.raw)
            if not left:
                return
        program.kill()
        sys.exit(77)

    for line in range(lines):
        drop()
        program.stdin.write(f'{line}\n')
        program.stdin.flush()
        program.stdout.readline()
    drop()
    program.stdin.close()
    if until:
        while not os.path.exists(until[0]):
            time.sleep(0.01)
        program.send_signal(signal.SIGUSR1)
    sys.exit(program.wait())


main()
