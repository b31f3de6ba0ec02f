// SPDX-License-Identifier: BSD-2-Clause
// Filters into the maps that programs look them up in.
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/vfs.h>

#include <bpf/bpf.h>

#include "base/util.h"
#include "group/filter.h"
#include "group/records.h"
#include "pins/bpffs.h"
#include "pins/maps.h"
#include "proc/proc.h"
#include "shared/layout.h"

static int put(int fd, const void *key, const char *what, struct err *err)
{
	uint32_t one = 1;

	if (!bpf_map_update_elem(fd, key, &one, 0))
		return 0;
	if (errno == E2BIG)
		return err_set(err, -E2BIG, "too many filters by %s", what);
	return err_sys(err, -errno, "cannot filter by %s", what);
}

static int comm_key(const char *name, struct fsn_comm *ret_comm, struct err *err)
{
	*ret_comm = (struct fsn_comm) {};
	if (!*name || strlen(name) >= sizeof(ret_comm->comm))
		return err_set(err, -EINVAL, "command '%s' has not 1 to %zu bytes", name,
			sizeof(ret_comm->comm) - 1);
	memcpy(ret_comm->comm, name, strlen(name));
	return 0;
}

static int put_comm(int fd, const char *name, struct err *err)
{
	struct fsn_comm comm;
	int code = comm_key(name, &comm, err);

	return code ? code : put(fd, &comm, "command", err);
}

static int put_cgroup(int map_fd, uint32_t i, const char *path, struct err *err)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct statfs st;

	if (i >= FSN_CGROUPS_MAX)
		return err_set(err, -E2BIG, "more than %d cgroups", FSN_CGROUPS_MAX);
	if (fd < 0)
		return err_sys(err, -errno, "cannot open cgroup '%s'", path);
	if (fstatfs(fd, &st) || (unsigned long)st.f_type != CGROUP2_SUPER_MAGIC) {
		_cleanup_free_ char *mount = cgroup_mount("/proc");

		err_set(err, -EINVAL, "'%s' is not a directory of cgroup v2", path);
		return mount ? err_hint(err, "use a directory below '%s'", mount)
			     : err_hint(err, "cgroup v2 is not mounted");
	}
	if (bpf_map_update_elem(map_fd, &i, &fd, 0))
		return err_sys(err, -errno, "cannot filter by cgroup '%s'", path);
	return 0;
}

int filter_write(const struct filter *f, const struct filter_maps *maps, uint32_t *ret_mask,
	struct err *err)
{
	int code = f->pid_cnt || f->tid_cnt ? proc_check_numbers(err) : 0;

	for (size_t i = 0; !code && i < f->pid_cnt; i++)
		code = put(maps->pids, &f->pids[i], "process", err);
	for (size_t i = 0; !code && i < f->comm_cnt; i++)
		code = put_comm(maps->comms, f->comms[i], err);
	for (size_t i = 0; !code && i < f->cpu_cnt; i++)
		code = put(maps->cpus, &f->cpus[i], "CPU", err);
	for (size_t i = 0; !code && i < f->cgroup_cnt; i++)
		code = put_cgroup(maps->cgroups, i, f->cgroups[i], err);
	for (size_t i = 0; !code && i < f->uid_cnt; i++)
		code = put(maps->uids, &f->uids[i], "user", err);
	for (size_t i = 0; !code && i < f->tid_cnt; i++)
		code = put(maps->tids, &f->tids[i], "thread", err);
	if (code)
		return code;
	*ret_mask = (f->pid_cnt ? FSN_FILTER_PID : 0) | (f->comm_cnt ? FSN_FILTER_COMM : 0) |
		    (f->cpu_cnt ? FSN_FILTER_CPU : 0) |
		    (f->cgroup_cnt ? FSN_FILTER_CGROUP : 0) |
		    (f->uid_cnt ? FSN_FILTER_UID : 0) | (f->tid_cnt ? FSN_FILTER_TID : 0);
	return 0;
}

/* --- replacing ------------------------------------------------------------------------------ */

/* The present or new keys of a map. */
struct list {
	int fd;
	const char *what;
	size_t key_bytes, cnt;
	uint32_t flag, room;
	char *keys;
};

#define LISTS 3
struct lists {
	struct list of[LISTS]; /* processes, commands, users */
};

