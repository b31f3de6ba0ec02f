// SPDX-License-Identifier: BSD-2-Clause
// Names of flags, modes, signals and commands. Argument names are those of the kernel's tracefs.
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/futex.h>
#include <linux/memfd.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/util.h"
#include "group/notation.h"

enum style {
	FLAGS,  /* the names whose bits are set */
	CHOICE, /* one name */
	OCTAL,
	SIGNAL,
};

struct name {
	uint64_t mask, value; /* the name applies if the bits of the mask have this value */
	const char *name;
};

struct notation {
	enum style style;
	const struct name *names;
	size_t cnt;
};

#define FLAG(f)     { f, f, #f }
#define ONE_OF(m, f) { m, f, #f }
#define IS(f)       { UINT32_MAX, (uint32_t)(f), #f }

/* Names with several bits come before names of some of these bits. */
static const struct name open_flags[] = {
	ONE_OF(O_ACCMODE, O_RDONLY), ONE_OF(O_ACCMODE, O_WRONLY), ONE_OF(O_ACCMODE, O_RDWR),
	FLAG(O_CREAT), FLAG(O_EXCL), FLAG(O_NOCTTY), FLAG(O_TRUNC), FLAG(O_APPEND), FLAG(O_NONBLOCK),
	{ __O_TMPFILE | O_DIRECTORY, __O_TMPFILE | O_DIRECTORY, "O_TMPFILE" },
	{ O_SYNC, O_SYNC, "O_SYNC" }, FLAG(O_DSYNC), FLAG(O_ASYNC), FLAG(O_DIRECT),
	{ 0100000, 0100000, "O_LARGEFILE" }, /* 0 in the headers of 64-bit machines */
	FLAG(O_DIRECTORY), FLAG(O_NOFOLLOW), FLAG(O_NOATIME), FLAG(O_CLOEXEC), FLAG(O_PATH),
};
static const struct name fd_flags[] = { FLAG(O_CLOEXEC), FLAG(O_NONBLOCK), FLAG(O_DIRECT) };
static const struct name at_flags[] = {
	FLAG(AT_SYMLINK_NOFOLLOW), FLAG(AT_SYMLINK_FOLLOW), FLAG(AT_NO_AUTOMOUNT), FLAG(AT_EMPTY_PATH),
	ONE_OF(0x6000, AT_STATX_FORCE_SYNC), ONE_OF(0x6000, AT_STATX_DONT_SYNC),
};
static const struct name access_flags[] = { FLAG(AT_EACCESS), FLAG(AT_SYMLINK_NOFOLLOW),
	FLAG(AT_EMPTY_PATH) };
static const struct name unlink_flags[] = { FLAG(AT_REMOVEDIR) };
static const struct name access_modes[] = { { UINT32_MAX, F_OK, "F_OK" }, FLAG(R_OK), FLAG(W_OK),
	FLAG(X_OK) };
static const struct name statx_masks[] = { FLAG(STATX_ALL), FLAG(STATX_BASIC_STATS),
	FLAG(STATX_TYPE), FLAG(STATX_MODE), FLAG(STATX_NLINK), FLAG(STATX_UID), FLAG(STATX_GID),
	FLAG(STATX_ATIME), FLAG(STATX_MTIME), FLAG(STATX_CTIME), FLAG(STATX_INO), FLAG(STATX_SIZE),
	FLAG(STATX_BLOCKS), FLAG(STATX_BTIME) };
static const struct name rename_flags[] = { FLAG(RENAME_NOREPLACE), FLAG(RENAME_EXCHANGE),
	FLAG(RENAME_WHITEOUT) };
static const struct name prot_flags[] = { { UINT32_MAX, PROT_NONE, "PROT_NONE" }, FLAG(PROT_READ),
	FLAG(PROT_WRITE), FLAG(PROT_EXEC), FLAG(PROT_GROWSDOWN), FLAG(PROT_GROWSUP) };
static const struct name map_flags[] = {
	ONE_OF(MAP_TYPE, MAP_SHARED), ONE_OF(MAP_TYPE, MAP_PRIVATE),
	ONE_OF(MAP_TYPE, MAP_SHARED_VALIDATE), FLAG(MAP_FIXED), FLAG(MAP_ANONYMOUS), FLAG(MAP_GROWSDOWN),
	FLAG(MAP_DENYWRITE), FLAG(MAP_EXECUTABLE), FLAG(MAP_LOCKED), FLAG(MAP_NORESERVE),
	FLAG(MAP_POPULATE), FLAG(MAP_NONBLOCK), FLAG(MAP_STACK), FLAG(MAP_HUGETLB), FLAG(MAP_SYNC),
	FLAG(MAP_FIXED_NOREPLACE) };
