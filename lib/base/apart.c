// SPDX-License-Identifier: BSD-2-Clause
// Work that must not end in the middle: done apart, whatever happens to the command.
//
// A process that dies while the kernel puts its link's probes into running processes, or takes
// them away, leaves breakpoints there: the kernel changes no page for one that has a deadly
// signal ("failed to unregister, leaking uprobe", kernel/events/uprobes.c). They count nothing
// and break nothing, but each costs its process a trap at every call until it ends, or until
// breaks_heal(): whoever kills this process, too, by its cgroup, leaves it to the next command.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/apart.h"
#include "base/util.h"

#define POLL_MS 2

static volatile sig_atomic_t stop;
static pid_t parent_pid; /* 0: not apart */

static void on_parents_death(int sig)
{
	(void)sig;
	stop = 1;
}

bool apart_stop(void)
{
	return stop;
}

bool apart_orphaned(void)
{
	return parent_pid && getppid() != parent_pid;
}

void *apart_alloc(size_t size)
{
	void *mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (mem == MAP_FAILED)
		alloc_failed();
	return mem;
}

void apart_free(void *mem, size_t size)
{
	munmap(mem, size);
}

/* All signals but that of the parent's death are blocked. */
static void child_main(pid_t parent, void (*fn)(void *arg), void *arg)
{
	const struct sigaction action = { .sa_handler = on_parents_death };
	sigset_t term;

	stop = 0; /* it may be a child's child */
	parent_pid = parent;
	setsid();
	prctl(PR_SET_NAME, "funcsnoop-apart");
	sigaction(SIGTERM, &action, NULL);
	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	pthread_sigmask(SIG_UNBLOCK, &term, NULL);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() == parent)
		fn(arg);
	_exit(0);
}

static void wait_for(pid_t child, void (*tick)(void *arg), void *arg)
{
	pid_t pid;

	/* ECHILD: who ignores SIGCHLD has no child to wait for, but only after its end. */
	while ((pid = waitpid(child, NULL, WNOHANG)) == 0 || (pid < 0 && errno == EINTR)) {
		if (tick)
			tick(arg);
		sleep_ms(POLL_MS);
	}
}

void apart_run(void (*fn)(void *arg), void *arg, void (*tick)(void *arg), void *tick_arg)
{
	pid_t self = getpid(), child;
	sigset_t all, before;

	sigfillset(&all);
	sigdelset(&all, SIGBUS); /* of its own doing: blocked, it ends the process */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	child = fork();
	if (!child)
		child_main(self, fn, arg);
	if (child < 0)
		fn(arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (child > 0)
		wait_for(child, tick, tick_arg);
}
