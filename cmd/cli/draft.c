// SPDX-License-Identifier: BSD-2-Clause
// Drafts the group of a command line, and checks it before it is attached.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/cmd.h"
#include "cli/options.h"
#include "kernel/trace.h"
#include "proc/proc.h"
#include "target/kind.h"

#define HITS_MAX       (64 * 500) /* processes times functions */
#define BYSTANDERS_MAX 64         /* processes with breakpoints if children are traced */

/* Counts the processes of --pid that map a probed file, and reports the others. */
static size_t count_mapping(const struct attach_options *o, const struct draft *draft)
{
	size_t cnt = 0;

	for (size_t i = 0; i < o->draft.pid_cnt; i++) {
		pid_t pid = o->draft.pids[i];
		int maps = o->attach.unborn ? 1 : draft_is_mapped(draft, pid);

		cnt += maps != 0;
		if (!maps)
			cmd_note(o->g,
				"process %d does not map %s: nothing of it is counted until it does",
				pid,
				draft->objects.cnt == 1 ? draft->objects.object[0]->path
							: "any of them");
	}
	return cnt;
}

/* Limits, per kind, targets that are traced in every process, such as system calls. */
static int check_kinds(const struct attach_options *o, const struct draft *draft, struct err *err)
{
	const struct filter *f = &o->attach.filter;

	if (o->of_command || f->pid_cnt || f->comm_cnt || f->cpu_cnt || f->cgroup_cnt ||
		f->uid_cnt || f->tid_cnt)
		return 0;
	for (size_t i = 0; i < TARGET_CNT; i++) {
		const struct target_kind *kind = target_kinds[i];
		size_t cnt = draft_kind_cnt(draft, kind);

		if (!kind->most || cnt <= kind->most)
			continue;
		err_set(err, -EPERM, "%zu %ss of all processes would be counted", cnt,
			kind->noun);
		return err_hint(err, "choose processes with --pid, or name fewer of them; --force "
				     "attaches anyway");
	}
	return 0;
}

static int check_cgroups(const struct attach_options *o, const struct draft *draft, struct err *err)
{
	for (size_t i = 0; o->attach.filter.cgroup_cnt && i < draft->probed_cnt; i++) {
		const struct target *t = &draft->targets[i];

		if (!t->kind->lacks_cgroup || !t->kind->lacks_cgroup(t))
			continue;
		err_set(err, -EOPNOTSUPP, "'cgroup' of --if chooses no waits of '%s'", t->name);
		return err_hint(err, "use --by cgroup to distinguish them");
	}
	return 0;
}

/* Signals are sent by other processes, and those of timers by interrupts. */
static void note_senders(const struct attach_options *o, const struct draft *draft)
{
	if (!o->of_command && !o->attach.filter.pid_cnt)
		return;
	for (size_t i = 0; i < draft->probed_cnt; i++)
		if (!strcmp(draft->targets[i].name, "signal:signal_generate"))
			cmd_note(o->g,
				"t:signal:signal_generate counts signals that the process sends, but not "
				"those of timers: use t:signal:signal_deliver for those that it gets");
}

static void note_unlimited(const struct attach_options *o, const struct draft *draft)
{
	if (o->has_overhead && o->attach.budget.share && !bound_can_limit(draft))
		cmd_note(o->g, "--overhead limits nothing here, only functions of programs and "
			"libraries that a pattern or a preset selects");
}

static bool are_many(const struct draft *draft, size_t processes)
{
	return processes * draft->probed_cnt > HITS_MAX;
}

/* COMMAND alone has the breakpoints then. */
static void spare_others(struct attach_options *o, size_t processes)
{
	o->attach.children = false;
	cmd_note(o->g,
		"children of the command are not traced: %zu other processes map the same file and "
		"would pay for it; --force traces children",
		processes);
}