static const struct name advices[] = { IS(MADV_NORMAL), IS(MADV_RANDOM), IS(MADV_SEQUENTIAL),
	IS(MADV_WILLNEED), IS(MADV_DONTNEED), IS(MADV_FREE), IS(MADV_REMOVE), IS(MADV_DONTFORK),
	IS(MADV_DOFORK), IS(MADV_MERGEABLE), IS(MADV_UNMERGEABLE), IS(MADV_HUGEPAGE),
	IS(MADV_NOHUGEPAGE), IS(MADV_DONTDUMP), IS(MADV_DODUMP), IS(MADV_COLD), IS(MADV_PAGEOUT) };
static const struct name families[] = { IS(AF_UNSPEC), IS(AF_UNIX), IS(AF_INET), IS(AF_INET6),
	IS(AF_NETLINK), IS(AF_PACKET), IS(AF_VSOCK), IS(AF_ALG), IS(AF_BLUETOOTH) };
static const struct name socket_types[] = { ONE_OF(15, SOCK_STREAM), ONE_OF(15, SOCK_DGRAM),
	ONE_OF(15, SOCK_RAW), ONE_OF(15, SOCK_RDM), ONE_OF(15, SOCK_SEQPACKET), FLAG(SOCK_CLOEXEC),
	FLAG(SOCK_NONBLOCK) };
static const struct name message_flags[] = { FLAG(MSG_OOB), FLAG(MSG_PEEK), FLAG(MSG_DONTROUTE),
	FLAG(MSG_TRUNC), FLAG(MSG_DONTWAIT), FLAG(MSG_WAITALL), FLAG(MSG_NOSIGNAL), FLAG(MSG_MORE),
	FLAG(MSG_ERRQUEUE), FLAG(MSG_CMSG_CLOEXEC), FLAG(MSG_ZEROCOPY) };
static const struct name fcntl_commands[] = { IS(F_DUPFD), IS(F_GETFD), IS(F_SETFD), IS(F_GETFL),
	IS(F_SETFL), IS(F_GETLK), IS(F_SETLK), IS(F_SETLKW), IS(F_SETOWN), IS(F_GETOWN),
	IS(F_SETLEASE), IS(F_GETLEASE), IS(F_DUPFD_CLOEXEC), IS(F_SETPIPE_SZ), IS(F_GETPIPE_SZ),
	IS(F_ADD_SEALS), IS(F_GET_SEALS), IS(F_OFD_GETLK), IS(F_OFD_SETLK), IS(F_OFD_SETLKW) };
static const struct name whences[] = { IS(SEEK_SET), IS(SEEK_CUR), IS(SEEK_END), IS(SEEK_DATA),
	IS(SEEK_HOLE) };
static const struct name lock_flags[] = { ONE_OF(15, LOCK_SH), ONE_OF(15, LOCK_EX),
	ONE_OF(15, LOCK_UN), { 15, LOCK_SH | LOCK_NB, "LOCK_SH|LOCK_NB" }, { 15, LOCK_EX | LOCK_NB, "LOCK_EX|LOCK_NB" } };
static const struct name clone_flags[] = { FLAG(CLONE_VM), FLAG(CLONE_FS), FLAG(CLONE_FILES),
	FLAG(CLONE_SIGHAND), FLAG(CLONE_PIDFD), FLAG(CLONE_PTRACE), FLAG(CLONE_VFORK),
	FLAG(CLONE_PARENT), FLAG(CLONE_THREAD), FLAG(CLONE_NEWNS), FLAG(CLONE_SYSVSEM),
	FLAG(CLONE_SETTLS), FLAG(CLONE_PARENT_SETTID), FLAG(CLONE_CHILD_CLEARTID), FLAG(CLONE_DETACHED),
	FLAG(CLONE_UNTRACED), FLAG(CLONE_CHILD_SETTID), FLAG(CLONE_NEWCGROUP), FLAG(CLONE_NEWUTS),
	FLAG(CLONE_NEWIPC), FLAG(CLONE_NEWUSER), FLAG(CLONE_NEWPID), FLAG(CLONE_NEWNET), FLAG(CLONE_IO),
	ONE_OF(255, SIGCHLD) };
