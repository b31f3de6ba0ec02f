// SPDX-License-Identifier: BSD-2-Clause
// Reasons why threads wait in the kernel, by /proc and the memory of their process.
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/util.h"
#include "proc.h"

/* System calls whose first argument is a file descriptor. */
static const int of_files[] = { SYS_read, SYS_write, SYS_pread64, SYS_pwrite64, SYS_readv, SYS_writev,
	SYS_recvfrom, SYS_recvmsg, SYS_recvmmsg, SYS_sendto, SYS_sendmsg, SYS_accept, SYS_accept4,
	SYS_connect, SYS_epoll_pwait, SYS_flock, SYS_fcntl, SYS_fsync, SYS_fdatasync, SYS_ioctl,
#ifdef SYS_epoll_wait
	SYS_epoll_wait,
#endif
};

/* A mutex of glibc: struct __pthread_mutex_s, sysdeps/nptl/bits/struct_mutex.h. */
struct mutex {
	int lock; /* the futex; 2: locked, and some thread waits */
	unsigned int count;
	int owner;
};

static bool is_of_file(int number)
{
	for (size_t i = 0; i < ARRAY_SIZE(of_files); i++)
		if (of_files[i] == number)
			return true;
	return false;
}

/* "202 0x7f.. 0x80 ..., sp, pc"; "-1 sp pc" outside of a system call, or "running". */
static int read_call(pid_t pid, pid_t tid, struct blocked *b)
{
	char path[64], line[256], *end = NULL;
	_cleanup_fclose_ FILE *f = NULL;
	unsigned long long a[6], sp, pc;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", pid, tid);
	f = fopen(path, "re");
	if (!f)
		return -errno;
	errno = 0;
	if (!fgets(line, sizeof(line), f))
		return errno ? -errno : -ESRCH;
	b->number = (int)strtol(line, &end, 10);
	if (end == line || b->number < 0 ||
		sscanf(end, "%llx %llx %llx %llx %llx %llx %llx %llx", &a[0], &a[1], &a[2], &a[3],
			&a[4], &a[5], &sp, &pc) != 8 || !pc) { /* 0: a thread of the kernel */
		b->number = -1;
		return 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(a); i++)
		b->arg[i] = a[i];
	return 0;
}

static void read_file(pid_t pid, struct blocked *b)
{
	char path[64];
	ssize_t len;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, (int)b->arg[0]);
	len = readlink(path, b->file, sizeof(b->file) - 1);
	b->file[len > 0 ? len : 0] = '\0';
}

/* The thread of @pid that has @number in the process's own namespace; 0: there is none. */
static pid_t thread_of_number(pid_t pid, pid_t number)
{
	_cleanup_free_ pid_t *tids = NULL;
	char path[64];
	size_t cnt = 0;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	if (proc_pids(path, &tids, &cnt, NULL))
		return 0;
	for (size_t i = 0; i < cnt; i++)
		if (proc_own_number("/proc", pid, tids[i]) == number)
			return tids[i];
	return 0;
}

/* The thread that holds the lock, if it is a mutex of the C library in the process's own memory. */
static void read_owner(pid_t pid, struct blocked *b)
{
	unsigned int op = (unsigned int)b->arg[1] & FUTEX_CMD_MASK;
	struct mutex m;
	struct iovec own = { &m, sizeof(m) }, its = { (void *)(uintptr_t)b->arg[0], sizeof(m) };

	if ((op != FUTEX_WAIT && op != FUTEX_WAIT_BITSET) || (uint32_t)b->arg[2] != 2 ||
		process_vm_readv(pid, &own, 1, &its, 1, 0) != sizeof(m) || m.lock != 2 ||
		m.owner <= 0)
		return;
	b->owner = thread_of_number(pid, m.owner);
}

int blocked_read(pid_t pid, pid_t tid, struct blocked *ret_blocked)
{
	struct blocked b = { .number = -1 };
	uint64_t start;
	int code = proc_read_stat("/proc", pid, tid, &b.state, &start);

	if (!code)
		code = read_call(pid, tid, &b);
	if (code)
		return code;
	if (is_of_file(b.number))
		read_file(pid, &b);
	else if (b.number == SYS_futex)
		read_owner(pid, &b);
	*ret_blocked = b;
	return 0;
}