int draft_check_hits(struct attach_options *o, const struct draft *draft,
	size_t *ret_processes, struct err *err)
{
	size_t processes = count_mapping(o, draft);
	int code = 0;

	if (!o->draft.pid_cnt || o->attach.children)
		code = draft_mappers(draft, &processes, err);
	if (!code && o->of_command && o->attach.children && !o->force &&
		(processes > BYSTANDERS_MAX || are_many(draft, processes)))
		spare_others(o, processes);
	if (o->of_command && !o->attach.children)
		processes = 1;
	*ret_processes = processes;
	if (!code)
		code = check_cgroups(o, draft, err);
	if (code)
		return code;
	note_senders(o, draft);
	note_unlimited(o, draft);
	if (o->force)
		return 0;
	code = check_kinds(o, draft, err);
	if (code)
		return code;
	if (o->attach.children && processes > BYSTANDERS_MAX) {
		err_set(err, -EPERM,
			"to follow children, %zu processes would get breakpoints, as they map "
			"the same file",
			processes);
		return err_hint(err,
			"use --pid without + to probe the process alone; --force follows children anyway");
	}
	if (!are_many(draft, processes))
		return 0;
	err_set(err, -EPERM, "%zu functions in each of %zu processes would be probed",
		draft->probed_cnt, processes);
	return err_hint(err,
		"choose processes with --pid, or name fewer FUNCTIONs; --force attaches anyway");
}

/* --tid without --pid: uses the processes of the threads. */
static int processes_of_threads(struct attach_options *o, struct err *err)
{
	const struct filter *f = &o->attach.filter;
	pid_t *pids;

	if (!f->tid_cnt || f->pid_cnt)
		return 0;
	pids = o->pids.of = xcalloc(f->tid_cnt, sizeof(*pids));
	for (size_t i = 0; i < f->tid_cnt; i++) {
		pids[i] = proc_of_thread("/proc", f->tids[i]);
		if (!pids[i])
			return err_set(err, -ESRCH, "there is no thread %d", f->tids[i]);
	}
	o->draft.pids = o->attach.filter.pids = pids;
	o->draft.pid_cnt = o->attach.filter.pid_cnt = f->tid_cnt;
	return 0;
}

static int check_condition(
	const struct attach_options *o, const struct draft *draft, struct err *err)
{
	size_t never = 0;
	int code = o->attach.condition && draft->probed_cnt
		? attach_check_condition(draft, o->attach.condition, &never, err)
		: 0;

	if (!code && never)
		cmd_note(o->g,
			"no call of %zu of the %zu functions counts: they lack an argument of --if",
			never, draft->probed_cnt);
	return code;
}

/* A rate is of samples; the groups of a file may be of both. */
static int check_rate(const struct attach_options *o, const struct draft *draft, struct err *err)
{
	bool sampled = o->config || !draft->probed_cnt;

	for (size_t i = 0; i < draft->probed_cnt; i++)
		sampled |= draft->targets[i].kind->is_sample;
	if (!o->attach.rate || sampled)
		return 0;
	err_set(err, -ERR_USAGE, "--sample %uhz is of CPU samples: '%s' has calls",
		o->attach.rate, draft->targets[0].name);
	return err_hint(err, "to time one call of N: --sample 1/N");
}

/* Those of threads and those of calls are not in one group. */
static int check_stacks(const struct attach_options *o, const struct draft *draft, struct err *err)
{
	enum kind_stacks first = draft->probed_cnt ? draft->targets[0].kind->stacks : 0;

	for (size_t i = 0; o->attach.stack_cnt && i < draft->probed_cnt; i++) {
		const struct target *t = &draft->targets[i];

		if (!t->kind->stacks && !t->object->elf)
			return err_set(err, -ERR_USAGE, "--by stack: %ss have no stacks (%s)",
				t->kind->noun, t->object->path);
		if (t->kind->stacks != first)
			return err_set(err, -ERR_USAGE,
				"stacks of '%s' and of '%s' begin in different places (function, "
				"entry to the kernel, kernel): use a group for each",
				draft->targets[0].name, t->name);
		if (t->kind->stacks && o->keys.stack_late)
			return err_set(err, -ERR_USAGE, "--by stack:slow is for functions of programs");
	}
	return 0;
}

/* True if all GPU targets are kernels or launches: stacks are known only for these. */
static bool has_stacks(const struct attach_options *o, const struct draft *draft)
{
	for (size_t i = 0; i < draft->probed_cnt; i++)
		if (draft->targets[i].kind->on_gpu && !target_gpu_is_kernels(&draft->targets[i]) &&
			!target_gpu_is_launch(&draft->targets[i]))
			return false;
	return !o->keys.stack_late;
}