static void list_done(struct list *l)
{
	free(l->keys);
}

static void lists_done(struct lists *lists)
{
	for (int i = 0; i < LISTS; i++)
		list_done(&lists->of[i]);
}

static char *list_key(const struct list *l, size_t i)
{
	return l->keys + i * l->key_bytes;
}

static bool list_has(const struct list *l, const void *key)
{
	for (size_t i = 0; i < l->cnt; i++)
		if (!memcmp(list_key(l, i), key, l->key_bytes))
			return true;
	return false;
}

/* Reads the list in the map of @like. */
static int list_read(const struct list *like, struct list *ret_list, struct err *err)
{
	struct list l = *like;
	const void *from = NULL;

	l.cnt = 0;
	l.keys = xcalloc(l.room + 1, l.key_bytes);
	while (l.cnt < l.room && !bpf_map_get_next_key(l.fd, from, list_key(&l, l.cnt)))
		from = list_key(&l, l.cnt++);
	if (l.cnt < l.room && errno != ENOENT) {
		free(l.keys);
		return err_sys(err, -errno, "cannot read the filter by %s", l.what);
	}
	*ret_list = l;
	return 0;
}

/* Adds to the map that has @old the keys that are in @l only. */
static int list_add(const struct list *l, const struct list *old, struct err *err)
{
	int code = 0;

	for (size_t i = 0; !code && i < l->cnt; i++)
		if (!list_has(old, list_key(l, i)))
			code = put(l->fd, list_key(l, i), l->what, err);
	return code;
}

/* Takes from it the keys that are in @old only. */
static int list_drop(const struct list *l, const struct list *old, struct err *err)
{
	for (size_t i = 0; i < old->cnt; i++)
		if (!list_has(l, list_key(old, i)) &&
			bpf_map_delete_elem(l->fd, list_key(old, i)) && errno != ENOENT)
			return err_sys(err, -errno, "cannot filter by %s", l->what);
	return 0;
}

/* Keeps common entries in the map throughout. Adds before it deletes, if all entries fit. */
static int list_change(const struct list *l, const struct list *old, struct err *err)
{
	size_t added = 0;
	int code;

	for (size_t i = 0; i < l->cnt; i++)
		added += !list_has(old, list_key(l, i));
	if (old->cnt + added <= l->room) {
		code = list_add(l, old, err);
		return code ? code : list_drop(l, old, err);
	}
	code = list_drop(l, old, err);
	return code ? code : list_add(l, old, err);
}

/* Writes @l to the map; restores @old after an error. */
static int list_write(const struct list *l, const struct list *old, struct err *err)
{
	int code = list_change(l, old, err);
	struct list now;

	if (code && !list_read(l, &now, NULL)) {
		list_change(old, &now, NULL);
		list_done(&now);
	}
	return code;
}

/* Fills *@l with unique numbers. */
static int list_of_numbers(
	const uint32_t *numbers, size_t cnt, struct list *l, struct err *err)
{
	l->key_bytes = sizeof(*numbers);
	l->keys = xcalloc(cnt + 1, l->key_bytes);
	for (size_t i = 0; i < cnt; i++)
		if (!list_has(l, &numbers[i]))
			memcpy(list_key(l, l->cnt++), &numbers[i], l->key_bytes);
	return l->cnt > l->room ? err_set(err, -E2BIG, "too many filters by %s", l->what) : 0;
}

static int list_of_pids(const struct filter *f, struct list *l, struct err *err)
{
	*l = (struct list) {
		.what = "process", .flag = FSN_FILTER_PID, .room = FSN_PIDS_MAX
	};
	return list_of_numbers((const uint32_t *)f->pids, f->pid_cnt, l, err);
}

static int list_of_uids(const struct filter *f, struct list *l, struct err *err)
{
	*l = (struct list) {
		.what = "user", .flag = FSN_FILTER_UID, .room = FSN_UIDS_MAX
	};
	return list_of_numbers(f->uids, f->uid_cnt, l, err);
}

