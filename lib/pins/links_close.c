// SPDX-License-Identifier: BSD-2-Clause
// Closing pinned links for good, whoever ends the command meanwhile.
//
// Whoever closes a link last waits until its probes are gone, 20 to 150 ms; a pin that goes
// last leaves that to workers of the kernel, of whom nobody can tell when they are done: the
// file of a perf event is closed by yet another one, after the program's id has gone. So each
// link is opened, unpinned and closed, many at a time: but those with many probes one after the
// other, as each probe takes a lock of the whole kernel, and two make it go from hand to hand.
// (Perf events wait for each other all the same.)
// All of it apart: a close that is cut short leaves breakpoints.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/apart.h"
#include "pins/links_close.h"

#define CLOSERS 16
#define BIG     256 /* probes */

/* Seen by both processes; what changes is atomic. */
struct closing {
	int dir_fd;
	const struct link_pin *pins; /* the big ones first */
	size_t cnt, big_cnt;
	size_t next_big, next, done;
	int code;
	bool unpinned[];
};

static void close_from(struct closing *c, size_t *next, size_t end)
{
	size_t i;

	while (!apart_stop() && (i = __atomic_fetch_add(next, 1, __ATOMIC_SEQ_CST)) < end) {
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

/* Threads take no signal. Without threads it is done here. */
static void close_all(void *arg)
{
	struct closing *c = arg;
	pthread_t thread[CLOSERS];
	size_t started = 0;
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (; started < CLOSERS && started < c->cnt; started++)
		if (pthread_create(&thread[started], NULL,
			    started ? closer : big_closer, c))
			break;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!started)
		big_closer(c);
	while (started)
		pthread_join(thread[--started], NULL);
}

struct progress {
	const struct closing *c;
	bpffs_progress_fn fn;
	void *arg;
};

static void on_tick(void *arg)
{
	const struct progress *p = arg;

	if (p->fn)
		p->fn(__atomic_load_n(&p->c->done, __ATOMIC_SEQ_CST), p->c->cnt, p->arg);
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
	struct closing *c = apart_alloc(size);
	struct progress p = { c, progress, arg };
	int code;

	if (!c)
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
	apart_run(close_all, c, on_tick, &p);
	for (size_t i = 0; i < cnt; i++)
		pins[i].unpinned = c->unpinned[i];
	code = c->code ? c->code : c->done < cnt ? -EINTR : 0;
	apart_free(c, size);
	return code;
}