/* Adds the key 'kernel' to stacks of launches. */
static int add_kernel(struct attach_options *o, const struct draft *draft, struct err *err)
{
	bool kernels = false;

	for (size_t i = 0; i < draft->probed_cnt; i++)
		kernels |= target_gpu_is_kernels(&draft->targets[i]);
	if (!kernels || !o->attach.stack_cnt || o->config || o->keys.key_cnt == FSN_KEYS ||
		keys_at(&o->keys, FSN_BY_KERNEL))
		return 0;
	return keys_add(&o->keys, "kernel", err);
}

/* Returns 0, or an error with the possible values if a GPU cannot be recorded 1 of @seconds. */
static int check_duty(uint32_t seconds, struct err *err)
{
	uint32_t duty;
	char text[16];

	snprintf(text, sizeof(text), "1/%u", seconds);
	return target_gpu_duty(text, &duty, err) ? err_wrap(err, "--sample of a GPU") : 0;
}

static bool has_gpu(const struct draft *draft)
{
	return ANY_WHERE(draft->probed_cnt, i, draft->targets[i].kind->on_gpu &&
		!draft->targets[i].request->implied);
}

/* Returns an error if ranges are a key of activity that no thread does. */
static int check_ranges(const struct attach_options *o, const struct draft *draft, struct err *err)
{
	for (size_t i = 0; o->draft.ranges && i < draft->probed_cnt; i++) {
		const struct target *t = &draft->targets[i];

		if (t->kind->is_wait && !target_gpu_is_ranges(t))
			return err_set(err, -ERR_USAGE, "--by range: not known for '%s'", t->name);
	}
	return 0;
}

/*
 * Decides whether --sample means calls or a GPU's seconds. A thread of libcupti reports GPU activity,
 * so the calling thread and its stack are not known.
 */
static int check_gpu(struct attach_options *o, struct draft *draft, struct err *err)
{
	static const enum fsn_by unknown[] = {
		FSN_BY_CALLER, FSN_BY_THREAD, FSN_BY_COMM, FSN_BY_STACK };
	static const char *const words[] = { "caller", "thread", "comm", "stack" };

	if (!draft->probed_cnt)
		return 0;
	if (!has_gpu(draft)) {
		if (o->sample_duty)
			draft->duty = 1;
		return draft->duty <= 1 ? 0
					: err_set(err, -ERR_USAGE,
						  "--duty is only for GPU activity: not in group '%s'",
						  draft->name);
	}
	if (o->attach.sample > 1 && !o->sample_duty)
		return check_duty(o->attach.sample, err);
	o->attach.sample = 0;
	for (size_t k = 0; o->attach.keys && k < ARRAY_SIZE(unknown); k++)
		if (keys_at(o->attach.keys, unknown[k]) &&
			!(unknown[k] == FSN_BY_STACK && has_stacks(o, draft))) {
			err_set(err, -ERR_USAGE, "--by %s: not known for GPU activity", words[k]);
			return err_hint(err,
				"presets cuda and cuda-driver have it, for the calls that launch kernels");
		}
	return 0;
}

/* "; open has filename, flags, mode": the names that keys can have instead. "" if it has none. */
static const char *list_args(const struct target *t, char *buf, size_t size)
{
	const struct preset_func *known = t->known;
	size_t at = 0;

	for (size_t i = 0; known && i < known->arg_cnt && at < size && *known->args[i].name; i++) {
		if (!i)
			at = snprintf(buf, size, "; %s has", t->name);
		if (at < size)
			at += snprintf(buf + at, size - at, "%s %s", i ? "," : "", known->args[i].name);
	}
	return buf;
}

static int check_keys(
	const struct attach_options *o, const struct draft *draft, struct err *err)
{
	struct keys_left left = {};
	char args[256] = "";
	int code = 0;

	code = check_stacks(o, draft, err);
	if (code)
		return code;
	if (o->attach.keys && draft->probed_cnt)
		code = attach_check_keys(draft, o->attach.keys, &left, err);
	/* Launches have no keys of their own; their kernels do. Users have not asked for the ranges. */
	for (size_t i = 0; i < draft->probed_cnt; i++)
		if (left.some && (target_gpu_is_launch(&draft->targets[i]) ||
			draft->targets[i].request->implied))
			left.some--;
	if (!code && left.none)
		cmd_note(o->g,
			"calls of %zu of the %zu functions are not broken down: they lack the "
			"arguments of --by and --sum%s",
			left.none, draft->probed_cnt,
			keys_at(&o->keys, FSN_BY_NUMBER)
				? list_args(&draft->targets[left.first], args, sizeof(args)) : "");
	if (!code && left.some)
		cmd_note(o->g, "%zu of the %zu functions lack some of the arguments of --by and --sum",
			left.some, draft->probed_cnt);
	return code;
}