static int list_of_comms(const struct filter *f, struct list *l, struct err *err)
{
	struct fsn_comm comm;
	int code;

	*l = (struct list) { .what = "command", .key_bytes = sizeof(comm),
		.flag = FSN_FILTER_COMM, .room = FSN_COMMS_MAX };
	l->keys = xcalloc(f->comm_cnt + 1, l->key_bytes);
	for (size_t i = 0; i < f->comm_cnt; i++) {
		code = comm_key(f->comms[i], &comm, err);
		if (code)
			return code;
		if (!list_has(l, &comm))
			memcpy(list_key(l, l->cnt++), &comm, l->key_bytes);
	}
	return l->cnt > l->room ? err_set(err, -E2BIG, "too many filters by %s", l->what) : 0;
}

static int lists_of(const struct filter *f, struct lists *lists, struct err *err)
{
	int code = list_of_pids(f, &lists->of[0], err);

	if (!code)
		code = list_of_comms(f, &lists->of[1], err);
	return code ? code : list_of_uids(f, &lists->of[2], err);
}

/*
 * Checks, before anything is changed, that the lists of processes, commands and users can be
 * written. Returns -EINVAL and -E2BIG like filter_write().
 */
static int filter_check(const struct filter *f, struct err *err)
{
	__cleanup(lists_done) struct lists lists = {};
	int code = f->pid_cnt ? proc_check_numbers(err) : 0;

	return code ? code : lists_of(f, &lists, err);
}

/* Fills new and changed lists before switching them on; clears others after switching them off. */
static int lists_replace(const struct list *lists, const struct list *old, uint32_t change,
	uint32_t mask, uint32_t *on, struct err *err)
{
	int code = 0, i;

	for (i = 0; !code && i < LISTS; i++) {
		if (!(change & lists[i].flag) || !lists[i].cnt)
			continue;
		mask |= lists[i].flag;
		code = list_write(&lists[i], &old[i], err);
	}
	/* list_write() has restored the failed list; restore the ones before it. */
	for (i -= 2; code && i >= 0; i--)
		if (mask & lists[i].flag)
			list_write(&old[i], &lists[i], NULL);
	if (code)
		return code;
	__atomic_store_n(on, (*on & ~change) | mask, __ATOMIC_SEQ_CST);
	for (i = 0; i < LISTS; i++) /* leftovers are harmless, because the filter is off */
		if (change & lists[i].flag && !lists[i].cnt)
			list_drop(&lists[i], &old[i], NULL);
	return 0;
}

/*
 * Replaces the lists of @change, FSN_FILTER_PID, FSN_FILTER_COMM and FSN_FILTER_UID, while BPF
 * programs use them. Updates the switches *@on; an empty list switches its filter off. Calls that
 * pass both the old and the new lists pass throughout. Other switches of @change are set as in
 * @set at the same moment.
 *
 * After an error, the old lists are restored as far as the kernel allows. The caller excludes other
 * writers of these maps.
 */
static int filter_replace(const struct filter *f, const struct filter_maps *maps, uint32_t change,
	uint32_t set, uint32_t *on, struct err *err)
{
	__cleanup(lists_done) struct lists new = {}, old = {};
	int code = lists_of(f, &new, err);

	new.of[0].fd = maps->pids;
	new.of[1].fd = maps->comms;
	new.of[2].fd = maps->uids;
	for (int i = 0; !code && i < LISTS; i++)
		code = list_read(&new.of[i], &old.of[i], err);
	return code ? code : lists_replace(new.of, old.of, change, set & change, on, err);
}

uint32_t filter_lost_children(int dir_fd)
{
	_cleanup_close_ int fd = bpffs_get(dir_fd, map_pin_name(MAPID_PIDS), 0);
	uint32_t none = FSN_PID_NONE, lost = 0, cnt;

	if (fd < 0 || map_check(fd, MAPID_PIDS, 0, &cnt) || bpf_map_lookup_elem(fd, &none, &lost))
		return 0;
	return lost;
}

/* --- changing a running group: a call that counts before and after is never missed ---------- */

/* State of a change of the condition. */
struct rewrite {
	const struct group *g;
	const struct condition *c;
	struct fsn_cond *conds;
	struct fsn_said before;
	bool said; /* the new condition has been written */
};

static void rewrite_done(struct rewrite *r)
{
	free(r->conds);
}

