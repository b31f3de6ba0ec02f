// SPDX-License-Identifier: BSD-2-Clause
// Runs work that must not be interrupted in a helper process, which survives the command.
//
// If a process is killed while the kernel inserts or removes the probes of its link, breakpoints
// remain in other processes. The kernel modifies no page on behalf of a process with a fatal signal
// ("failed to unregister, leaking uprobe", kernel/events/uprobes.c). Orphaned breakpoints count
// nothing and break nothing, but each costs a trap per call until the traced process exits, or
// until breaks_heal(). If the helper process is also killed, for example through its cgroup, the
// next command removes them.
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/apart.h"
#include "base/util.h"

#define POLL_MS    2
#define EXIT_POLLS 5 /* after which the child is left to the kernel */

static volatile sig_atomic_t stop;
static pid_t parent_pid; /* 0: not in a helper process */
static int lock_fd = -1;

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

void apart_hold(int fd)
{
	lock_fd = fd;
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

static void *hold_lock(void *arg)
{
	for (;;)
		pause();
	return arg;
}

/*
 * Moves the lock to a thread with descriptors of its own. A thread that closes a link can wait in the
 * kernel even after kill -9, and keeps the descriptors that it shares: see enum link_closing_state.
 */
static void move_lock(void)
{
	pthread_t thread;

	if (lock_fd >= 0 && !apart_thread(&thread, hold_lock, NULL) && !unshare(CLONE_FILES)) {
		close(lock_fd);
		lock_fd = -1;
	}
}

/* Blocks all signals except SIGTERM, which the kernel sends when the parent dies. */
static void child_main(pid_t parent, void (*fn)(void *arg), void *arg, bool *done)
{
	const struct sigaction action = { .sa_handler = on_parents_death };
	sigset_t term;

	stop = 0; /* inherited from the parent, which may itself be a helper process */
	parent_pid = parent;
	setsid();
	prctl(PR_SET_NAME, "funcsnoop-apart");
	sigaction(SIGTERM, &action, NULL);
	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	pthread_sigmask(SIG_UNBLOCK, &term, NULL);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() == parent) {
		move_lock();
		fn(arg);
	}
	/* A thread that still closes a link, as in link_close(), holds the process. */
	close_range(0, ~0U, 0);
	__atomic_store_n(done, true, __ATOMIC_SEQ_CST);
	_exit(0);
}

static void wait_for(pid_t child, void (*tick)(void *arg), void *arg, const bool *done)
{
	int left = EXIT_POLLS;
	pid_t pid;

	/* ECHILD: SIGCHLD is ignored, and the child has exited. */
	while (left && ((pid = waitpid(child, NULL, WNOHANG)) == 0 || (pid < 0 && errno == EINTR))) {
		if (tick)
			tick(arg);
		sleep_ms(POLL_MS);
		left -= __atomic_load_n(done, __ATOMIC_SEQ_CST);
	}
}

int apart_thread(pthread_t *ret_thread, void *(*fn)(void *arg), void *arg)
{
	sigset_t all, before;
	int code;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	code = pthread_create(ret_thread, NULL, fn, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -code;
}

void apart_run(void (*fn)(void *arg), void *arg, void (*tick)(void *arg), void *tick_arg)
{
	pid_t self = getpid(), child;
	bool *done = apart_alloc(sizeof(*done));
	sigset_t all, before;

	sigfillset(&all);
	sigdelset(&all, SIGBUS); /* elf_file.c handles it; a blocked one kills the process */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	child = fork();
	if (!child)
		child_main(self, fn, arg, done);
	if (child < 0)
		fn(arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (child > 0)
		wait_for(child, tick, tick_arg, done);
	apart_free(done, sizeof(*done));
}