/* Adds a key or a sum if some function of @draft has it. */
static int add_usual(struct attach_options *o, const struct draft *draft, const char *name,
	bool is_sum, struct err *err)
{
	struct keys one = {};
	struct keys_left left;
	struct err why = {};
	int code = is_sum ? keys_add_sum(&one, name, err) : keys_add(&one, name, err);

	if (code)
		return err_wrap(err, "preset '%s'", o->draft.preset->name);
	code = attach_check_keys(draft, &one, &left, &why);
	if (code == -ENOMEM)
		return err_sys(err, code, "cannot read keys");
	/*
	 * A default of a preset may not apply to any of its functions; other errors are reported.
	 */
	if (code && (code != -ERR_USAGE || !o->draft.lenient))
		cmd_note(o->g, "group '%s': %s", draft->name, why.msg);
	if (code)
		return 0;
	return is_sum ? keys_add_sum(&o->keys, name, err) : keys_add(&o->keys, name, err);
}

static bool has_key(const struct keys *keys, const char *name)
{
	return ANY_WHERE(keys->key_cnt, i, !strcmp(keys->key[i].name, name));
}

/* Rows of keys have no process, but the name of its thread can be a key. */
static int fail_process(const struct attach_options *o, struct err *err)
{
	char list[ERR_HINT_LEN / 2] = "";
	size_t at = 0;

	for (size_t i = 0; i < o->shown_cnt && at < sizeof(list); i++)
		if (strcmp(o->shown[i], "comm"))
			at += snprintf(list + at, sizeof(list) - at, "%s%s", at ? "," : "",
				strcmp(o->shown[i], "process") ? o->shown[i] : "comm");
	err_set(err, -ERR_USAGE, "--by 'process' cannot be combined with keys");
	return err_hint(err, "use --by %s", list);
}

/* Adds the keys that the view needs and that are not recorded already. */
static int add_shown(struct attach_options *o, const struct draft *draft, struct err *err)
{
	int code = 0;

	for (size_t i = 0; !code && draft->probed_cnt && i < o->shown_cnt; i++) {
		if (has_key(&o->keys, o->shown[i]))
			continue;
		if (!strcmp(o->shown[i], "process"))
			return fail_process(o, err);
		code = keys_add(&o->keys, o->shown[i], err);
		attach_options_use_keys(o);
	}
	return code;
}

/* Adds the default keys of a preset or a configuration file. */
static int usual_keys(struct attach_options *o, const struct draft *draft, struct err *err)
{
	const struct preset_group *preset = o->draft.preset;
	int code = 0;

	o->usual = true;
	o->attach.keys = NULL;
	o->keys.key_cnt = o->keys.sum_cnt = 0;
	if (!draft->probed_cnt)
		return 0;
	for (size_t i = 0; !code && i < preset->key_cnt; i++)
		code = add_usual(o, draft, preset->keys[i], false, err);
	for (size_t i = 0; !code && i < preset->sum_cnt; i++)
		code = add_usual(o, draft, preset->sums[i], true, err);
	if (!code && keys_wanted(&o->keys))
		attach_options_use_keys(o);
	return code;
}

/* Counting alone is to be cheap. */
static bool wants_usual_keys(const struct attach_options *o)
{
	const struct preset_group *preset = o->draft.preset;

	return preset && (preset->key_cnt || preset->sum_cnt) &&
		(!o->attach.keys || o->usual) && !o->no_keys && !o->draft.rules.count_only;
}

/* Samples without them say little. */
static bool wants_usual_stacks(struct attach_options *o, const struct draft *draft)
{
	if (!draft->probed_cnt || !draft->targets[0].kind->is_sample || o->attach.stack_cnt || o->no_keys ||
		o->keys.key_cnt == FSN_KEYS)
		return false;
	o->attach.stack_cnt = STACKS_USUAL;
	attach_options_use_keys(o);
	return true;
}

