// SPDX-License-Identifier: BSD-2-Clause
// Removing a group: when it returns, its probes are gone.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "base/apart.h"
#include "kernel/kernel.h"
#include "pins/bpffs.h"

#define POLL_MS     2
#define POLL_MAX_MS 128
#define MANY_LINKS  32
#define HELD_MS     2000
#define STUCK_MS    10000
#define TRIES       3 /* when who closes the links is killed */
#define CLOSERS 16
#define BIG     256 /* probes */

/* --- closing links ------------------------------------------------------------------------- */

/*
 * Closing pinned links for good, whoever ends the command meanwhile.
 *
 * Whoever closes a link last waits until its probes are gone, 20 to 150 ms; a pin that goes
 * last leaves that to workers of the kernel, of whom nobody can tell when they are done: the
 * file of a perf event is closed by yet another one, after the program's id has gone. So each
 * link is opened, unpinned and closed, many at a time: but those with many probes one after
 * the other, as each probe takes a lock of the whole kernel, and two make it go from hand to
 * hand. (Perf events wait for each other all the same.)
 * All of it apart: a close that is cut short leaves breakpoints.
 */
struct link_pin {
	char *name;            /* in its folder; the caller's */
	struct link_info info; /* zeros: not known */
	bool unpinned;
};

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

/*
 * Unpins and closes @pins[@cnt] of the folder @dir_fd, fills in what is known of them, and
 * sorts them. When it returns, those are closed that nobody else holds; after an error or
 * the death of the caller some are still pinned, and none is half closed. -errno of the
 * first that can't be unpinned, -EINTR. @progress may be NULL.
 */
static int links_close(int dir_fd, struct link_pin *pins, size_t cnt, bpffs_progress_fn progress,
	void *arg)
{
	size_t size = sizeof(struct closing) + cnt * sizeof(bool);
	struct closing *c = apart_alloc(size);
	struct progress p = { c, progress, arg };
	int code;

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

/* --- what is to vanish --------------------------------------------------------------------- */

/* Ids of links, programs or maps that are to vanish. */
struct idlist {
	__u32 *id;
	size_t cnt;
};

static void idlist_done(struct idlist *list)
{
	free(list->id);
}

static void idlist_add(struct idlist *list, __u32 id)
{
	for (size_t i = list->cnt > 8 ? list->cnt - 8 : 0; i < list->cnt; i++)
		if (list->id[i] == id)
			return;
	list->id = array_grow(list->id, list->cnt, sizeof(*list->id));
	list->id[list->cnt++] = id;
}

/* Forgets the ids that are gone. Their list needs CAP_SYS_ADMIN; without, all count as gone. */
static void idlist_prune(struct idlist *list, int (*next)(__u32 start, __u32 *id))
{
	size_t kept = 0;
	__u32 id;

	for (size_t i = 0; i < list->cnt; i++)
		if (next(list->id[i] - 1, &id) == 0 && id == list->id[i])
			list->id[kept++] = id;
	list->cnt = kept;
}

struct removal {
	struct idlist links, progs, maps;
};

typedef int (*pin_fn)(int dir_fd, const char *name, void *arg);

/* Calls @fn for each pin whose name begins with @prefix; stops at the first failure. */
static int for_each_pin(int dir_fd, const char *prefix, pin_fn fn, void *arg)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), code = 0;
	_cleanup_closedir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *d;

	if (!dir)
		return -errno;
	while (!code && (d = readdir(dir)))
		if (d->d_type != DT_DIR && !strncmp(d->d_name, prefix, strlen(prefix)))
			code = fn(dir_fd, d->d_name, arg);
	return code;
}

static int unpin_map_fn(int dir_fd, const char *name, void *arg)
{
	_cleanup_close_ int fd = bpffs_get(dir_fd, name, 0);
	struct bpf_map_info info = {};
	__u32 len = sizeof(info);
	struct removal *r = arg;
	bool known = fd >= 0 && bpf_obj_get_info_by_fd(fd, &info, &len) == 0;

	if (unlinkat(dir_fd, name, 0))
		return -errno;
	if (known)
		idlist_add(&r->maps, info.id);
	return 0;
}

/* --- links ----------------------------------------------------------------------------------- */

struct pins {
	struct link_pin *pin;
	size_t cnt;
};

static void pins_done(struct pins *pins)
{
	while (pins->cnt)
		free(pins->pin[--pins->cnt].name);
	free(pins->pin);
}

static int add_pin(int dir_fd, const char *name, void *arg)
{
	struct pins *pins = arg;

	(void)dir_fd;
	pins->pin = array_grow(pins->pin, pins->cnt, sizeof(*pins->pin));
	pins->pin[pins->cnt++] = (struct link_pin) { .name = xstrdup(name) };
	return 0;
}