static int bind_condition(struct rewrite *r, size_t *ret_never, struct err *err)
{
	for (uint32_t fn = 0; fn < r->g->meta.fn_cnt; fn++) {
		int code = target_kind_check_condition(kind_of(r->g, fn), err);

		if (code)
			return code;
	}
	r->conds = xcalloc(r->g->meta.fn_cnt + 1, sizeof(*r->conds));
	return group_bind_condition(r->g, r->c, r->conds, ret_never, err);
}

int group_check_change(const struct group *g, const struct group_change *change,
	size_t *ret_never, struct err *err)
{
	__cleanup(rewrite_done) struct rewrite r = { .g = g, .c = change->condition };
	size_t never = 0;
	int code = 0;

	if (change->set_pids && g->meta.options & FSN_OPT_LINK_PID) {
		err_set(err, -EBUSY, "group '%s' has probes in the processes of --pid only",
			g->name);
		return err_hint(err, "attach the group again with --replace and the other --pid");
	}
	if (r.c && r.c->term_cnt)
		code = bind_condition(&r, &never, err);
	if (!code && ret_never)
		*ret_never = never;
	return code ? code : filter_check(change->filter, err);
}

static int write_said(const struct group *g, const struct fsn_said *said, struct err *err)
{
	uint32_t zero = 0;

	if (!bpf_map_update_elem(group_fd(g, MAPID_SAID), &zero, said, 0))
		return 0;
	return err_sys(err, -errno, "cannot change group '%s'", g->name);
}

/*
 * Writes the condition to the half of the map that the BPF programs do not read now, and its text for
 * readers. *@ret_set are the flags that make the BPF programs use it; 0: no condition.
 */
static int write_condition(struct rewrite *r, uint32_t on, uint32_t *ret_set, struct err *err)
{
	const struct group *g = r->g;
	bool second = on & FSN_FILTER_IF && !(on & FSN_FILTER_IF2);
	uint32_t zero = 0, cnt = g->meta.fn_cnt;
	struct fsn_said said;
	size_t never;
	int code;

	*ret_set = 0;
	if (r->c->term_cnt) {
		code = bind_condition(r, &never, err);
		if (code)
			return code;
		code = map_write(group_fd(g, MAPID_CONDS), second ? cnt : 0, cnt,
			sizeof(*r->conds), r->conds);
		if (code)
			return err_sys(err, code, "cannot change group '%s'", g->name);
		*ret_set = FSN_FILTER_IF | (second ? FSN_FILTER_IF2 : 0);
	}
	if (bpf_map_lookup_elem(group_fd(g, MAPID_SAID), &zero, &r->before))
		return err_sys(err, -errno, "cannot change group '%s'", g->name);
	said = r->before;
	memcpy(said.condition, r->c->text, sizeof(said.condition));
	code = write_said(g, &said, err);
	r->said = !code;
	return code;
}

int group_change(const struct group *g, const struct group_change *change, struct err *err)
{
	const struct filter_maps maps = { .pids = group_fd(g, MAPID_PIDS),
		.comms = group_fd(g, MAPID_COMMS),
		.uids = group_fd(g, MAPID_UIDS) };
	uint32_t which = (change->set_pids ? FSN_FILTER_PID : 0) |
		(change->set_comms ? FSN_FILTER_COMM : 0) |
		(change->set_uids ? FSN_FILTER_UID : 0) |
		(change->condition ? FSN_FILTER_IF | FSN_FILTER_IF2 : 0);
	__cleanup(rewrite_done) struct rewrite r = { .g = g, .c = change->condition };
	_cleanup_mapping_ struct map_mapping map = {};
	uint32_t set = 0;
	struct fsn_ctl *ctl;
	int code = group_check_change(g, change, NULL, err);

	if (code)
		return code;
	code = map_mmap(group_fd(g, MAPID_CTL), sizeof(*ctl), &map);
	if (code)
		return err_sys(err, code, "cannot change group '%s'", g->name);
	ctl = map.addr;
	if (change->set_pids)
		__atomic_store_n(&ctl->only_pid, 0, __ATOMIC_SEQ_CST);
	if (r.c)
		code = write_condition(&r, ctl->on, &set, err);
	if (!code)
		code = filter_replace(change->filter, &maps, which, set, &ctl->on, err);
	if (code && r.said)
		write_said(g, &r.before, NULL);
	/* Wait for programs that use the old half, because the next change overwrites it. */
	if (!code && r.c)
		group_wait_for_programs(g);
	return code;
}