/* A process whose allocator takes memory in advance, and hands it out by itself; 0: none. */
static pid_t find_torch(const struct attach_options *o)
{
	const pid_t *pids = o->pids.of;
	size_t cnt = o->draft.pid_cnt;
	const struct proc_maps *maps;

	if (!cnt && procs_pids(o->draft.procs, &pids, &cnt, NULL))
		return 0;
	for (size_t i = 0; i < cnt; i++)
		for (size_t k = 0; !procs_maps(o->draft.procs, pids[i], &maps, NULL) && k < maps->cnt;
			k++)
			if (maps->maps[k].exec && strstr(maps->maps[k].path, "/libtorch"))
				return pids[i];
	return 0;
}

/* Returns the first preset that @fits, which the caller frees, or NULL. */
static struct preset_set *find_preset(
	bool (*fits)(const struct preset_group *group, const void *arg), const void *arg)
{
	struct preset_entry *entries = NULL;
	struct preset_set *set = NULL;
	size_t cnt = 0;

	preset_list(&entries, &cnt);
	for (size_t i = 0; !set && i < cnt; i++) {
		if (entries[i].error || preset_find(entries[i].name, &set, NULL) ||
			fits(&set->groups[0], arg))
			continue;
		preset_set_free(set);
		set = NULL;
	}
	preset_list_free(entries, cnt);
	return set;
}

static bool allocates(const struct preset_group *group, const void *symbol)
{
	return ANY_WHERE(group->func_cnt, i, group->funcs[i].memory.allocates &&
		!strcmp(group->funcs[i].symbol, symbol));
}

/* Suggests a preset that declares what the function allocates. */
static void hint_memory(const struct draft *draft, struct err *err)
{
	const char *symbol = draft->targets[0].symbol;
	struct preset_set *set = symbol ? find_preset(allocates, symbol) : NULL;

	if (set)
		err_hint(err, "preset '%s' knows it: use '%s %s --with memory' instead of the group and FUNCTION",
			set->groups[0].name, set->groups[0].name, symbol);
	preset_set_free(set);
}

/* True if all functions of @group allocate or free memory. */
static bool is_of_memory(const struct preset_group *group)
{
	return ALL_WHERE(group->func_cnt, i, group->funcs[i].memory.allocates ||
		group->funcs[i].memory.frees);
}

bool draft_suits_memory(const struct attach_options *o, const struct preset_group *preset)
{
	return !o->draft.function_cnt && !o->draft.rules.count_only && o->attach.sample <= 1 &&
		!(o->has_overhead && o->attach.budget.share) && is_of_memory(preset);
}

/* Names the option that tracks allocations. */
static void note_memory(const struct attach_options *o)
{
	if (!o->memory && o->draft.preset && draft_suits_memory(o, o->draft.preset))
		cmd_note(o->g, "preset '%s': '--with memory' tracks live bytes; "
			"the overhead is not limited then", o->draft.preset->name);
}

/* Fails if no allocations can be tracked, and reports functions whose allocations cannot. */
static int check_memory(const struct attach_options *o, const struct draft *draft, struct err *err)
{
	const struct preset_group *preset = o->draft.preset;
	struct rules_left left;
	pid_t pid;
	int code;

	if (!draft->probed_cnt)
		return 0;
	note_memory(o);
	if (!o->memory)
		return 0;
	code = attach_check_memory(draft, &left, err);
	if (code == -ERR_USAGE && !preset)
		hint_memory(draft, err);
	if (!code && left.cant)
		cmd_note(o->g, "group '%s': memory of %zu function%s is not followed: '%s' %s",
			draft->name, left.cant, left.cant == 1 ? "" : "s", left.name, left.why);
	pid = !code && preset && !strncmp(preset->name, "cuda", 4) ? find_torch(o) : 0;
	if (pid)
		cmd_note(o->g,
			"group '%s': PyTorch in process %d takes memory in advance: what its tensors hold is seen by 'tensors'",
			draft->name, pid);
	return code;
}

/* True if NVTX ranges are a key: of the user, of a view, or of the preset. */
static bool wants_ranges(const struct attach_options *o)
{
	const struct preset_group *preset = o->draft.preset;
	bool found = keys_have_range(&o->keys);

	for (size_t i = 0; i < o->shown_cnt; i++)
		found |= !strcmp(o->shown[i], FSN_GPU_RANGE);
	for (size_t i = 0; preset && i < preset->key_cnt; i++)
		found |= !strcmp(preset->keys[i], FSN_GPU_RANGE);
	return found;
}

