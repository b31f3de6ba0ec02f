// SPDX-License-Identifier: BSD-2-Clause
// System calls have the numbers that the C library calls them by.
#include "kernel/trace.h"

#include <sys/syscall.h>

#include "tap.h"

int main(void)
{
	static const struct {
		const char *name;
		int number;
	} calls[] = {
		{ "read", SYS_read },
		{ "openat", SYS_openat },
		{ "fcntl", SYS_fcntl },
		{ "exit_group", SYS_exit_group },
		{ "io_uring_enter", SYS_io_uring_enter },
		{ "openat2", SYS_openat2 },
	};

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		is_int(syscall_number(calls[i].name), calls[i].number, calls[i].name);
		is_str(syscall_name(SYSCALL_NATIVE, calls[i].number), calls[i].name,
			"and back");
	}
	is_int(syscall_number("no_such_call"), -1, "what there isn't has no number");
	is_int(syscall_number("syscalls"), -1, "nor has what only counts them");
	is_str(syscall_name(SYSCALL_NATIVE, SYSCALL_NUMBERS), NULL, "nor a name");
#ifdef __x86_64__
	/* arch/x86/entry/syscalls/syscall_32.tbl */
	is_str(syscall_name(SYSCALL_32BIT, 20), "getpid", "a 32-bit program's 20 is getpid");
	is_str(syscall_name(SYSCALL_NATIVE, 20), "writev", "a 64-bit program's is writev");
#endif
	return tap_done();
}
