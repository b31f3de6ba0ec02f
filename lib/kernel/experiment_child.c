// SPDX-License-Identifier: BSD-2-Clause
// Children that may die: quiet, limited in time, and always waited for.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "kernel/experiment.h"
#include "internal.h"

_Noreturn void child_exit(int code)
{
	for (;;)
		syscall(SYS_exit_group, code);
}

/* Before a call that does not return, AddressSanitizer makes a system call of its own. */
#define PLAIN_CODE __attribute__((no_sanitize("address")))

PLAIN_CODE static void on_fault(int sig)
{
	child_exit(CHILD_SIGNAL + sig);
}

/*
 * A fault that is handled is logged nowhere. The handler has a stack of its own: the one
 * that the child dies on may be broken.
 */
static void catch_faults(void)
{
	static const int faults[] = { SIGSEGV, SIGILL, SIGBUS, SIGTRAP, SIGSYS };
	static char stack[16384];
	const stack_t alt = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction action = { .sa_handler = on_fault, .sa_flags = SA_ONSTACK };
	sigset_t none;

	sigaltstack(&alt, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(faults); i++)
		sigaction(faults[i], &action, NULL);
	action.sa_handler = SIG_DFL;
	sigaction(SIGALRM, &action, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

PLAIN_CODE _Noreturn static void be_child(
	pid_t parent, int (*fn)(const void *arg), const void *arg)
{
	const struct rlimit no_core = {};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		child_exit(0);
	prctl(PR_SET_DUMPABLE, 0);
	setrlimit(RLIMIT_CORE, &no_core);
	catch_faults();
	alarm(EXPERIMENT_LIMIT_S);
	child_exit(fn(arg));
}

void child_start(struct child *child, int (*fn)(const void *arg), const void *arg)
{
	pid_t parent = getpid();

	child->fd = -1;
	child->pid = fork();
	if (!child->pid)
		be_child(parent, fn, arg);
	if (child->pid > 0)
		child->fd = syscall(SYS_pidfd_open, child->pid, 0);
}

int child_wait(struct child *child)
{
	_cleanup_close_ int fd = TAKE_FD(child->fd);
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
	int status;

	if (child->pid < 0)
		return CHILD_LOST;
	/* The alarm does not wake a child that hangs in the kernel. */
	if (fd >= 0 && poll(&poll_fd, 1, (EXPERIMENT_LIMIT_S + 1) * 1000) == 0) {
		kill(child->pid, SIGKILL);
		if (poll(&poll_fd, 1, 1000) == 0)
			return CHILD_LOST;
	}
	while (waitpid(child->pid, &status, 0) < 0)
		if (errno != EINTR)
			return CHILD_LOST;
	if (WIFSIGNALED(status))
		return WTERMSIG(status) == SIGALRM ? CHILD_LOST
						   : CHILD_SIGNAL + WTERMSIG(status);
	return WEXITSTATUS(status);
}