int draft_group(struct attach_options *o, const struct preset_group *preset, bool lenient,
	struct draft **ret_draft, struct err *err)
{
	_cleanup_draft_ struct draft *draft = NULL;
	int code = processes_of_threads(o, err);
	bool usual;

	o->draft.preset = preset;
	o->draft.lenient = lenient;
	o->draft.launches = o->attach.stack_cnt;
	o->draft.ranges = wants_ranges(o);
	if (o->sample_duty)
		o->draft.duty = o->sample_duty;
	usual = wants_usual_keys(o);
	o->draft.rules.keep_args |= usual;
	if (!code && !o->draft.procs) /* shared by all groups of a configuration file */
		o->draft.procs = procs_new("/proc");
	if (!code)
		code = draft_new(&o->draft, &draft, err);
	if (!code)
		code = check_rate(o, draft, err);
	if (!code)
		code = check_ranges(o, draft, err);
	if (!code)
		code = check_gpu(o, draft, err);
	if (!code)
		code = add_kernel(o, draft, err);
	if (!code)
		code = check_condition(o, draft, err);
	if (!code && !usual && wants_usual_stacks(o, draft))
		code = keys_add_stack(&o->keys, err);
	if (!code)
		code = usual ? usual_keys(o, draft, err) : 0;
	if (!code)
		code = add_shown(o, draft, err);
	if (!code && (!usual || o->shown_cnt))
		code = check_keys(o, draft, err);
	if (!code && draft->probed_cnt && option_given("limit rows") && !o->attach.keys)
		code = err_set(err, -ERR_USAGE, "--limit rows needs --by: without it there are no rows");
	if (!code)
		code = check_memory(o, draft, err);
	if (!code)
		*ret_draft = TAKE_PTR(draft);
	return code;
}

/* "s:read", "c:malloc", not torch::nn::Linear */
static bool is_qualified(const char *func)
{
	const char *colon = strchr(func, ':');

	return colon && colon > func && colon[1] != ':';
}

/*
 * True if a group is the user's own although a kernel preset has its name, because these presets
 * are newer than groups of such names.
 */
static bool is_users_own(const struct attach_options *o, const struct preset_group *preset)
{
	size_t qualified = 0;

	for (size_t i = 0; i < preset->func_cnt; i++)
		if (!preset->funcs[i].is_target)
			return false;
	for (size_t i = 0; i < o->draft.function_cnt; i++)
		qualified += is_qualified(o->draft.functions[i]);
	return o->draft.function_cnt &&
		(o->draft.lib_cnt || qualified == o->draft.function_cnt);
}

/* "run profile -p PID": the word may be a command of another tracer. */
static bool hint_habit(const struct attach_options *o, const char *word, struct err *err)
{
	char pid[16], dash_p[] = "-p", *words[] = { dash_p, pid, NULL };

	if (o->pids.cnt == 1)
		snprintf(pid, sizeof(pid), "%d", *(const pid_t *)o->pids.of);
	return cmd_hint_habit(word, o->pids.cnt == 1 ? words : NULL, err);
}

/* True if @word is a library or a program, of the given processes if there are any. */
static bool is_file(const struct attach_options *o, const char *word)
{
	__cleanup(objects_done) struct objects files = {};
	const struct libfind_opts opts = { .pids = o->pids.of, .pid_cnt = o->pids.cnt,
		.program = o->draft.program };
	_cleanup_libfind_ struct libfind *finder = libfind_new(&opts);

	return !libfind_get(finder, word, &files, NULL);
}

/* A word that is no preset may be a FUNCTION of another tracer, or one without its group. */
static int hint_word(const struct attach_options *o, int code, struct err *err)
{
	const char *word = o->words.word[0];
	const char *group = strcmp(o->g->command, "run") ? "g " : ""; /* run names its own */

	if (code == -ENOENT && hint_habit(o, word, err))
		return code;
	if (code == -ENOENT && syscall_number(word) >= 0)
		return err_hint(err, "did you mean '%ss:%s'", group, word);
	if (code == -ENOENT && is_qualified(word))
		return err_hint(err, "a FUNCTION comes after the name of a group: 'g %s'", word);
	if (code == -ENOENT && is_file(o, word))
		return err_hint(err, "use '%s%s:*' for all functions of that file", group, word);
	if (err->hint[0])
		return code;
	return o->draft.lib_cnt
		? err_hint(err, "'funcsnoop list presets' shows them; a FUNCTION comes after the "
				"name of a group, such as 'g %s'", word)
		: err_hint(err, "'funcsnoop list presets' shows them; a FUNCTION is written with "
				"its library: '%sLIB:%s'", group, word);
}

