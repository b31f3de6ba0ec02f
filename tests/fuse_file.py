# SPDX-License-Identifier: BSD-2-Clause
"""Runs `fuse_file.py DIR FILE`: mounts a FUSE file system with FILE alone on DIR, without read-ahead."""
import ctypes
import errno
import os
import struct
import sys

LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, FLUSH, INIT, OPENDIR = 1, 2, 3, 14, 15, 17, 18, 25, 26, 27
ROOT, NODE = 1, 2

libc = ctypes.CDLL(None, use_errno=True)


def attr(node, stat):
    mode, size = (0o40755, 0) if node == ROOT else (0o100755, stat.st_size)
    return struct.pack('<QQQQQQIIIIIIIIII', node, size, (size + 511) // 512, 0, 0, 0, 0, 0, 0,
                       mode, 1, 0, 0, 0, 4096, 0)


def answer(op, node, body, fd, stat, name):
    if op == INIT:
        major, minor, _, _ = struct.unpack_from('<IIII', body)
        # max_readahead, flags, max_background, threshold, max_write, time_gran
        return struct.pack('<IIIIHHIIHH8I', major, min(minor, 31), 0, 0, 0, 0, 4096, 1, 0, 0, *[0] * 8)
    if op == LOOKUP and body.rstrip(b'\0') == name:
        return struct.pack('<QQQQII', NODE, 0, 3600, 3600, 0, 0) + attr(NODE, stat)
    if op == GETATTR:
        return struct.pack('<QII', 3600, 0, 0) + attr(node, stat)
    if op in (OPEN, OPENDIR):
        return struct.pack('<QII', 0, 2, 0)  # FOPEN_KEEP_CACHE
    if op == READ:
        _, offset, size = struct.unpack_from('<QQI', body)
        return os.pread(fd, size, offset)
    if op == STATFS:
        return struct.pack('<QQQQQIIII24x', 1, 0, 0, 1, 0, 4096, 255, 4096, 0)
    if op in (RELEASE, FLUSH):
        return b''
    return None


def main():
    folder, path = sys.argv[1:3]
    fd, dev = os.open(path, os.O_RDONLY), os.open('/dev/fuse', os.O_RDWR)
    options = f'fd={dev},rootmode=40000,user_id=0,group_id=0,allow_other'.encode()
    if libc.mount(b'own', folder.encode(), b'fuse', 0, options):
        print(os.strerror(ctypes.get_errno()), file=sys.stderr)
        sys.exit(77)
    while True:
        try:
            request = os.read(dev, 1 << 17)
        except OSError as error:
            sys.exit(error.errno != errno.ENODEV)
        _, op, unique, node = struct.unpack_from('<IIQQ', request)
        if op == FORGET:
            continue
        data = answer(op, node, request[40:], fd, os.fstat(fd), os.path.basename(path).encode())
        status = 0 if data is not None else -(errno.ENOENT if op == LOOKUP else errno.ENOSYS)
        data = data or b''
        os.write(dev, struct.pack('<IiQ', 16 + len(data), status, unique) + data)


main()
