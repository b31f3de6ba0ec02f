// SPDX-License-Identifier: BSD-2-Clause
/* Names of flags, modes, signals and commands of system calls. */
#include "group/notation.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>

#include "tap.h"

static const char *text(const char *call, const char *arg, uint64_t value)
{
	static char buf[NOTATION_LEN];
	const struct notation *n = notation_of(call, arg);

	return n ? notation_text(n, value, buf) : "none";
}

int main(void)
{
	is_str(text("openat", "flags", O_RDONLY), "O_RDONLY", "flags: zero is the access mode");
	is_str(text("openat", "flags", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC),
		"O_WRONLY|O_CREAT|O_TRUNC|O_CLOEXEC", "flags: several");
	is_str(text("open", "flags", O_RDWR | O_TMPFILE), "O_RDWR|O_TMPFILE",
		"flags: a name of two bits hides that of one");
	is_str(text("open", "flags", O_DIRECTORY), "O_RDONLY|O_DIRECTORY", "flags: one of the two bits");
	is_str(text("open", "flags", O_RDWR | O_SYNC), "O_RDWR|O_SYNC", "flags: O_SYNC has O_DSYNC");
	is_str(text("open", "flags", O_RDWR | O_DSYNC), "O_RDWR|O_DSYNC", "flags: O_DSYNC alone");
	is_str(text("openat", "flags", 0x80000000), "O_RDONLY|0x80000000", "flags: unknown bits in hex");
	is_str(text("openat", "mode", 0644), "0644", "mode: octal");
	is_str(text("mkdir", "mode", 0), "0", "mode: zero");
	is_str(text("access", "mode", 0), "F_OK", "access: zero has a name");
	is_str(text("access", "mode", 5), "R_OK|X_OK", "access: bits");
	is_str(text("unlinkat", "flag", 0), NULL, "flags: zero without a name is a number");
	is_str(text("mmap", "prot", PROT_READ | PROT_EXEC), "PROT_READ|PROT_EXEC", "mmap: protection");
	is_str(text("mmap", "prot", 0), "PROT_NONE", "mmap: no protection");
	is_str(text("mmap", "flags", MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED),
		"MAP_PRIVATE|MAP_FIXED|MAP_ANONYMOUS", "mmap: flags with a field");
	is_str(text("fcntl", "cmd", F_SETFD), "F_SETFD", "choice: a command");
	is_str(text("fcntl", "cmd", 999), NULL, "choice: an unknown command is a number");
	is_str(text("futex", "op", 128), "FUTEX_WAIT|FUTEX_PRIVATE_FLAG", "futex: operation and flag");
	is_str(text("futex", "op", 129), "FUTEX_WAKE|FUTEX_PRIVATE_FLAG", "futex: another operation");
	is_str(text("kill", "sig", SIGKILL), "SIGKILL", "signal: by name");
	is_str(text("kill", "sig", 0), NULL, "signal: 0 is a number");
	is_str(text("tgkill", "sig", SIGRTMIN + 2), "SIGRTMIN+2", "signal: real-time");
	is_str(text("signal:signal_deliver", "sig", SIGSEGV), "SIGSEGV", "signal: of a tracepoint");
	is_str(text("socket", "type", 1 | 02000000), "SOCK_STREAM|SOCK_CLOEXEC", "socket: type and flag");
	is_str(text("read", "count", 1), "none", "other arguments are numbers");
	is_str(text("openat", "dfd", 1), "none", "an argument without a rule is a number");
	is_str(text("pen", "flags", 1), "none", "part of a call's name is not that call");
	is_str(text("32:openat", "flags", 1), "none", "32-bit calls have other headers");
	/* Every name fits, and all bits at once end in the buffer. */
	ok(strlen(text("openat", "flags", UINT32_MAX)) < NOTATION_LEN, "all bits fit");
	return tap_done();
}