/* "web syscalls" is preset syscalls under the name web; with --lib it is a function. */
static int find_second_preset(struct attach_options *o, struct preset_set **ret_set)
{
	if (o->draft.lib_cnt || !o->draft.function_cnt ||
		preset_find(o->draft.functions[0], ret_set, NULL))
		return -ENOENT;
	o->draft.functions++;
	o->draft.function_cnt--;
	return 0;
}

/* The name in "LIB:NAME". */
static const char *name_of(const char *func)
{
	size_t len;
	const char *lib = function_lib(func, &len);

	return lib ? lib + len + 1 : func;
}

static const struct preset_func *find_symbol(const struct preset_group *group, const char *symbol)
{
	return FIND_WHERE(group->funcs, group->func_cnt, i,
		!strcmp(group->funcs[i].symbol, symbol));
}

/* True if the LIB @lib of a FUNCTION is that of @group: "c", "libc.so.6", or a path of it. */
static bool is_lib_of(const struct preset_group *group, const char *lib, size_t len)
{
	const char *own = group->lib_cnt ? group->libs[0] : "", *slash = memrchr(lib, '/', len), *end;
	size_t own_len = strlen(own);

	if (len == own_len && !memcmp(lib, own, len))
		return true;
	end = lib + len;
	lib = slash ? slash + 1 : lib;
	if (!own_len || strncmp(lib, "lib", 3) != 0 || strncmp(lib + 3, own, own_len) != 0)
		return false;
	return lib + 3 + own_len == end || !strncmp(lib + 3 + own_len, ".so", 3);
}

/* True if @group has all FUNCTIONs, in its own library, and one of them allocates. */
static bool has_allocators(const struct preset_group *group, const void *arg)
{
	const struct attach_options *o = arg;
	bool allocates = false;

	for (size_t i = 0; i < o->draft.function_cnt; i++) {
		const char *func = o->draft.functions[i];
		const struct preset_func *known = find_symbol(group, name_of(func));
		size_t len = 0;
		const char *lib = function_lib(func, &len);

		if (!known || (lib && !is_lib_of(group, lib, len)))
			return false;
		allocates |= known->memory.allocates;
	}
	return allocates;
}

/*
 * Selects the FUNCTIONs of @group and, so that what they allocate is live until it is freed, the
 * functions that free it.
 */
static void select_allocators(struct attach_options *o, const struct preset_group *group)
{
	o->allocators.cnt = 0;
	for (size_t i = 0; i < o->draft.function_cnt; i++) {
		const char *name = name_of(o->draft.functions[i]);

		list_add(&o->allocators, &name, sizeof(name));
	}
	for (size_t i = 0; i < group->func_cnt; i++)
		if (group->funcs[i].memory.frees)
			list_add(&o->allocators, &group->funcs[i].symbol, sizeof(char *));
	o->draft.functions = o->allocators.of;
	o->draft.function_cnt = o->allocators.cnt;
}

/* Finds the preset that knows the FUNCTIONs of --with memory, in their LIB. */
static void know_allocators(struct attach_options *o, struct preset_set **ret_set)
{
	size_t len = 0;
	const char *lib = o->draft.function_cnt ? function_lib(o->draft.functions[0], &len) : NULL;

	*ret_set = find_preset(has_allocators, o);
	if (!*ret_set)
		return;
	if (lib && !o->allocating_lib)
		o->allocating_lib = xstrndup(lib, len);
	o->draft.libs = (const char *const *)&o->allocating_lib;
	o->draft.lib_cnt = lib ? 1 : 0;
	select_allocators(o, &(*ret_set)->groups[0]);
}

/* The only FUNCTION may be a preset that is misspelt, or of the kernel. */
static int hint_function(const struct attach_options *o, const char *word, struct err *err)
{
	struct preset_set *set = NULL;
	struct err preset = {};

	if (hint_habit(o, word, err))
		return err->code;
	if (!strchr(word, ':') && preset_find(word, &set, &preset) == -ENOENT && preset.hint[0])
		*err = preset;
	else if (!err->hint[0] && syscall_number(word) >= 0)
		err_hint(err, "did you mean 's:%s'", word);
	preset_set_free(set);
	return err->code;
}