static int unpin_links(int dir_fd, struct removal *r, bpffs_progress_fn progress, void *arg)
{
	__cleanup(pins_done) struct pins pins = {};
	int code = for_each_pin(dir_fd, "link_", add_pin, &pins);

	if (!code && pins.cnt)
		code = links_close(dir_fd, pins.pin, pins.cnt, progress, arg);
	for (size_t i = 0; i < pins.cnt; i++) {
		const struct link_pin *pin = &pins.pin[i];

		/* What stays pinned is not waited for. */
		if (pin->unpinned && pin->info.id) {
			idlist_add(&r->links, pin->info.id);
			idlist_add(&r->progs, pin->info.prog_id);
		}
	}
	return code;
}

/*
 * A link's id goes before its probes do (bpf_link_free: id, release, program), the
 * program's after: so the last program's id tells that nothing fires any more. Maps go
 * last. Programs and maps that somebody else holds open are not waited for long. Links that
 * somebody holds open are given up when none has gone for a while: -EBUSY.
 */
static int removal_wait(struct removal *r, bpffs_progress_fn progress, void *arg)
{
	long pause_ms = POLL_MS, held_ms = 0, stuck_ms = 0;
	size_t total = r->links.cnt, before;

	while (held_ms < HELD_MS) {
		before = r->links.cnt;
		idlist_prune(&r->links, bpf_link_get_next_id);
		stuck_ms = r->links.cnt && r->links.cnt == before ? stuck_ms + pause_ms : 0;
		if (stuck_ms >= STUCK_MS)
			return -EBUSY;
		if (progress)
			progress(total - r->links.cnt, total, arg);
		if (!r->links.cnt) {
			idlist_prune(&r->progs, bpf_prog_get_next_id);
			idlist_prune(&r->maps, bpf_map_get_next_id);
			held_ms += pause_ms;
		}
		if (!r->links.cnt && !r->progs.cnt && !r->maps.cnt)
			return 0;
		sleep_ms(pause_ms);
		/* A link each takes the kernel minutes: looking must not cost as much. */
		if (r->links.cnt > MANY_LINKS && pause_ms < POLL_MAX_MS)
			pause_ms *= 2;
		else if (r->links.cnt <= MANY_LINKS)
			pause_ms = POLL_MS;
	}
	return 0;
}

static void removal_done(struct removal *r)
{
	idlist_done(&r->links);
	idlist_done(&r->progs);
	idlist_done(&r->maps);
}

/* Who closes links may be killed, and then leaves breakpoints, as the @dead that came before. */
static int remove_links(int dir_fd, bool dead, struct removal *r, bpffs_progress_fn progress,
	void *arg)
{
	int code = -EINTR;

	for (int i = 0; code == -EINTR && i < TRIES; i++) {
		code = unpin_links(dir_fd, r, progress, arg);
		dead |= code == -EINTR;
	}
	if (code || !dead)
		return code;
	code = -EINTR;
	for (int i = 0; code == -EINTR && i < TRIES; i++)
		code = breaks_heal(dir_fd);
	return code;
}

static int remove_stage(struct bpffs *fs, const char *name, bool dead,
	bpffs_progress_fn progress, void *arg, struct err *err)
{
	__cleanup(removal_done) struct removal removal = {};
	char stage[GROUP_NAME_MAX + 3];
	_cleanup_close_ int fd = -1;
	int code, held;

	snprintf(stage, sizeof(stage), "%s~", name);
	fd = openat(fs->fd, stage, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	/* what is no directory, a symbolic link above all, is no group: only its name goes */
	if (fd < 0 && errno == ENOTDIR && !unlinkat(fs->fd, stage, 0))
		return 0;
	if (fd < 0)
		return err_sys(err, -errno, "cannot open '%s/%s'", fs->path, stage);
	code = remove_links(fd, dead, &removal, progress, arg);
	if (!code)
		code = for_each_pin(fd, "", unpin_map_fn, &removal);
	if (!code)
		code = bpffs_drop_lock(fd);
	if (!code && unlinkat(fs->fd, stage, AT_REMOVEDIR))
		code = -errno;
	held = removal_wait(&removal, progress, arg);
	if (code)
		return err_sys(err, code, "cannot remove '%s/%s'", fs->path, stage);
	if (held) {
		err_set(err, held, "%zu of the probes' links of '%s' are held by somebody else",
			removal.links.cnt, name);
		return err_hint(err, "'bpftool -f link show id %u' shows the process or pin; they "
				     "count until it is gone",
			removal.links.id[0]);
	}
	return 0;
}

int bpffs_remove(struct bpffs *fs, const char *name, bpffs_progress_fn progress, void *arg,
	struct err *err)
{
	return remove_stage(fs, name, false, progress, arg, err);
}

int bpffs_remove_dead(struct bpffs *fs, const char *name, struct err *err)
{
	return remove_stage(fs, name, true, NULL, NULL, err);
}
