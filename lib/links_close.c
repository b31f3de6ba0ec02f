// SPDX-License-Identifier: BSD-2-Clause
// Closing pinned links for good, whoever ends the command meanwhile.
//
// Whoever closes a link last waits until its probes are gone, 20 to 150 ms; a pin that goes
// last leaves that to workers of the kernel, of whom nobody can tell when they are done: the
// file of a perf event is closed by yet another one, after the program's id has gone. So each
// link is opened, unpinned and closed, many at a time: but those with many probes one after the
// other, as each probe takes a lock of the whole kernel, and two make it go from hand to hand.
// (Perf events wait for each other all the same.)
//
// A process that dies in the middle of a close leaves breakpoints in those that run: the
// kernel does not change their pages for one that has a deadly signal ("failed to unregister,
// leaking uprobe", uprobe_unregister_nosync() of kernel/events/uprobes.c). They count nothing
// and do no harm, but each costs its process a trap until it ends. So a process of its own
// does it, out of reach of what is sent to the command; when that dies, it stops between two
// links, and the next command goes on.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "links_close.h"

#define CLOSERS 16
#define BIG     256 /* probes */
#define POLL_MS 2

/* Seen by both processes; what changes is atomic. */
struct closing {
	int dir_fd;
	const struct link_pin *pins; /* the big ones first */
	size_t cnt, big_cnt;
	size_t next_big, next, done;
	int code;
	bool unpinned[];
};

static volatile sig_atomic_t stop;

static void on_parents_death(int sig)
{
	(void)sig;
	stop = 1;
}

static void close_from(struct closing *c, size_t *next, size_t end)
{
	size_t i;

	while (!stop && (i = __atomic_fetch_add(next, 1, __ATOMIC_SEQ_CST)) < end) {
		_cleanup_close_ int fd = bpffs_get(c->dir_fd, c->pins[i].name, 0);

		if (unlinkat(c->dir_fd, c->pins[i].name, 0))
			__atomic_store_n(&c->code, -errno, __ATOMIC_SEQ_CST);
		else
			c->unpinned[i] = true;
		close_fd(TAKE_FD(fd));
		__atomic_fetch_add(&c->done, 1, __ATOMIC_SEQ_CST);
	}
}

static void *closer(void *arg)
{
	struct closing *c = arg;

	close_from(c, &c->next, c->cnt);
	return NULL;
}

static void *big_closer(void *arg)
{
	struct closing *c = arg;

	close_from(c, &c->next_big, c->big_cnt);
	return closer(c);
}

/* All signals are blocked. Without threads it is done here. */
static void close_all(struct closing *c)
{
	const struct sigaction action = { .sa_handler = on_parents_death };
	pthread_t thread[CLOSERS];
	size_t started = 0;
	sigset_t term;

	for (; started < CLOSERS && started < c->cnt; started++)
		if (pthread_create(&thread[started], NULL,
			    started ? closer : big_closer, c))
			break;
	sigaction(SIGTERM, &action, NULL);
	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	pthread_sigmask(SIG_UNBLOCK, &term, NULL);
	if (!started)
		big_closer(c);
	while (started)
		pthread_join(thread[--started], NULL);
}

static void child_main(struct closing *c, pid_t parent)
{
	setsid();
	prctl(PR_SET_NAME, "funcsnoop-close");
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() == parent)
		close_all(c);
	_exit(0);
}

static void wait_for(pid_t child, struct closing *c, bpffs_progress_fn progress, void *arg)
{
	const struct timespec pause = { .tv_nsec = POLL_MS * 1000000L };
	pid_t pid;

	/* ECHILD: who ignores SIGCHLD has no child to wait for, but only after its end. */
	while ((pid = waitpid(child, NULL, WNOHANG)) == 0 || (pid < 0 && errno == EINTR)) {
		if (progress)
			progress(__atomic_load_n(&c->done, __ATOMIC_SEQ_CST), c->cnt, arg);
		nanosleep(&pause, NULL);
	}
}

static void close_apart(struct closing *c, bpffs_progress_fn progress, void *arg)
{
	pid_t self = getpid(), child;
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	child = fork();
	if (!child)
		child_main(c, self);
	if (child < 0)
		big_closer(c);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (child > 0)
		wait_for(child, c, progress, arg);
}

static int compare_probes(const void *a, const void *b)
{
	const struct link_pin *x = a, *y = b;

	return (x->info.probes < y->info.probes) - (x->info.probes > y->info.probes);
}

int links_close(int dir_fd, struct link_pin *pins, size_t cnt, bpffs_progress_fn progress,
	void *arg)
{
	size_t size = sizeof(struct closing) + cnt * sizeof(bool);
	struct closing *c;
	int code;

	c = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (c == MAP_FAILED)
		return -errno;
	for (size_t i = 0; i < cnt; i++) {
		_cleanup_close_ int fd = bpffs_get(dir_fd, pins[i].name, 0);

		if (fd >= 0)
			link_get_info(fd, &pins[i].info);
		c->big_cnt += pins[i].info.probes >= BIG;
	}
	qsort(pins, cnt, sizeof(*pins), compare_probes);
	c->dir_fd = dir_fd;
	c->pins = pins;
	c->cnt = cnt;
	c->next = c->big_cnt;
	close_apart(c, progress, arg);
	for (size_t i = 0; i < cnt; i++)
		pins[i].unpinned = c->unpinned[i];
	code = c->code ? c->code : c->done < cnt ? -EINTR : 0;
	munmap(c, size);
	return code;
}