static const struct name futex_ops[] = { ONE_OF(127, FUTEX_WAIT), ONE_OF(127, FUTEX_WAKE),
	ONE_OF(127, FUTEX_REQUEUE), ONE_OF(127, FUTEX_CMP_REQUEUE), ONE_OF(127, FUTEX_WAKE_OP),
	ONE_OF(127, FUTEX_LOCK_PI), ONE_OF(127, FUTEX_UNLOCK_PI), ONE_OF(127, FUTEX_TRYLOCK_PI),
	ONE_OF(127, FUTEX_WAIT_BITSET), ONE_OF(127, FUTEX_WAKE_BITSET),
	ONE_OF(127, FUTEX_WAIT_REQUEUE_PI), ONE_OF(127, FUTEX_CMP_REQUEUE_PI),
	ONE_OF(127, FUTEX_LOCK_PI2), FLAG(FUTEX_PRIVATE_FLAG), FLAG(FUTEX_CLOCK_REALTIME) };
static const struct name epoll_ops[] = { IS(EPOLL_CTL_ADD), IS(EPOLL_CTL_DEL), IS(EPOLL_CTL_MOD) };
static const struct name clocks[] = { IS(CLOCK_REALTIME), IS(CLOCK_MONOTONIC),
	IS(CLOCK_PROCESS_CPUTIME_ID), IS(CLOCK_THREAD_CPUTIME_ID), IS(CLOCK_MONOTONIC_RAW),
	IS(CLOCK_REALTIME_COARSE), IS(CLOCK_MONOTONIC_COARSE), IS(CLOCK_BOOTTIME),
	IS(CLOCK_REALTIME_ALARM), IS(CLOCK_BOOTTIME_ALARM), IS(CLOCK_TAI) };
static const struct name timer_flags[] = { FLAG(TIMER_ABSTIME) };
static const struct name wait_options[] = { FLAG(WNOHANG), FLAG(WUNTRACED), FLAG(WEXITED),
	FLAG(WCONTINUED), FLAG(WNOWAIT), FLAG(__WNOTHREAD), FLAG(__WALL), FLAG(__WCLONE) };
static const struct name random_flags[] = { FLAG(GRND_NONBLOCK), FLAG(GRND_RANDOM) };
static const struct name memfd_flags[] = { FLAG(MFD_CLOEXEC), FLAG(MFD_ALLOW_SEALING),
	FLAG(MFD_HUGETLB) };

/* The first rule that fits; calls are separated by blanks, "*" is all system calls. */
static const struct {
	const char *calls, *arg;
	struct notation notation;
} rules[] = {
#define NAMES(style, names) { style, names, ARRAY_SIZE(names) }
	{ "open openat open_by_handle_at", "flags", NAMES(FLAGS, open_flags) },
	{ "open openat creat mkdir mkdirat mknod mknodat chmod fchmod fchmodat fchmodat2 mq_open", "mode",
		{ OCTAL, NULL, 0 } },
	{ "umask", "mask", { OCTAL, NULL, 0 } },
	{ "access faccessat faccessat2", "mode", NAMES(FLAGS, access_modes) },
	{ "faccessat2", "flags", NAMES(FLAGS, access_flags) },
	{ "newfstatat", "flag", NAMES(FLAGS, at_flags) },
	{ "statx linkat fchmodat2 execveat name_to_handle_at utimensat", "flags",
		NAMES(FLAGS, at_flags) },
	{ "fchownat linkat name_to_handle_at", "flag", NAMES(FLAGS, at_flags) },
	{ "statx", "mask", NAMES(FLAGS, statx_masks) },
	{ "unlinkat", "flag", NAMES(FLAGS, unlink_flags) },
	{ "renameat2", "flags", NAMES(FLAGS, rename_flags) },
	{ "pipe2 dup3 accept4 epoll_create1 eventfd2 inotify_init1 signalfd4 timerfd_create", "flags",
		NAMES(FLAGS, fd_flags) },
	{ "mmap mprotect pkey_mprotect", "prot", NAMES(FLAGS, prot_flags) },
	{ "mmap", "flags", NAMES(FLAGS, map_flags) },
	{ "madvise", "behavior", NAMES(CHOICE, advices) },
	{ "socket socketpair", "family", NAMES(CHOICE, families) },
	{ "socket socketpair", "type", NAMES(FLAGS, socket_types) },
	{ "sendto recvfrom sendmsg recvmsg sendmmsg recvmmsg", "flags", NAMES(FLAGS, message_flags) },
	{ "fcntl", "cmd", NAMES(CHOICE, fcntl_commands) },
	{ "lseek", "whence", NAMES(CHOICE, whences) },
	{ "flock", "cmd", NAMES(FLAGS, lock_flags) },
	{ "clone", "clone_flags", NAMES(FLAGS, clone_flags) },
	{ "unshare", "unshare_flags", NAMES(FLAGS, clone_flags) },
	{ "setns", "flags", NAMES(FLAGS, clone_flags) },
	{ "futex", "op", NAMES(FLAGS, futex_ops) },
	{ "epoll_ctl", "op", NAMES(CHOICE, epoll_ops) },
	{ "clock_gettime clock_settime clock_getres clock_nanosleep timer_create", "which_clock",
		NAMES(CHOICE, clocks) },
	{ "timerfd_create", "clockid", NAMES(CHOICE, clocks) },
	{ "clock_nanosleep", "flags", NAMES(FLAGS, timer_flags) },
	{ "wait4 waitid", "options", NAMES(FLAGS, wait_options) },
	{ "getrandom", "flags", NAMES(FLAGS, random_flags) },
	{ "memfd_create", "flags", NAMES(FLAGS, memfd_flags) },
	{ "kill tkill tgkill rt_sigaction rt_sigqueueinfo rt_tgsigqueueinfo pidfd_send_signal "
	  "signal:signal_deliver signal:signal_generate",
		"sig", { SIGNAL, NULL, 0 } },
};