/* "syscalls ls -l": the command needs the mark before it. */
static int hint_command(const struct attach_options *o, struct err *err)
{
	_cleanup_free_ char *path = NULL;
	size_t len = 0, first = o->words.cnt - o->draft.function_cnt;
	char line[ERR_HINT_LEN] = "";

	if (strcmp(o->g->command, "run") != 0 || started_find(o->words.word[first], &path, NULL))
		return err->code;
	for (size_t i = 0; i < o->words.cnt && len < sizeof(line); i++)
		len += snprintf(line + len, sizeof(line) - len, "%s %s", i == first ? " --" : "",
			o->words.word[i]);
	return err_hint(err, "a command follows --: 'funcsnoop run%s'", line);
}

static int draft_as_typed(struct attach_options *o, const char *name,
	struct preset_set **ret_set, struct draft **ret_draft, struct err *err)
{
	int code;

	o->draft.functions = (const char *const *)o->words.word + 1;
	o->draft.function_cnt = o->words.cnt - 1;
	code = preset_find(o->words.word[0], ret_set, err);
	if (code == -ENOENT && !find_second_preset(o, ret_set))
		code = 0;
	if (code && (code != -ENOENT || !o->draft.function_cnt))
		return hint_word(o, code, err);
	if (*ret_set && is_users_own(o, &(*ret_set)->groups[0])) {
		preset_set_free(*ret_set);
		*ret_set = NULL;
	}
	if (*ret_set && o->memory && o->draft.function_cnt && !o->draft.regex)
		select_allocators(o, &(*ret_set)->groups[0]);
	if (!*ret_set && o->memory && (!o->draft.lib_cnt || o->allocating_lib) && !o->draft.regex)
		know_allocators(o, ret_set);
	o->draft.name = name;
	code = group_name_check(name, err);
	if (code)
		return code;
	code = draft_group(o, *ret_set ? &(*ret_set)->groups[0] : NULL, true, ret_draft, err);
	if (code == -ENOENT && *ret_set && o->draft.function_cnt)
		return hint_command(o, err);
	if (code == -ENOENT && !*ret_set && o->draft.function_cnt == 1)
		return hint_function(o, o->draft.functions[0], err);
	return code;
}

/* "run prog -- ./prog" or "run prog -p PID" */
static bool names_file(const struct attach_options *o)
{
	const char *last = o->words.word[o->words.cnt - 1];

	return o->words.cnt == 2 && !o->draft.lib_cnt && !o->draft.regex && !strchr(last, ':') &&
		(o->pids.cnt || (o->draft.program && !strcmp(basename(o->draft.program), last))) &&
		is_file(o, last);
}

static void take_whole_file(struct attach_options *o)
{
	static char all[4096];
	char **last = &o->words.word[o->words.cnt - 1];

	cmd_note(o->g, "'%s' is a file: all of its functions", *last);
	snprintf(all, sizeof(all), "%s:*", *last);
	*last = all;
}

int draft_of_words(struct attach_options *o, const char *name,
	struct preset_set **ret_set, struct draft **ret_draft, struct err *err)
{
	const char *last = o->words.word[o->words.cnt - 1], *preset;
	const bool explain = o->draft.explain, file = explain && names_file(o);
	int code;

	o->draft.explain &= !file; /* which would be of a function of that name */
	code = draft_as_typed(o, name, ret_set, ret_draft, err);
	o->draft.explain = explain;
	if (code == -ENOENT && !*ret_set && (file || names_file(o))) {
		take_whole_file(o);
		return draft_as_typed(o, name, ret_set, ret_draft, err);
	}
	/* "run torch": run has put its own group before the word. */
	if (code != -ENOENT || *ret_set || o->words.cnt > 2 || o->draft.lib_cnt || strchr(last, ':') ||
		(o->words.cnt == 2 && strcmp(o->words.word[0], "run") != 0))
		return code;
	preset = preset_of_part(last);
	if (!preset)
		return code;
	cmd_note(o->g, "'%s' is preset '%s'", last, preset);
	o->words.word += o->words.cnt - 1;
	o->words.word[0] = (char *)preset;
	o->words.cnt = 1;
	return draft_as_typed(o, name, ret_set, ret_draft, err);
}
