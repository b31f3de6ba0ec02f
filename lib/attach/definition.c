// SPDX-License-Identifier: BSD-2-Clause
// What a group is of, as a number: whether attaching again would make another one.
//
// It is of the records that a group would have, which say all that was asked for and found, and of
// the options that leave no trace there.
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "attach/attach.h"
#include "internal.h"

/* FNV-1a, 64 bits: for changes by mistake or by need, not against who wants two alike. */
static void mix(uint64_t *hash, const void *bytes, size_t size)
{
	const unsigned char *p = bytes;

	for (size_t i = 0; i < size; i++)
		*hash = (*hash ^ p[i]) * 0x100000001b3ULL;
}

#define MIX(hash, value) mix(hash, &(value), sizeof(value))

static void mix_list(uint64_t *hash, const void *list, size_t cnt, size_t size)
{
	MIX(hash, cnt);
	if (cnt)
		mix(hash, list, cnt * size);
}

static void mix_text(uint64_t *hash, const char *text)
{
	mix(hash, text ? text : "", text ? strlen(text) + 1 : 1);
}

/* A folder that was made again has the same path, and another cgroup. */
static void mix_cgroup(uint64_t *hash, const char *path)
{
	struct stat st = {};

	mix_text(hash, path);
	if (!stat(path, &st))
		MIX(hash, st.st_ino);
}

static void mix_filter(uint64_t *hash, const struct filter *f)
{
	mix_list(hash, f->pids, f->pid_cnt, sizeof(*f->pids));
	mix_list(hash, f->tids, f->tid_cnt, sizeof(*f->tids));
	mix_list(hash, f->uids, f->uid_cnt, sizeof(*f->uids));
	mix_list(hash, f->cpus, f->cpu_cnt, sizeof(*f->cpus));
	for (size_t i = 0; i < f->comm_cnt; i++)
		mix_text(hash, f->comms[i]);
	MIX(hash, f->comm_cnt);
	for (size_t i = 0; i < f->cgroup_cnt; i++)
		mix_cgroup(hash, f->cgroups[i]);
}

static void mix_keys(uint64_t *hash, const struct keys *k)
{
	if (!k)
		return;
	for (size_t i = 0; i < k->key_cnt; i++)
		mix_text(hash, k->key[i].name);
	MIX(hash, k->key_cnt);
	for (size_t i = 0; i < k->sum_cnt; i++)
		mix_text(hash, k->sum[i].name);
	MIX(hash, k->rows);
}

static void mix_opts(uint64_t *hash, const struct attach_opts *o)
{
	const bool yes[] = { o->processes, o->split, o->nesting, o->raw, o->children,
		o->stacks_python };
	const uint32_t numbers[] = { o->link, o->sample, o->budget.share, o->blocks, o->stack_cnt,
		o->rate, o->stacks_of, o->access.mode, o->access.uid, o->access.gid,
		o->access.all };

	MIX(hash, yes);
	MIX(hash, numbers);
	MIX(hash, o->for_ns);
	mix_text(hash, o->condition ? o->condition->text : NULL);
	mix_filter(hash, &o->filter);
	mix_keys(hash, o->keys);
}

int attach_definition(const struct draft *draft, const struct attach_opts *opts,
	uint64_t *ret_definition, struct err *err)
{
	__cleanup(description_done) struct description d = {};
	uint64_t hash = 0xcbf29ce484222325ULL;
	size_t cnt = draft->probed_cnt;
	int code = description_new(draft, opts, NULL, opts->link, &d, err);

	if (code)
		return code;
	mix_list(&hash, d.funcs, cnt, sizeof(*d.funcs));
	mix_list(&hash, d.confs, cnt, sizeof(*d.confs));
	mix_list(&hash, d.conds, cnt, sizeof(*d.conds));
	mix_list(&hash, d.keyed, d.keyed ? cnt : 0, sizeof(*d.keyed));
	mix_list(&hash, d.rules, d.rules ? cnt : 0, sizeof(*d.rules));
	mix_list(&hash, d.libs, draft->objects.cnt, sizeof(*d.libs));
	mix_list(&hash, d.types.types, d.types.type_cnt, sizeof(*d.types.types));
	mix_list(&hash, d.types.names, d.types.name_cnt, sizeof(*d.types.names));
	mix_list(&hash, d.text.buf, d.text.len, 1);
	mix_opts(&hash, opts);
	if (draft->duty > 1)
		MIX(&hash, draft->duty);
	*ret_definition = hash ? hash : 1;
	return 0;
}