static bool lists(const char *words, const char *word)
{
	size_t len = strlen(word);

	for (const char *p = words; (p = strstr(p, word)); p += len)
		if ((p == words || p[-1] == ' ') && (p[len] == ' ' || !p[len]))
			return true;
	return false;
}

const struct notation *notation_of(const char *call, const char *arg)
{
	if (!strncmp(call, "32:", 3))
		return NULL; /* values of other headers */
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
		if (!strcmp(rules[i].arg, arg) && lists(rules[i].calls, call))
			return &rules[i].notation;
	return NULL;
}

static size_t append(char *buf, size_t len, const char *text)
{
	int more = snprintf(buf + len, NOTATION_LEN - len, "%s%s", len ? "|" : "", text);

	return more > 0 && len + more < NOTATION_LEN ? len + more : NOTATION_LEN - 1;
}

static const char *flags_text(const struct notation *n, uint64_t value, char *buf)
{
	uint64_t left = value, known = 0;
	size_t len = 0;
	char hex[24];

	for (size_t i = 0; i < n->cnt; i++) {
		const struct name *name = &n->names[i];

		/* A name without bits is the value 0, or the first of a field. */
		if ((value & name->mask) != name->value || known & name->mask ||
			(name->mask == UINT32_MAX && value))
			continue;
		len = append(buf, len, name->name);
		known |= name->mask;
		left &= ~name->mask;
	}
	if (left) {
		snprintf(hex, sizeof(hex), "0x%llx", (unsigned long long)left);
		len = append(buf, len, hex);
	}
	return len ? buf : NULL;
}

static const char *signal_text(uint64_t value, char *buf)
{
	const char *name = value < NSIG ? sigabbrev_np((int)value) : NULL;
	int rt = (int)value - SIGRTMIN;

	if (name)
		snprintf(buf, NOTATION_LEN, "SIG%s", name);
	else if (value < NSIG && rt >= 0)
		snprintf(buf, NOTATION_LEN, rt ? "SIGRTMIN+%d" : "SIGRTMIN", rt);
	else
		return NULL;
	return buf;
}

const char *notation_text(const struct notation *n, uint64_t value, char buf[NOTATION_LEN])
{
	value &= UINT32_MAX;
	*buf = '\0';
	switch (n->style) {
	case FLAGS:
		return flags_text(n, value, buf);
	case CHOICE:
		for (size_t i = 0; i < n->cnt; i++)
			if (n->names[i].value == value)
				return n->names[i].name;
		return NULL;
	case OCTAL:
		snprintf(buf, NOTATION_LEN, value ? "0%llo" : "0", (unsigned long long)value);
		return buf;
	case SIGNAL:
		return signal_text(value, buf);
	}
	return NULL;
}
